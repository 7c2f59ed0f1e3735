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

/* After gpu_maps_steps(): calls of the process count while it is in a step. */
void gpu_probes_step(struct gpu_probes *probes, uint32_t pid, uint64_t start_ns, bool in_step);
/* While on, the stream reports each begin and end of a window of the process. */
void gpu_probes_report_windows(struct gpu_probes *probes, uint32_t pid, uint64_t start_ns, bool on);
uint64_t gpu_probes_nr_steps_refused(const struct gpu_probes *probes); /* there was no room */

#endif
