/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_SYMBOL_DEMANGLE_H
#define BPFPROF_SYMBOL_DEMANGLE_H

/* Room symbol: gives names to addresses of the kernel and of JIT code, and demangles names. */

#include <stddef.h>

#include "base/name_cut.h"

#define DEMANGLE_MAX_INPUT 16384 /* longer names are not demangled */
#define DEMANGLE_MAX_OUTPUT NAME_CUT_MAX /* longer names are cut in their middle */

/*
 * Demangles names of C++ (Itanium), Rust (legacy and v0) and D, without parameters and return type.
 * Suffixes stay as gcc wrote them (".cold"); Rust's hash is dropped. dst always gets a printable name:
 * the demangled one, or name itself.
 */
void demangle(const char *name, char dst[DEMANGLE_MAX_OUTPUT]);

#endif
