/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TASKS_TASK_REPORT_H
#define BPFPROF_TASKS_TASK_REPORT_H

/* `report --tasks`: a table of the calls of Ray workers by name. */

#include <stddef.h>

struct buf;
struct task_cpu;
struct task_row;
struct task_read_totals;

/* rows: at most so many, 0: all. The caller checks buf_error(). */
void task_report(struct buf *dst, const struct task_row *list, size_t nr,
		 const struct task_read_totals *totals, size_t rows);
/* The same for a profile, which has samples but no calls. */
void task_report_cpu(struct buf *dst, const struct task_cpu *list, size_t nr, size_t rows);

#endif
