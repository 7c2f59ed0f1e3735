record_timeline.o: user/cmd/record_timeline.c user/cmd/record_timeline.h \
  user/base/counters.h user/base/buf.h user/base/cleanup.h \
  user/base/host_name.h user/base/log.h user/base/time.h \
  user/capture/container_filter.h user/capture/sampler.h \
  user/capture/capture_options.h user/kernel/session.h bpf/bpfprof.h \
  bpf/config.h bpf/arch.h bpf/arch_x86_64.h bpf/counters.h bpf/cpython.h \
  bpf/record.h bpf/frame.h bpf/mappings.h bpf/reads.h user/ray/steps.h \
  user/capture/root_check.h user/kernel/event.h bpf/gpu_calls.h \
  bpf/page_sample.h bpf/wait_times.h user/threads/thread_reader.h \
  user/base/deadline.h user/base/refusals.h user/base/hash_table.h \
  user/kernel/walk.h user/base/budget.h user/kernel/image_copy.h \
  user/python/merge.h user/capture/worker_titles.h \
  user/container/containers.h user/formats/output.h \
  user/formats/trace_place.h user/kernel/titles.h user/options/options.h \
  user/options/flags.h user/options/flag.h user/profile/grouping.h \
  user/proc/processes.h user/proc/title.h user/profile/stats.h \
  user/ray/calls.h user/ray/ray_role.h user/ray/worker_match.h \
  user/tasks/task_calls.h user/tasks/task_cpu.h user/tasks/task_group.h \
  user/tasks/task_timeline.h user/formats/trace_facts.h \
  user/tasks/task_trace.h

user/cmd/record_timeline.h:

user/base/counters.h:

user/base/buf.h:

user/base/cleanup.h:

user/base/host_name.h:

user/base/log.h:

user/base/time.h:

user/capture/container_filter.h:

user/capture/sampler.h:

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

user/capture/worker_titles.h:

user/container/containers.h:

user/formats/output.h:

user/formats/trace_place.h:

user/kernel/titles.h:

user/options/options.h:

user/options/flags.h:

user/options/flag.h:

user/profile/grouping.h:

user/proc/processes.h:

user/proc/title.h:

user/profile/stats.h:

user/ray/calls.h:

user/ray/ray_role.h:

user/ray/worker_match.h:

user/tasks/task_calls.h:

user/tasks/task_cpu.h:

user/tasks/task_group.h:

user/tasks/task_timeline.h:

user/formats/trace_facts.h:

user/tasks/task_trace.h:
