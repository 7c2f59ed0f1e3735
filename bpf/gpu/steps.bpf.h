/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_GPU_STEPS_BPF_H
#define BPFPROF_BPF_GPU_STEPS_BPF_H

/*
 * The steps of a job that are wanted. A step is a window that the job itself opens in the profiler, or a
 * call of a method; user space reports when such a call begins and ends.
 */

#include "gpu/maps.bpf.h"

/* The wanted steps. Writer: user space. */
ARRAY_MAP(gpu_steps, 1, struct bpfprof_gpu_steps);

/* Windows by process. Writer: BPF. */
HASH_MAP(gpu_windows, 4096, struct bpfprof_gpu_process_key, struct bpfprof_gpu_window);

/* Processes in a wanted step, and processes that send their windows. Writer: user space. */
HASH_MAP(gpu_stepping, 4096, struct bpfprof_gpu_process_key, __u32);

static __always_inline const struct bpfprof_gpu_steps *steps_get(void)
{
	__u32 zero = 0;
	const struct bpfprof_gpu_steps *steps = bpf_map_lookup_elem(&gpu_steps, &zero);

	return steps && steps->start ? steps : NULL;
}

static __always_inline bool is_stepping(const struct bpfprof_gpu_process_key *key, __u32 bit)
{
	__u32 *bits = bpf_map_lookup_elem(&gpu_stepping, key);

	return bits && *bits & bit;
}

/*
 * Sends a begin or end of a window, if user space wants those of this process. number: of the
 * window, or 0.
 */
static __noinline void window_send(__u64 start_ns, __u32 pid, bool begins, __u32 number)
{
	struct bpfprof_gpu_process_key key = { .start_ns = start_ns, .pid = pid };
	struct bpfprof_window_event *e = NULL;

	if (!is_stepping(&key, BPFPROF_STEPPING_WINDOWS))
		return;
	if (ring_has_room())
		e = bpf_ringbuf_reserve(&ring, sizeof(*e), 0);
	if (!e) {
		count_add(BPFPROF_COUNT_WINDOWS_LOST, 1);
		return;
	}
	/* Its time is taken after its place in the ring, so later events lie behind it. */
	record_fill(&e->rec, BPFPROF_KIND_WINDOW, sizeof(*e));
	task_id_fill(&e->task, bpf_get_current_task_btf());
	e->begins = begins;
	e->number = number;
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
}

/*
 * A window begins or ends; a nested one is part of the outer one. Returns its number, 0 without
 * room.
 */
static __noinline __u32 window_note(__u64 start_ns, __u32 pid, bool begins)
{
	struct bpfprof_gpu_process_key key = { .start_ns = start_ns, .pid = pid };
	struct bpfprof_gpu_window fresh = { 0 }, *window;

	if (begins)
		bpf_map_update_elem(&gpu_windows, &key, &fresh, BPF_NOEXIST);
	window = bpf_map_lookup_elem(&gpu_windows, &key);
	if (!window) {
		if (begins)
			gpu_count(GPU_COUNT_KEYS_FULL);
		return 0;
	}
	if (begins && !window->open)
		__sync_fetch_and_add(&window->begun, 1);
	window->open = begins;
	return window->begun;
}

enum step { STEP_NONE, STEP_CALL, STEP_WINDOW };

static __always_inline enum step step_of(const struct bpfprof_gpu_steps *steps, __u64 start_ns,
					 __u32 pid)
{
	struct bpfprof_gpu_process_key key = { .start_ns = start_ns, .pid = pid };
	struct bpfprof_gpu_window *window = bpf_map_lookup_elem(&gpu_windows, &key);

	if (window && window->open && window->begun >= steps->start && window->begun < steps->stop)
		return STEP_WINDOW;
	return is_stepping(&key, BPFPROF_STEPPING_IN_STEP) ? STEP_CALL : STEP_NONE;
}

#endif
