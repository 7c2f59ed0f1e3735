/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_NCCL_REPORT_H
#define BPFPROF_GPU_NCCL_REPORT_H

/*
 * Compares several files of `bpfprof gpu --once --json`: which rank of a communicator is behind,
 * which calls are slower in one run or rank than in another, which device is full. The result is
 * text for people; strings of the files are made safe for a terminal.
 */

#include <stddef.h>

struct buf;
struct gpu_read;

struct nccl_report_options {
	size_t rows; /* of each table, 0: all */
};

/* 0 or -ENOMEM; dst keeps its own error. */
int nccl_report(struct buf *dst, const struct gpu_read *read,
		const struct nccl_report_options *options);

#endif
