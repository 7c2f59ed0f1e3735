daemon_memory.o: user/daemon/daemon_memory.c user/daemon/daemon.h \
  user/base/buf.h user/base/host_name.h user/capture/memory_watch.h \
  user/capture/process_choice.h user/capture/container_filter.h \
  user/capture/sampler.h user/base/counters.h \
  user/capture/capture_options.h user/kernel/session.h bpf/bpfprof.h \
  bpf/config.h bpf/arch.h bpf/arch_x86_64.h bpf/counters.h bpf/cpython.h \
  bpf/record.h bpf/frame.h bpf/mappings.h bpf/reads.h user/ray/steps.h \
  user/capture/root_check.h user/kernel/event.h bpf/gpu_calls.h \
  bpf/page_sample.h bpf/wait_times.h user/threads/thread_reader.h \
  user/base/deadline.h user/base/refusals.h user/base/hash_table.h \
  user/kernel/walk.h user/base/budget.h user/kernel/image_copy.h \
  user/python/merge.h user/daemon/daemon_options.h user/base/log.h \
  user/daemon/push_options.h user/options/flag.h user/daemon/store.h \
  user/daemon/store_access.h user/options/options.h \
  user/formats/output.h user/options/flags.h user/profile/grouping.h \
  user/daemon/pusher.h user/daemon/push_post.h \
  user/daemon/push_request.h user/daemon/remote_profile.h \
  user/daemon/remote_profile_query.h user/daemon/token_tries.h \
  user/daemon/http_address.h user/profile/stats.h user/gpu/monitor.h \
  user/gpu/call_table.h user/cuda/functions.h user/gpu/graphs.h \
  user/profile/profile.h user/memory/monitor.h user/memory/answer.h \
  user/base/process_map.h user/proc/rss.h user/profile/aggregate.h \
  user/proc/title.h user/profile/sample_counts.h user/memory/kills.h \
  user/memory/steady_stacks.h user/options/memory_options.h \
  user/options/config.h user/findings/findings.h user/memory/growth.h \
  user/profile/aggregate_stats.h

user/daemon/daemon.h:

user/base/buf.h:

user/base/host_name.h:

user/capture/memory_watch.h:

user/capture/process_choice.h:

user/capture/container_filter.h:

user/capture/sampler.h:

user/base/counters.h:

user/capture/capture_options.h:

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

user/base/hash_table.h:

user/kernel/walk.h:

user/base/budget.h:

user/kernel/image_copy.h:

user/python/merge.h:

user/daemon/daemon_options.h:

user/base/log.h:

user/daemon/push_options.h:

user/options/flag.h:

user/daemon/store.h:

user/daemon/store_access.h:

user/options/options.h:

user/formats/output.h:

user/options/flags.h:

user/profile/grouping.h:

user/daemon/pusher.h:

user/daemon/push_post.h:

user/daemon/push_request.h:

user/daemon/remote_profile.h:

user/daemon/remote_profile_query.h:

user/daemon/token_tries.h:

user/daemon/http_address.h:

user/profile/stats.h:

user/gpu/monitor.h:

user/gpu/call_table.h:

user/cuda/functions.h:

user/gpu/graphs.h:

user/profile/profile.h:

user/memory/monitor.h:

user/memory/answer.h:

user/base/process_map.h:

user/proc/rss.h:

user/profile/aggregate.h:

user/proc/title.h:

user/profile/sample_counts.h:

user/memory/kills.h:

user/memory/steady_stacks.h:

user/options/memory_options.h:

user/options/config.h:

user/findings/findings.h:

user/memory/growth.h:

user/profile/aggregate_stats.h:
