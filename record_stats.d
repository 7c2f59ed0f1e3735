record_stats.o: user/cmd/record_stats.c user/base/strtab.h \
  user/base/time.h user/base/vec.h user/cmd/recording.h \
  user/base/process_map.h user/base/hash_table.h \
  user/capture/memory_watch.h user/capture/sampler.h \
  user/base/counters.h user/capture/capture_options.h \
  user/capture/container_filter.h user/kernel/session.h bpf/bpfprof.h \
  bpf/config.h bpf/arch.h bpf/arch_x86_64.h bpf/counters.h bpf/cpython.h \
  bpf/record.h bpf/frame.h bpf/mappings.h bpf/reads.h user/ray/steps.h \
  user/capture/root_check.h user/kernel/event.h bpf/gpu_calls.h \
  bpf/page_sample.h bpf/wait_times.h user/threads/thread_reader.h \
  user/base/deadline.h user/base/refusals.h user/kernel/walk.h \
  user/base/budget.h user/kernel/image_copy.h user/python/merge.h \
  user/cmd/child_command.h user/gpu/monitor.h user/gpu/call_table.h \
  user/cuda/functions.h user/gpu/graphs.h user/profile/profile.h \
  user/profile/stats.h user/memory/monitor.h user/memory/answer.h \
  user/proc/rss.h user/profile/aggregate.h user/proc/title.h \
  user/profile/sample_counts.h user/memory/kills.h \
  user/memory/steady_stacks.h user/options/memory_options.h \
  user/options/options.h user/formats/output.h user/options/flags.h \
  user/options/flag.h user/profile/grouping.h \
  user/findings/record_findings.h user/findings/findings.h \
  user/proc/usage.h user/profile/aggregate_stats.h \
  user/profile/thread_times.h

user/base/strtab.h:

user/base/time.h:

user/base/vec.h:

user/cmd/recording.h:

user/base/process_map.h:

user/base/hash_table.h:

user/capture/memory_watch.h:

user/capture/sampler.h:

user/base/counters.h:

user/capture/capture_options.h:

user/capture/container_filter.h:

user/kernel/session.h:

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

user/ray/steps.h:

user/capture/root_check.h:

user/kernel/event.h:

bpf/gpu_calls.h:

bpf/page_sample.h:

bpf/wait_times.h:

user/threads/thread_reader.h:

user/base/deadline.h:

user/base/refusals.h:

user/kernel/walk.h:

user/base/budget.h:

user/kernel/image_copy.h:

user/python/merge.h:

user/cmd/child_command.h:

user/gpu/monitor.h:

user/gpu/call_table.h:

user/cuda/functions.h:

user/gpu/graphs.h:

user/profile/profile.h:

user/profile/stats.h:

user/memory/monitor.h:

user/memory/answer.h:

user/proc/rss.h:

user/profile/aggregate.h:

user/proc/title.h:

user/profile/sample_counts.h:

user/memory/kills.h:

user/memory/steady_stacks.h:

user/options/memory_options.h:

user/options/options.h:

user/formats/output.h:

user/options/flags.h:

user/options/flag.h:

user/profile/grouping.h:

user/findings/record_findings.h:

user/findings/findings.h:

user/proc/usage.h:

user/profile/aggregate_stats.h:

user/profile/thread_times.h:
