// SPDX-License-Identifier: Apache-2.0
#include "kernel/probes/gpu_waits_map.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stddef.h>

#include "kernel/session.h"
#include "bpfprof.skel.h"

bool gpu_waits_map_get(const struct session *session, uint32_t at, struct bpfprof_gpu_waits *ret)
{
	return !bpf_map__lookup_elem(session->skel->maps.gpu_waits, &at, sizeof(at), ret,
				     sizeof(*ret), 0) &&
	       ret->start_ns && ret->pid;
}

void gpu_waits_map_each(const struct session *session,
			void (*each)(void *arg, const struct bpfprof_gpu_waits *process), void *arg)
{
	struct bpfprof_gpu_waits process;
	uint32_t at;

	for (at = 0; at < BPFPROF_GPU_MAX_WAITS; at++)
		if (gpu_waits_map_get(session, at, &process))
			each(arg, &process);
}

_Static_assert(sizeof(struct bpfprof_gpu_event_key) == sizeof(struct bpfprof_gpu_graph_key) &&
		       offsetof(struct bpfprof_gpu_event_key, pid) ==
			       offsetof(struct bpfprof_gpu_graph_key, pid),
	       "elements_forget() takes the one for the other");

/* Deletes the entries of a process in the map of events or in that of graphs or kernels. */
static void elements_forget(struct bpf_map *map, uint32_t pid, uint64_t start_ns)
{
	/* Entries may be added during this loop. */
	size_t left = 2 * (size_t)bpf_map__max_entries(map);
	struct bpfprof_gpu_event_key key, next;
	int err = bpf_map__get_next_key(map, NULL, &next, sizeof(next));

	while (!err && left--) {
		key = next;
		/* Read before the entry is deleted. */
		err = bpf_map__get_next_key(map, &key, &next, sizeof(next));
		if (key.pid == pid && key.start_ns == start_ns)
			bpf_map__delete_elem(map, &key, sizeof(key), 0);
	}
}

static void kernels_forget(const struct session *session, uint32_t pid, uint64_t start_ns)
{
	const struct bpfprof_gpu_process_key key = { .start_ns = start_ns, .pid = pid };
	struct bpfprof_gpu_process process;

	if (!bpf_map__lookup_elem(session->skel->maps.gpu_processes, &key, sizeof(key), &process,
				  sizeof(process), 0) &&
	    process.kernels)
		elements_forget(session->skel->maps.gpu_kernels, pid, start_ns);
}

void gpu_waits_map_forget(const struct session *session, uint32_t pid, uint64_t start_ns,
			  void (*last)(void *arg, const struct bpfprof_gpu_waits *process),
			  void *arg)
{
	struct bpf_map *map = session->skel->maps.gpu_waits;
	const struct bpfprof_gpu_waits none = { 0 };
	struct bpfprof_gpu_waits process;
	uint32_t i, at;

	kernels_forget(session, pid, start_ns);
	for (i = 0; i < BPFPROF_GPU_MAX_WAITS; i++) {
		at = (pid + i) % BPFPROF_GPU_MAX_WAITS;
		if (!gpu_waits_map_get(session, at, &process) || process.pid != pid ||
		    process.start_ns != start_ns)
			continue;
		last(arg, &process);
		if (process.events)
			elements_forget(session->skel->maps.gpu_events, pid, start_ns);
		if (process.numbers)
			elements_forget(session->skel->maps.gpu_graphs, pid, start_ns);
		bpf_map__update_elem(map, &at, sizeof(at), &none, sizeof(none), 0);
		return;
	}
}
