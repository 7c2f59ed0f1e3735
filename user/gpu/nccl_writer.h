/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_NCCL_WRITER_H
#define BPFPROF_GPU_NCCL_WRITER_H

/*
 * The parts of nccl_report(). Functions that can fail return 0 or -ENOMEM; dst has its own error.
 */

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
	uint64_t scans_left; /* of processes, for missing ranks: a bound on the work */
	struct buf text; /* scratch */
};

/* A name out of a file, made safe for a terminal and cut. */
void nccl_add_name(struct nccl_writer *w, const char *name, size_t columns);
/* The same, filled with blanks. */
void nccl_add_cell(struct nccl_writer *w, const char *name, size_t columns);
/* "[2] node-1 pid 4242 ray::Trainer.fit, pod ml/job-0" */
void nccl_add_process(struct nccl_writer *w, const struct gpu_read_process *from);
uint64_t nccl_ns(double seconds);

/* nccl_calls.c. of_many: the process stands for several, and its call is the longest of theirs. */

void nccl_add_seconds(struct buf *dst, double seconds);
/* " for 3 s": how long the call is known to have taken. */
void nccl_add_for(struct buf *dst, const struct gpu_report_open *open);
/* Lines of a call that had not returned, and of its stack. */
void nccl_add_open(struct nccl_writer *w, const struct gpu_read_process *process,
		   const struct gpu_report_open *open, bool of_many);
/* Lines of a process that is in no call: where it is, or the command that shows it. */
void nccl_add_elsewhere(struct nccl_writer *w, const struct gpu_read_process *process,
			bool of_many);
/* Lines of all open calls of a process, or of where it is if it has none. */
void nccl_add_calls(struct nccl_writer *w, const struct gpu_read_process *process);

/* "0-2, 5" */
struct nccl_ranges {
	struct buf *dst;
	size_t nr;
};

void nccl_range_add(struct nccl_ranges *ranges, uint32_t first, uint32_t last);

/* The ranks of each communicator, and which are behind. */
int nccl_add_comms(struct nccl_writer *w);
/* Processes that hung before the hooks were attached, by the place where they hang. */
int nccl_add_places(struct nccl_writer *w);
/* For each file the number of the first file of its run. The caller frees *ret, on failure too. */
int nccl_runs(const struct gpu_read *read, uint32_t **ret);
/* Collectives that have returned and were not seen to be complete. */
int nccl_add_pending(struct nccl_writer *w);
/* The times per call of runs and ranks, side by side. */
int nccl_add_times(struct nccl_writer *w);

#endif
