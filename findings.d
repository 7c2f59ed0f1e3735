findings.o: user/findings/findings.c user/findings/findings.h \
  user/proc/title.h user/base/buf.h user/base/log.h user/base/text.h \
  user/base/time.h user/tasks/task_group.h user/tasks/task_times.h

user/findings/findings.h:

user/proc/title.h:

user/base/buf.h:

user/base/log.h:

user/base/text.h:

user/base/time.h:

user/tasks/task_group.h:

user/tasks/task_times.h:
