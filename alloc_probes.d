alloc_probes.o: user/kernel/probes/alloc_probes.c \
  user/kernel/probes/alloc_probes.h bpf/allocations.h bpf/bpfprof.h \
  bpf/config.h bpf/arch.h bpf/arch_x86_64.h bpf/counters.h bpf/cpython.h \
  bpf/record.h bpf/frame.h bpf/mappings.h bpf/reads.h \
  user/base/cleanup.h user/base/closer.h user/base/deadline.h \
  user/base/hash_table.h user/base/log.h user/base/time.h \
  user/elf/image.h user/kernel/probes/allocator.h \
  user/kernel/probes/uprobe_multi.h user/kernel/session.h \
  user/proc/image_file.h user/proc/image_find.h user/proc/images.h \
  user/proc/image_problem.h user/base/counters.h user/proc/processes.h \
  build/bpfprof.skel.h

user/kernel/probes/alloc_probes.h:

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

user/base/closer.h:

user/base/deadline.h:

user/base/hash_table.h:

user/base/log.h:

user/base/time.h:

user/elf/image.h:

user/kernel/probes/allocator.h:

user/kernel/probes/uprobe_multi.h:

user/kernel/session.h:

user/proc/image_file.h:

user/proc/image_find.h:

user/proc/images.h:

user/proc/image_problem.h:

user/base/counters.h:

user/proc/processes.h:

build/bpfprof.skel.h:
