/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CLI_GPU_JOB_H
#define BPFPROF_CLI_GPU_JOB_H

/* The state of one `bpfprof gpu`, shared by gpu*.c and nobody else. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/gpu_watch.h"
#include "cli/sampler.h"

struct buf;
struct gpu_options;

struct gpu_job {
	const struct gpu_options *options;
	struct sampler_options sampler_options;
	struct sampler sampler;
	struct gpu_watch watch;
	uint64_t start_ns, start_wall_ns, end_ns; /* end_ns: 0 while it runs */
};

/* gpu_text.c: adds the table, or the JSON. columns: of the terminal. 0 or -ENOMEM. */
int gpu_text(struct buf *dst, struct gpu_job *job, const struct gpu_picture *picture,
	     size_t columns);

/* gpu_files.c: before it begins, and at the end; what went wrong is said. An exit status. */
int gpu_files_check(const struct gpu_job *job);
int gpu_files_write(struct gpu_job *job, const struct gpu_picture *picture);

#endif
