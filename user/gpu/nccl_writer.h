/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_NCCL_WRITER_H
#define BPFPROF_GPU_NCCL_WRITER_H

/* The parts of nccl_report(). What fails is 0 or -ENOMEM; dst has an error of its own. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct gpu_read;
struct gpu_read_process;
struct gpu_report_open;

struct nccl_writer {
	struct buf *dst;
	const struct gpu_read *read;
	size_t rows; /* of a table: never 0 */
	uint64_t looks; /* at processes, for ranks that are missing: so many are left */
	struct buf text; /* scratch */
};

/* What others wrote, made safe and cut. */
void nccl_add_name(struct nccl_writer *w, const char *name, size_t columns);
/* The same, with blanks behind. */
void nccl_add_cell(struct nccl_writer *w, const char *name, size_t columns);
/* "[2] node-1 pid 4242 ray::Trainer.fit, pod ml/job-0" */
void nccl_add_process(struct nccl_writer *w, const struct gpu_read_process *from);
uint64_t nccl_ns(double seconds);
/* A call that had not returned, and its stack: whole lines. of_many: it is the longest of them. */
void nccl_add_open(struct nccl_writer *w, const struct gpu_read_process *process,
		   const struct gpu_report_open *open, bool of_many);
/* Of one that is in none: where it is, or how to learn that: whole lines. of_many: it is one of them. */
void nccl_add_elsewhere(struct nccl_writer *w, const struct gpu_read_process *process,
			bool of_many);

/* "0-2, 5" */
struct nccl_ranges {
	struct buf *dst;
	size_t nr;
};

void nccl_range_add(struct nccl_ranges *ranges, uint32_t first, uint32_t last);

/* Ranks of each communicator, and who is behind. */
int nccl_add_comms(struct nccl_writer *w);
/* Processes that hang since before they were watched, by where. */
int nccl_add_places(struct nccl_writer *w);
/* For each file the first one of its run, to be freed. 0 or -ENOMEM: then that, too. */
int nccl_runs(const struct gpu_read *read, uint32_t **ret);
/* What has returned and was not seen to be complete. */
int nccl_add_pending(struct nccl_writer *w);
/* Time per call, side by side. */
int nccl_add_times(struct nccl_writer *w);

#endif
