held_blocks.o: user/kernel/held_blocks.c user/kernel/held_blocks.h \
  bpf/allocations.h bpf/bpfprof.h bpf/config.h bpf/arch.h \
  bpf/arch_x86_64.h bpf/counters.h bpf/cpython.h bpf/record.h \
  bpf/frame.h bpf/mappings.h bpf/reads.h user/base/cleanup.h \
  user/kernel/session.h build/bpfprof.skel.h

user/kernel/held_blocks.h:

bpf/allocations.h:

bpf/bpfprof.h:

bpf/config.h:

bpf/arch.h:

bpf/arch_x86_64.h:

bpf/counters.h:

bpf/cpython.h:

bpf/record.h:

bpf/frame.h:

bpf/mappings.h:

bpf/reads.h:

user/base/cleanup.h:

user/kernel/session.h:

build/bpfprof.skel.h:
