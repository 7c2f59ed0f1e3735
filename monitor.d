monitor.o: user/memory/monitor.c user/memory/monitor.h \
  user/base/counters.h user/base/hash_table.h user/memory/answer.h \
  user/base/process_map.h bpf/bpfprof.h bpf/config.h bpf/arch.h \
  bpf/arch_x86_64.h bpf/counters.h bpf/cpython.h bpf/record.h \
  bpf/frame.h bpf/mappings.h bpf/reads.h user/proc/rss.h \
  user/profile/aggregate.h user/proc/title.h user/profile/profile.h \
  user/profile/sample_counts.h user/python/merge.h user/memory/kills.h \
  user/memory/steady_stacks.h user/options/memory_options.h \
  user/options/options.h user/capture/capture_options.h \
  user/capture/container_filter.h user/kernel/session.h user/ray/steps.h \
  user/formats/output.h user/options/flags.h user/options/flag.h \
  user/profile/grouping.h user/base/background.h user/base/cleanup.h \
  user/base/exit_status.h user/base/log.h user/base/strtab.h \
  user/base/time.h user/capture/sampler.h user/capture/root_check.h \
  user/kernel/event.h bpf/gpu_calls.h bpf/page_sample.h bpf/wait_times.h \
  user/threads/thread_reader.h user/base/deadline.h user/base/refusals.h \
  user/kernel/walk.h user/base/budget.h user/kernel/image_copy.h \
  user/kernel/held_pages.h user/memory/resident.h \
  user/findings/findings.h user/proc/processes.h user/proc/usage.h \
  user/profile/aggregate_rollover.h user/profile/stats.h

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

user/base/background.h:

user/base/cleanup.h:

user/base/exit_status.h:

user/base/log.h:

user/base/strtab.h:

user/base/time.h:

user/capture/sampler.h:

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

user/kernel/held_pages.h:

user/memory/resident.h:

user/findings/findings.h:

user/proc/processes.h:

user/proc/usage.h:

user/profile/aggregate_rollover.h:

user/profile/stats.h:
