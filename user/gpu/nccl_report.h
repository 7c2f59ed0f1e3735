/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_NCCL_REPORT_H
#define BPFPROF_GPU_NCCL_REPORT_H

/*
 * What several files of `bpfprof gpu --once --json` say together: which rank of a communicator is
 * behind, which calls are slower in one run or rank than in another, whose device is full. Text for
 * people; what others wrote is made safe for a terminal.
 */

#include <stddef.h>

struct buf;
struct gpu_read;

struct nccl_report_options {
	size_t rows; /* of each table, 0: all */
};

/* 0 or -ENOMEM. dst has an error of its own. */
int nccl_report(struct buf *dst, const struct gpu_read *read,
		const struct nccl_report_options *options);

#endif
