/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TASKS_TASK_REPORT_H
#define BPFPROF_TASKS_TASK_REPORT_H

/* `report --tasks`: a table of the calls of Ray workers by name. */

#include <stddef.h>

struct buf;
struct task_cpu;
struct task_row;
struct task_read_totals;

/* rows: 0 shows all. What is wrong with the text the caller asks buf_error() for. */
void task_report(struct buf *dst, const struct task_row *list, size_t nr,
		 const struct task_read_totals *totals, size_t rows);
/* The same of a profile, which has samples but no calls. */
void task_report_cpu(struct buf *dst, const struct task_cpu *list, size_t nr, size_t rows);

#endif
