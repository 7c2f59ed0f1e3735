allocations.o: user/memory/allocations.c user/memory/allocations.h \
  user/base/counters.h user/base/process_map.h user/base/hash_table.h \
  bpf/bpfprof.h bpf/config.h bpf/arch.h bpf/arch_x86_64.h bpf/counters.h \
  bpf/cpython.h bpf/record.h bpf/frame.h bpf/mappings.h bpf/reads.h \
  user/memory/slowdown.h user/base/exit_status.h user/base/log.h \
  user/base/strtab.h user/base/time.h user/base/vec.h \
  user/capture/sampler.h user/capture/capture_options.h \
  user/capture/container_filter.h user/kernel/session.h user/ray/steps.h \
  user/capture/root_check.h user/kernel/event.h bpf/gpu_calls.h \
  bpf/page_sample.h bpf/wait_times.h user/threads/thread_reader.h \
  user/base/deadline.h user/base/refusals.h user/kernel/walk.h \
  user/base/budget.h user/kernel/image_copy.h user/python/merge.h \
  user/kernel/held_blocks.h bpf/allocations.h \
  user/kernel/probes/alloc_probes.h user/kernel/probes/uprobe_multi.h \
  user/proc/processes.h user/proc/usage.h user/profile/aggregate.h \
  user/proc/title.h user/profile/profile.h user/profile/sample_counts.h \
  user/profile/stats.h

user/memory/allocations.h:

user/base/counters.h:

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

user/memory/slowdown.h:

user/base/exit_status.h:

user/base/log.h:

user/base/strtab.h:

user/base/time.h:

user/base/vec.h:

user/capture/sampler.h:

user/capture/capture_options.h:

user/capture/container_filter.h:

user/kernel/session.h:

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

user/kernel/held_blocks.h:

bpf/allocations.h:

user/kernel/probes/alloc_probes.h:

user/kernel/probes/uprobe_multi.h:

user/proc/processes.h:

user/proc/usage.h:

user/profile/aggregate.h:

user/proc/title.h:

user/profile/profile.h:

user/profile/sample_counts.h:

user/profile/stats.h:
