slowdown.o: user/memory/slowdown.c user/memory/slowdown.h \
  user/base/time.h

user/memory/slowdown.h:

user/base/time.h:
