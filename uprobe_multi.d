uprobe_multi.o: user/kernel/probes/uprobe_multi.c \
  user/kernel/probes/uprobe_multi.h user/base/cleanup.h user/base/time.h

user/kernel/probes/uprobe_multi.h:

user/base/cleanup.h:

user/base/time.h:
