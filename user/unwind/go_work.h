/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_UNWIND_GO_WORK_H
#define BPFPROF_UNWIND_GO_WORK_H

/* The allowance of work for the rows of Go's functions: a hostile table must not keep the reader busy. */

#include <stdint.h>

struct go_values;

/* Takes from the allowance: 0, or -E2BIG when it is used up. */
int go_work_take(int64_t *work_left, uint32_t amount);
/* go_values_next(), or -E2BIG. */
int go_work_values_next(int64_t *work_left, struct go_values *v);

#endif
