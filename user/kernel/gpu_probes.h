/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_GPU_PROBES_H
#define BPFPROF_KERNEL_GPU_PROBES_H

/*
 * Probes on the CUDA and NCCL functions of every library that some process maps, put there as files
 * become known to the table of images, and what they have counted in the kernel's maps. A file
 * is hooked once for all processes that map it. At most BPFPROF_GPU_MAX_FILES libraries are
 * hooked; those past that, and those that cannot be, are listed with the reason.
 *
 * Making a link reads pages of the file while no process of the machine may fork: files on FUSE,
 * whose server may never answer, are left alone. It is done under a deadline all the same.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu_calls.h"

struct deadline_runner;
struct gpu_probes;
struct images;
struct session;

struct gpu_probes_library {
	char *path; /* as a process sees it */
	uint32_t layers; /* bits: enum bpfprof_gpu_layer */
	uint32_t functions; /* that are hooked */
	const char *problem; /* static text; NULL: it is hooked */
};

/* Of a session with the option gpu; borrows all three. 0 or -errno. */
int gpu_probes_new(struct gpu_probes **ret, struct session *session, struct images *images,
		   struct deadline_runner *runner);
/* Detaches. */
void gpu_probes_free(struct gpu_probes *probes);

/* Hooks what is new, for limit_ns at most. True: there is more to look at. */
bool gpu_probes_look(struct gpu_probes *probes, uint64_t now_ns, uint64_t limit_ns);
/* Borrowed until the next look. */
const struct gpu_probes_library *gpu_probes_libraries(const struct gpu_probes *probes,
						      size_t *ret_nr);
uint64_t gpu_probes_nr_refused(const struct gpu_probes *probes); /* past the limit */

/* What the kernel has counted: each() for every entry, as it is at that moment. */
void gpu_probes_counts(const struct gpu_probes *probes,
		       void (*each)(void *arg, const struct bpfprof_gpu_key *key,
				    const struct bpfprof_gpu_count *count),
		       void *arg);
void gpu_probes_threads(const struct gpu_probes *probes,
			void (*each)(void *arg, uint32_t tid,
				     const struct bpfprof_gpu_thread *thread),
			void *arg);
void gpu_probes_comms(const struct gpu_probes *probes,
		      void (*each)(void *arg, const struct bpfprof_gpu_comm_key *key,
				   const struct bpfprof_gpu_comm *comm),
		      void *arg);
void gpu_probes_memory(const struct gpu_probes *probes,
		       void (*each)(void *arg, const struct bpfprof_gpu_process_key *key,
				    const struct bpfprof_gpu_memory *memory),
		       void *arg);
/* Of a process that has ended: nobody writes them any more. */
void gpu_probes_count_delete(struct gpu_probes *probes, const struct bpfprof_gpu_key *key);
void gpu_probes_comm_delete(struct gpu_probes *probes, const struct bpfprof_gpu_comm_key *key);
void gpu_probes_memory_delete(struct gpu_probes *probes, const struct bpfprof_gpu_process_key *key);
/* How many of the kernel's counts are its own is forgotten: once they are deleted. */
void gpu_probes_process_delete(struct gpu_probes *probes,
			       const struct bpfprof_gpu_process_key *key);
/* False where we cannot ask (a pid namespace of our own). */
bool gpu_probes_process_is_gone(const struct gpu_probes *probes, uint32_t pid);

void gpu_probes_counters(const struct gpu_probes *probes, uint64_t counters[GPU_NR_COUNTERS]);

/* Threads that are in no call and were in none since idle_since_ns make room for others. */
void gpu_probes_sweep(struct gpu_probes *probes, uint64_t idle_since_ns);
/* A process that has ended leaves calls open that never return. */
void gpu_probes_forget_threads(struct gpu_probes *probes, uint32_t pid, uint64_t start_ns);

#endif
