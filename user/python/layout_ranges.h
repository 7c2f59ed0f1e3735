/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PYTHON_LAYOUT_RANGES_H
#define BPFPROF_PYTHON_LAYOUT_RANGES_H

/*
 * Finds the code of an interpreter's eval loop: the function _PyEval_EvalFrameDefault, the parts that
 * compilers split off from it, and the tail-call handlers. With .symtab they have names. In a stripped
 * file only the function has one: its parts are the targets of its jumps that keep its frame, by
 * .eh_frame. If all of that is too small to be the loop, each function of the file may be a
 * handler.
 */

#include <stdbool.h>
#include <stddef.h>

struct elf_image;
struct python_range;
struct symbol_found;

/*
 * eval is the symbol of the function; tail_calls: this version may have handlers. Returns ascending
 * ranges, at most PYTHON_MAX_EVAL_RANGES, which the caller frees; there may be none. 0 or -ENOMEM.
 */
int python_ranges_read(struct elf_image *img, const struct symbol_found *eval, bool tail_calls,
		       struct python_range **ret, size_t *ret_nr);

#endif
