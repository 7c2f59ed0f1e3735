kills.o: user/memory/kills.c user/memory/kills.h user/base/process_map.h \
  user/base/hash_table.h bpf/bpfprof.h bpf/config.h bpf/arch.h \
  bpf/arch_x86_64.h bpf/counters.h bpf/cpython.h bpf/record.h \
  bpf/frame.h bpf/mappings.h bpf/reads.h user/memory/answer.h \
  user/proc/rss.h user/profile/aggregate.h user/proc/title.h \
  user/profile/profile.h user/base/counters.h \
  user/profile/sample_counts.h user/python/merge.h user/base/vec.h

user/memory/kills.h:

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

user/memory/answer.h:

user/proc/rss.h:

user/profile/aggregate.h:

user/proc/title.h:

user/profile/profile.h:

user/base/counters.h:

user/profile/sample_counts.h:

user/python/merge.h:

user/base/vec.h:
