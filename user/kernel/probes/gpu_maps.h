/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_PROBES_GPU_MAPS_H
#define BPFPROF_KERNEL_PROBES_GPU_MAPS_H

/*
 * The kernel's maps of GPU calls, of a session with the option gpu or gpu_windows: counts of calls,
 * threads in calls, communicators, memory, windows.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu_calls.h"

struct bpf_map;
struct session;

enum gpu_map {
	GPU_MAP_COUNTS,
	GPU_MAP_THREADS,
	GPU_MAP_COMMS,
	GPU_MAP_MEMORY,
	GPU_MAP_WINDOWS,
};

union gpu_map_key {
	struct bpfprof_gpu_key call; /* of COUNTS */
	uint32_t tid; /* of THREADS */
	struct bpfprof_gpu_comm_key comm; /* of COMMS */
	struct bpfprof_gpu_process_key process; /* of MEMORY and WINDOWS */
};

/* A walk over one map. The caller reads key and value after each gpu_map_next(). */
struct gpu_map_walk {
	union gpu_map_key key;
	union {
		struct bpfprof_gpu_count count;
		struct bpfprof_gpu_thread thread;
		struct bpfprof_gpu_comm comm;
		struct bpfprof_gpu_memory memory;
		struct bpfprof_gpu_window window;
	} value;
	enum gpu_map kind;
	struct bpf_map *map;
	union gpu_map_key next;
	size_t left; /* entries may be added during the walk, which ends after so many */
	int err;
};

void gpu_map_begin(struct gpu_map_walk *walk, const struct session *session, enum gpu_map kind);
/* The next entry; false at the end. The caller may delete the entry. */
bool gpu_map_next(struct gpu_map_walk *walk);

/* Has the thread made a call since it was hooked, and was it not idle for long since? */
bool gpu_maps_thread_has_called(const struct session *session, uint32_t tid, uint32_t pid,
				uint64_t start_ns);
/* Is the thread still in that call? */
bool gpu_maps_thread_is_in(const struct session *session, uint32_t tid,
			   const struct bpfprof_gpu_open *open);
/* Is the thread, of the process that started then, in a copy to the device that it waits for? */
bool gpu_maps_thread_copies(const struct session *session, uint32_t tid, uint64_t start_ns);
/*
 * Has the thread ended, in a call that never returns? False in a pid namespace of our own, where
 * the kernel cannot be asked: there the end of the process is the answer.
 */
bool gpu_maps_thread_has_ended(const struct session *session, uint32_t pid, uint32_t tid);
/* The same of a process. */
bool gpu_maps_process_has_ended(const struct session *session, uint32_t pid);

void gpu_maps_counters(const struct session *session, uint64_t counters[GPU_NR_COUNTERS]);
/* Has the process made a window of the profiler? */
bool gpu_maps_has_window(const struct session *session, uint32_t pid, uint64_t start_ns);

/* The next five are for processes that have ended: the kernel no longer writes their entries. */

/* Adds the time of a call that the process was in when it ended. */
void gpu_maps_count_add(const struct session *session, const struct bpfprof_gpu_key *key,
			uint64_t ns);
void gpu_maps_count_delete(const struct session *session, const struct bpfprof_gpu_key *key);
void gpu_maps_comm_delete(const struct session *session, const struct bpfprof_gpu_comm_key *key);
void gpu_maps_memory_delete(const struct session *session,
			    const struct bpfprof_gpu_process_key *key);
/* Deletes the number of counts that the process has; the counts themselves are deleted first. */
void gpu_maps_process_delete(const struct session *session,
			     const struct bpfprof_gpu_process_key *key);
void gpu_maps_thread_delete(const struct session *session, uint32_t tid);

/* Deletes threads that are in no call, or have ended, and made no call since idle_since_ns. */
void gpu_maps_sweep(const struct session *session, uint64_t idle_since_ns);

/*
 * Calls count only in the profiler's windows [start, stop) of each process, which key.flags say,
 * and in processes that gpu_probes_step() says are in a step. 0 or -errno.
 */
int gpu_maps_steps(const struct session *session, uint64_t start, uint64_t stop);
/* Sets or clears a bit BPFPROF_STEPPING_* of a process. False: there is no room. */
bool gpu_maps_stepping_set(const struct session *session, uint32_t pid, uint64_t start_ns,
			   uint32_t bit, bool on);

/* Writes the table of functions and the programs that the probes call. 0 or -errno. */
int gpu_maps_init(const struct session *session);

#endif
