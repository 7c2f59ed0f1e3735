/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PYTHON_LAYOUT_RANGES_H
#define BPFPROF_PYTHON_LAYOUT_RANGES_H

/*
 * Which code of an interpreter is its eval loop: the function _PyEval_EvalFrameDefault, the parts
 * that compilers split off from it, and the tail-call handlers. With .symtab they have names. In
 * a stripped file only the function itself has one; its parts are then where it jumps to without
 * leaving its frame, as .eh_frame tells (x86-64); where all of it is too small to be the loop, each
 * function of the file may be a handler.
 */

#include <stdbool.h>
#include <stddef.h>

struct elf_image;
struct python_range;
struct symbol_found;

/*
 * eval is the symbol of the function; tail_calls: this version may have handlers. Ascending ranges, at most PYTHON_MAX_EVAL_RANGES, the
 * caller's to free(); none at all is no error. 0 or -ENOMEM.
 */
int python_ranges_read(struct elf_image *img, const struct symbol_found *eval, bool tail_calls,
		       struct python_range **ret, size_t *ret_nr);

#endif
