/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_UNWIND_PLT_EXPR_H
#define BPFPROF_UNWIND_PLT_EXPR_H

/* The expression that linkers for this CPU write as the cfa of all entries in .plt. */

#include <stdbool.h>
#include <stdint.h>

#include "unwind/frame_cursor.h"

/*
 * Is it that expression, behind its register and offset? *ret_threshold is the offset in an entry from
 * which on the entry has pushed a word (ROW_PLT in bpf/unwind_native.h).
 */
bool plt_expr_is(struct frame_cursor cur, int64_t *ret_threshold);

#endif
