holders.o: user/memory/holders.c user/memory/holders.h user/base/buf.h \
  user/base/cleanup.h user/base/strtab.h user/formats/profile_text.h \
  user/memory/monitor.h user/base/counters.h user/base/hash_table.h \
  user/memory/answer.h user/base/process_map.h bpf/bpfprof.h \
  bpf/config.h bpf/arch.h bpf/arch_x86_64.h bpf/counters.h bpf/cpython.h \
  bpf/record.h bpf/frame.h bpf/mappings.h bpf/reads.h user/proc/rss.h \
  user/profile/aggregate.h user/proc/title.h user/profile/profile.h \
  user/profile/sample_counts.h user/python/merge.h user/memory/kills.h \
  user/memory/steady_stacks.h user/options/memory_options.h \
  user/options/options.h user/capture/capture_options.h \
  user/capture/container_filter.h user/kernel/session.h user/ray/steps.h \
  user/formats/output.h user/options/flags.h user/options/flag.h \
  user/profile/grouping.h

user/memory/holders.h:

user/base/buf.h:

user/base/cleanup.h:

user/base/strtab.h:

user/formats/profile_text.h:

user/memory/monitor.h:

user/base/counters.h:

user/base/hash_table.h:

user/memory/answer.h:

user/base/process_map.h:

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

user/proc/rss.h:

user/profile/aggregate.h:

user/proc/title.h:

user/profile/profile.h:

user/profile/sample_counts.h:

user/python/merge.h:

user/memory/kills.h:

user/memory/steady_stacks.h:

user/options/memory_options.h:

user/options/options.h:

user/capture/capture_options.h:

user/capture/container_filter.h:

user/kernel/session.h:

user/ray/steps.h:

user/formats/output.h:

user/options/flags.h:

user/options/flag.h:

user/profile/grouping.h:
