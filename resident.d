resident.o: user/memory/resident.c user/memory/resident.h \
  user/base/process_map.h user/base/hash_table.h bpf/bpfprof.h \
  bpf/config.h bpf/arch.h bpf/arch_x86_64.h bpf/counters.h bpf/cpython.h \
  bpf/record.h bpf/frame.h bpf/mappings.h bpf/reads.h \
  user/findings/findings.h user/proc/title.h user/proc/rss.h \
  user/base/time.h user/proc/cgroup_limits.h

user/memory/resident.h:

user/base/process_map.h:

user/base/hash_table.h:

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

user/findings/findings.h:

user/proc/title.h:

user/proc/rss.h:

user/base/time.h:

user/proc/cgroup_limits.h:
