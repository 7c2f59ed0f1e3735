/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TUI_TABLE_H
#define BPFPROF_TUI_TABLE_H

/* Chooses, sorts and writes the rows of a live table, in the columns of py-spy. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct live;
struct live_row;

enum table_sort { TABLE_OWN, TABLE_TOTAL, TABLE_OWN_TIME, TABLE_TOTAL_TIME };

/* Calls of CUDA and NCCL that a process made in the last interval. */
struct table_calls {
	uint32_t kernel_pid, pid;
	uint64_t start_ns;
	char name[64]; /* cut */
	double launches; /* per second, of kernels and graphs */
	double blocked; /* percent of the interval, for all its threads together */
};

struct table_options {
	uint32_t view; /* enum live_show, or-ed */
	bool lines; /* lines, else functions */
	enum table_sort sort;
	uint32_t process; /* index, or LIVE_ALL */
	bool process_column;
	bool pod_column; /* beside it, if there is room */
	const char *filter; /* only rows that contain it, in upper or lower case; "": all */
	size_t columns; /* of the terminal, 0: no limit */
	uint64_t interval_ns; /* percentages refer to it */
	bool gpu; /* columns of calls, by process */
	const struct table_calls *calls;
	size_t nr_calls;
};

/* Borrowed rows of live, sorted, in an array for the caller to free. NULL: no memory. */
const struct live_row **table_rows(const struct live *live, const struct table_options *options,
				   size_t *ret_nr);

/* One line each, without a newline. */
void table_heading(struct buf *dst, const struct table_options *options);
void table_row(struct buf *dst, const struct live *live, const struct live_row *row,
	       const struct table_options *options);

/* Seconds as py-spy shows them: fewer decimals for larger values. */
void table_seconds(char dst[24], uint64_t ns);

#endif
