/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_MEMORY_PROCESS_ROW_H
#define BPFPROF_MEMORY_PROCESS_ROW_H

/* Rows of a watched process that have no stack. */

#include <stdbool.h>

struct aggregate_call_at;
struct aggregate_input;
struct bpfprof_sample;
struct memory_account;
struct memory_monitor;
struct process_key;

/* Does the monitor watch the process of the input? */
bool process_is_watched(const struct memory_monitor *monitor, const struct aggregate_input *input);
/* Fills in an input without a stack, for the process as a whole. False: it is not watched. */
bool process_input_make(const struct memory_monitor *monitor, const struct process_key *key,
			const char *name, struct bpfprof_sample *sample,
			struct aggregate_input *ret);
/* The place of a row with that label in the aggregate of the monitor. 0 or -ENOMEM. */
int process_row_add(const struct memory_monitor *monitor, const struct memory_account *account,
		    const char *label, struct aggregate_call_at *ret);

#endif
