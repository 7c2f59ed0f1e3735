// SPDX-License-Identifier: Apache-2.0
#include "kernel/probes/gpu_maps.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cuda/functions.h"
#include "kernel/session.h"
#include "bpfprof.skel.h"

static bool lookup(struct bpf_map *map, const void *key, void *ret)
{
	return !bpf_map__lookup_elem(map, key, bpf_map__key_size(map), ret,
				     bpf_map__value_size(map), 0);
}

static int update(struct bpf_map *map, const void *key, const void *value)
{
	return bpf_map__update_elem(map, key, bpf_map__key_size(map), value,
				    bpf_map__value_size(map), BPF_ANY)
		       ? -errno
		       : 0;
}

static void entry_delete(struct bpf_map *map, const void *key)
{
	bpf_map__delete_elem(map, key, bpf_map__key_size(map), 0);
}

static struct bpf_map *map_of(const struct session *session, enum gpu_map kind)
{
	switch (kind) {
	case GPU_MAP_COUNTS:
		return session->skel->maps.gpu_counts;
	case GPU_MAP_THREADS:
		return session->skel->maps.gpu_threads;
	case GPU_MAP_COMMS:
		return session->skel->maps.gpu_comms;
	case GPU_MAP_MEMORY:
		return session->skel->maps.gpu_memory;
	default:
		return session->skel->maps.gpu_windows;
	}
}

void gpu_map_begin(struct gpu_map_walk *walk, const struct session *session, enum gpu_map kind)
{
	struct bpf_map *map = map_of(session, kind);

	*walk = (struct gpu_map_walk){ .kind = kind, .map = map };
	walk->left = 2 * (size_t)bpf_map__max_entries(map);
	walk->err = bpf_map__get_next_key(map, NULL, &walk->next, bpf_map__key_size(map));
}

bool gpu_map_next(struct gpu_map_walk *walk)
{
	while (!walk->err && walk->left--) {
		walk->key = walk->next;
		/* The next key is read now, since the caller may delete the entry. */
		walk->err = bpf_map__get_next_key(walk->map, &walk->key, &walk->next,
						  bpf_map__key_size(walk->map));
		if (lookup(walk->map, &walk->key, &walk->value) &&
		    (walk->kind != GPU_MAP_THREADS ||
		     walk->value.thread.depth <= BPFPROF_GPU_MAX_OPEN))
			return true;
	}
	return false;
}

static bool thread_get(const struct session *session, uint32_t tid, struct bpfprof_gpu_thread *ret)
{
	return lookup(session->skel->maps.gpu_threads, &tid, ret);
}

bool gpu_maps_thread_has_called(const struct session *session, uint32_t tid, uint32_t pid,
				uint64_t start_ns)
{
	struct bpfprof_gpu_thread thread;

	return thread_get(session, tid, &thread) && thread.pid == pid &&
	       thread.start_ns == start_ns;
}

bool gpu_maps_thread_is_in(const struct session *session, uint32_t tid,
			   const struct bpfprof_gpu_open *open)
{
	struct bpfprof_gpu_thread thread;
	uint32_t i;

	if (!thread_get(session, tid, &thread))
		return false;
	for (i = 0; i < thread.depth && i < BPFPROF_GPU_MAX_OPEN; i++)
		if (thread.open[i].begin_ns == open->begin_ns &&
		    !memcmp(&thread.open[i].key, &open->key, sizeof(open->key)))
			return true;
	return false;
}

bool gpu_maps_thread_copies(const struct session *session, uint32_t tid, uint64_t start_ns)
{
	struct bpfprof_gpu_thread thread;
	uint32_t i;

	if (!thread_get(session, tid, &thread) || thread.start_ns != start_ns)
		return false;
	for (i = 0; i < thread.depth && i < BPFPROF_GPU_MAX_OPEN; i++)
		if (thread.open[i].flags & BPFPROF_CALL_TO_DEVICE)
			return true;
	return false;
}

bool gpu_maps_thread_has_ended(const struct session *session, uint32_t pid, uint32_t tid)
{
	return session_pids_are_the_nodes(session) && syscall(SYS_tgkill, pid, tid, 0) &&
	       errno == ESRCH;
}

bool gpu_maps_process_has_ended(const struct session *session, uint32_t pid)
{
	return session_pids_are_the_nodes(session) && kill((pid_t)pid, 0) && errno == ESRCH;
}

void gpu_maps_counters(const struct session *session, uint64_t counters[GPU_NR_COUNTERS])
{
	uint32_t i;

	for (i = 0; i < GPU_NR_COUNTERS; i++)
		if (!lookup(session->skel->maps.gpu_counters, &i, &counters[i]))
			counters[i] = 0;
}

bool gpu_maps_has_window(const struct session *session, uint32_t pid, uint64_t start_ns)
{
	const struct bpfprof_gpu_process_key key = { .start_ns = start_ns, .pid = pid };
	struct bpfprof_gpu_window window;

	return lookup(session->skel->maps.gpu_windows, &key, &window);
}

void gpu_maps_count_add(const struct session *session, const struct bpfprof_gpu_key *key,
			uint64_t ns)
{
	struct bpfprof_gpu_count count;

	if (!lookup(session->skel->maps.gpu_counts, key, &count))
		return;
	count.ns += ns;
	if (count.max_ns < ns)
		count.max_ns = ns;
	bpf_map__update_elem(session->skel->maps.gpu_counts, key, sizeof(*key), &count,
			     sizeof(count), BPF_EXIST);
}

void gpu_maps_count_delete(const struct session *session, const struct bpfprof_gpu_key *key)
{
	entry_delete(session->skel->maps.gpu_counts, key);
}

void gpu_maps_comm_delete(const struct session *session, const struct bpfprof_gpu_comm_key *key)
{
	entry_delete(session->skel->maps.gpu_comms, key);
}

void gpu_maps_memory_delete(const struct session *session,
			    const struct bpfprof_gpu_process_key *key)
{
	entry_delete(session->skel->maps.gpu_memory, key);
}

void gpu_maps_process_delete(const struct session *session,
			     const struct bpfprof_gpu_process_key *key)
{
	entry_delete(session->skel->maps.gpu_processes, key);
}

void gpu_maps_thread_delete(const struct session *session, uint32_t tid)
{
	entry_delete(session->skel->maps.gpu_threads, &tid);
}

void gpu_maps_sweep(const struct session *session, uint64_t idle_since_ns)
{
	const struct bpfprof_gpu_thread *thread;
	struct gpu_map_walk walk;

	gpu_map_begin(&walk, session, GPU_MAP_THREADS);
	while (gpu_map_next(&walk)) {
		thread = &walk.value.thread;
		if (thread->last_ns < idle_since_ns &&
		    (!thread->depth ||
		     gpu_maps_thread_has_ended(session, thread->pid, walk.key.tid)))
			gpu_maps_thread_delete(session, walk.key.tid);
	}
}

int gpu_maps_steps(const struct session *session, uint64_t start, uint64_t stop)
{
	const struct bpfprof_gpu_steps steps = { .start = start, .stop = stop };

	return update(session->skel->maps.gpu_steps, &(uint32_t){ 0 }, &steps);
}

bool gpu_maps_stepping_set(const struct session *session, uint32_t pid, uint64_t start_ns,
			   uint32_t bit, bool on)
{
	const struct bpfprof_gpu_process_key key = { .start_ns = start_ns, .pid = pid };
	struct bpf_map *map = session->skel->maps.gpu_stepping;
	uint32_t bits = 0;

	if (!lookup(map, &key, &bits))
		bits = 0;
	bits = on ? bits | bit : bits & ~bit;
	if (bits)
		return !update(map, &key, &bits);
	entry_delete(map, &key);
	return true;
}

int gpu_maps_init(const struct session *session)
{
	const struct bpfprof_bpf *skel = session->skel;
	const struct gpu_function *functions;
	int stack_fd = bpf_program__fd(skel->progs.gpu_stack), err = 0;
	uint32_t i = 0;
	size_t nr;

	if (stack_fd >= 0)
		err = update(skel->maps.gpu_programs, &i, &stack_fd);
	functions = gpu_functions(&nr);
	for (i = 1; i < nr && i < BPFPROF_GPU_MAX_FUNCTIONS && !err; i++)
		err = update(skel->maps.gpu_functions, &i, &functions[i].wire);
	return err;
}
