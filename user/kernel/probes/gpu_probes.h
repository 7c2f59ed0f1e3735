/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_PROBES_GPU_PROBES_H
#define BPFPROF_KERNEL_PROBES_GPU_PROBES_H

/*
 * Probes on the CUDA and NCCL functions of every library that a process maps, attached when the
 * file appears in the table of images. A file is hooked once for all processes that map it, or in
 * each target process of the session (gpu_links.h). At most BPFPROF_GPU_MAX_FILES libraries are
 * hooked, half of them Pythons; others, and those that cannot be hooked, are listed with the
 * reason. The counts of the probes are in gpu_maps.h.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/probes/gpu_links.h"
#include "gpu_calls.h"

struct deadline_runner;
struct gpu_probes;
struct image;
struct images;
struct processes;
struct session;

struct gpu_probes_library {
	char *path; /* as a process sees it */
	uint32_t layers; /* bits: enum bpfprof_gpu_layer */
	uint32_t functions; /* hooked functions */
	const char *problem; /* static text; NULL: it is hooked */
	struct gpu_links_file id;
	int file; /* its number in gpu_links.h; negative: it has none */
};

/* Libraries and probes that are missing. */
struct gpu_probes_losses {
	uint64_t nr_refused; /* libraries past a limit */
	/* Libraries that may contain NCCL and could not be searched for it. They are listed, too. */
	uint64_t nr_unsearched;
	uint64_t nr_late; /* children that ran before an inherited library was hooked in them */
	uint64_t nr_steps_refused; /* processes without room in the map of steps */
	/* By layer: probes of PyTorch or Python whose arguments cannot be read. */
	uint64_t nr_bad_sites[GPU_NR_LAYERS];
	/* By layer: files of theirs without a probe that can be read. They are listed, too. */
	uint64_t nr_without_sites[GPU_NR_LAYERS];
};

/*
 * For a session with the option gpu, or gpu_windows for windows alone. Borrows all three. 0 or
 * -errno.
 */
int gpu_probes_new(struct gpu_probes **ret, struct session *session, struct images *images,
		   struct deadline_runner *runner);
/*
 * Hooks only the session's targets among processes, which are borrowed, as long as gpu_links.h
 * keeps links of single processes. Called before the first scan.
 */
void gpu_probes_scope(struct gpu_probes *probes, struct processes *processes);
bool gpu_probes_are_scoped(const struct gpu_probes *probes); /* still? */
/* A process has ended. */
void gpu_probes_exit(struct gpu_probes *probes, uint32_t pid, uint64_t start_ns);
/* No process maps the file any more, and it is about to be forgotten: detaches its probes. */
void gpu_probes_unused(struct gpu_probes *probes, const struct image *image);
/* Detaches. */
void gpu_probes_free(struct gpu_probes *probes);

/* Hooks new libraries, for limit_ns at most. True: there are more files to scan. */
bool gpu_probes_scan(struct gpu_probes *probes, uint64_t now_ns, uint64_t limit_ns);
const struct gpu_probes_losses *gpu_probes_losses(const struct gpu_probes *probes);
/* Borrowed until the next scan. */
const struct gpu_probes_library *gpu_probes_libraries(struct gpu_probes *probes, size_t *ret_nr);

/* After gpu_maps_steps(): calls of the process count while it is in a step. */
void gpu_probes_step(struct gpu_probes *probes, uint32_t pid, uint64_t start_ns, bool in_step);
/* While on, the stream reports each begin and end of a window of the process. */
void gpu_probes_report_windows(struct gpu_probes *probes, uint32_t pid, uint64_t start_ns, bool on);

#endif
