growth.o: user/memory/growth.c user/memory/growth.h user/base/strtab.h \
  user/findings/findings.h user/proc/title.h user/memory/holders.h \
  user/memory/kills.h user/base/process_map.h user/base/hash_table.h \
  bpf/bpfprof.h bpf/config.h bpf/arch.h bpf/arch_x86_64.h bpf/counters.h \
  bpf/cpython.h bpf/record.h bpf/frame.h bpf/mappings.h bpf/reads.h \
  user/memory/answer.h user/proc/rss.h user/profile/aggregate.h \
  user/profile/profile.h user/base/counters.h \
  user/profile/sample_counts.h user/python/merge.h user/memory/monitor.h \
  user/memory/steady_stacks.h user/options/memory_options.h \
  user/options/options.h user/capture/capture_options.h \
  user/capture/container_filter.h user/kernel/session.h user/ray/steps.h \
  user/formats/output.h user/options/flags.h user/options/flag.h \
  user/profile/grouping.h user/memory/resident.h \
  user/proc/cgroup_limits.h

user/memory/growth.h:

user/base/strtab.h:

user/findings/findings.h:

user/proc/title.h:

user/memory/holders.h:

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

user/profile/profile.h:

user/base/counters.h:

user/profile/sample_counts.h:

user/python/merge.h:

user/memory/monitor.h:

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

user/memory/resident.h:

user/proc/cgroup_limits.h:
