/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_PROBES_GPU_PROBES_H
#define BPFPROF_KERNEL_PROBES_GPU_PROBES_H

/*
 * Probes on the CUDA and NCCL functions of every library that some process maps, put there as files
 * become known to the table of images, and what they have counted in the kernel's maps. A file
 * is hooked once for all processes that map it, or in each process that is a target of the session
 * (gpu_links.h). At most BPFPROF_GPU_MAX_FILES libraries are hooked, half of them Pythons; those past
 * that, and those that cannot be, are listed with the reason.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu_calls.h"

struct deadline_runner;
struct gpu_probes;
struct images;
struct processes;
struct session;

struct gpu_probes_library {
	char *path; /* as a process sees it */
	uint32_t layers; /* bits: enum bpfprof_gpu_layer */
	uint32_t functions; /* that are hooked */
	const char *problem; /* static text; NULL: it is hooked */
};

/* Of a session with the option gpu, or gpu_windows for those alone; borrows all three. 0 or -errno. */
int gpu_probes_new(struct gpu_probes **ret, struct session *session, struct images *images,
		   struct deadline_runner *runner);
/*
 * Before the first look: in the session's targets among processes alone (borrowed), as far as
 * gpu_links.h goes. To be told when one exits.
 */
void gpu_probes_scope(struct gpu_probes *probes, struct processes *processes);
bool gpu_probes_are_scoped(const struct gpu_probes *probes); /* still */
void gpu_probes_exit(struct gpu_probes *probes, uint32_t pid, uint64_t start_ns);
/* Children that had a library from their parent for a moment before it was hooked in them. */
uint64_t gpu_probes_nr_late(const struct gpu_probes *probes);
/* Detaches. */
void gpu_probes_free(struct gpu_probes *probes);

/* Hooks what is new, for limit_ns at most. True: there is more to look at. */
bool gpu_probes_scan(struct gpu_probes *probes, uint64_t now_ns, uint64_t limit_ns);
/* Borrowed until the next look. */
const struct gpu_probes_library *gpu_probes_libraries(struct gpu_probes *probes, size_t *ret_nr);
uint64_t gpu_probes_nr_refused(const struct gpu_probes *probes); /* past a limit */
/* Libraries in which NCCL may be, that could not be searched for it: they are listed, too. */
uint64_t gpu_probes_nr_unsearched(const struct gpu_probes *probes);
/* Probes of PyTorch's (GPU_LAYER_TORCH) or Python's whose arguments are nowhere that we can read. */
uint64_t gpu_probes_nr_bad_sites(const struct gpu_probes *probes, enum bpfprof_gpu_layer layer);
/* Files of theirs that have none, or none that we can read: they are listed, too. */
uint64_t gpu_probes_nr_without_sites(const struct gpu_probes *probes, enum bpfprof_gpu_layer layer);

/* What the kernel has counted: each() for every entry, as it is at that moment. */
void gpu_probes_counts(const struct gpu_probes *probes,
		       void (*each)(void *arg, const struct bpfprof_gpu_key *key,
				    const struct bpfprof_gpu_count *count),
		       void *arg);
void gpu_probes_threads(const struct gpu_probes *probes,
			void (*each)(void *arg, uint32_t tid,
				     const struct bpfprof_gpu_thread *thread),
			void *arg);
/* Has the thread made a call since it was hooked, and not idled for long since? */
bool gpu_probes_thread_has_called(const struct gpu_probes *probes, uint32_t tid, uint32_t pid,
				  uint64_t start_ns);
/* Is it still in that call, in which it was before? */
bool gpu_probes_thread_is_in(const struct gpu_probes *probes, uint32_t tid,
			     const struct bpfprof_gpu_open *open);
/* Is it, of the process that started then, in a copy to the device that it waits for? */
bool gpu_probes_thread_copies(const struct gpu_probes *probes, uint32_t tid, uint64_t start_ns);
void gpu_probes_comms(const struct gpu_probes *probes,
		      void (*each)(void *arg, const struct bpfprof_gpu_comm_key *key,
				   const struct bpfprof_gpu_comm *comm),
		      void *arg);
void gpu_probes_memory(const struct gpu_probes *probes,
		       void (*each)(void *arg, const struct bpfprof_gpu_process_key *key,
				    const struct bpfprof_gpu_memory *memory),
		       void *arg);
/* Of a process that has ended: nobody writes them any more. */
/* Its process has ended, in a call that it was in for so long: nobody else writes there any more. */
void gpu_probes_count_add(struct gpu_probes *probes, const struct bpfprof_gpu_key *key,
			  uint64_t ns);
void gpu_probes_count_delete(struct gpu_probes *probes, const struct bpfprof_gpu_key *key);
void gpu_probes_comm_delete(struct gpu_probes *probes, const struct bpfprof_gpu_comm_key *key);
void gpu_probes_memory_delete(struct gpu_probes *probes, const struct bpfprof_gpu_process_key *key);
/* How many of the kernel's counts are its own is forgotten: once they are deleted. */
void gpu_probes_process_delete(struct gpu_probes *probes,
			       const struct bpfprof_gpu_process_key *key);
/* False where we cannot ask (a pid namespace of our own). */
bool gpu_probes_process_is_gone(const struct gpu_probes *probes, uint32_t pid);

void gpu_probes_counters(const struct gpu_probes *probes, uint64_t counters[GPU_NR_COUNTERS]);

/*
 * Only calls in the profiler's windows [start, stop) of each process count, key.flags say so, and
 * those of processes that are told to be in a step. 0 or -errno.
 */
int gpu_probes_steps(struct gpu_probes *probes, uint64_t start, uint64_t stop);
void gpu_probes_step(struct gpu_probes *probes, uint32_t pid, uint64_t start_ns, bool in_step);
/* Is it told as a window of that process begins and ends? */
void gpu_probes_tell_windows(struct gpu_probes *probes, uint32_t pid, uint64_t start_ns, bool tell);
uint64_t gpu_probes_nr_steps_refused(const struct gpu_probes *probes); /* there was no room */
/* Has that process made a window? */
bool gpu_probes_has_window(const struct gpu_probes *probes, uint32_t pid, uint64_t start_ns);
void gpu_probes_windows(const struct gpu_probes *probes,
			void (*each)(void *arg, const struct bpfprof_gpu_process_key *key,
				     const struct bpfprof_gpu_window *window),
			void *arg);

/* Has it ended, in a call that it never returned from? Where we cannot ask, its process's end tells. */
bool gpu_probes_thread_is_gone(const struct gpu_probes *probes, uint32_t pid, uint32_t tid);
/* Threads that are in no call and were in none since idle_since_ns make room for others. */
void gpu_probes_sweep(struct gpu_probes *probes, uint64_t idle_since_ns);
/* A process that has ended leaves calls open that never return: each() for each of its threads. */
void gpu_probes_forget_threads(struct gpu_probes *probes, uint32_t pid, uint64_t start_ns,
			       void (*each)(void *arg, uint32_t tid,
					    const struct bpfprof_gpu_thread *thread),
			       void *arg);

#endif
