/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_UNWIND_CFI_ROW_H
#define BPFPROF_UNWIND_CFI_ROW_H

/* Turns call frame rules into one row of bpf/unwind_native.h. */

#include <stdint.h>

struct cfi_program;

/*
 * The row for prog->state with 0 as its address; ROW_RARE if no row can hold the rules, and with an
 * error: -EBADMSG malformed, and those of reading.
 */
int cfi_row_make(const struct cfi_program *prog, uint64_t *row);

#endif
