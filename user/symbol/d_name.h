/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_SYMBOL_D_NAME_H
#define BPFPROF_SYMBOL_D_NAME_H

/*
 * Demangles names of D (https://dlang.org/spec/abi.html, name mangling) by libiberty. Its D demangler has
 * no limits of time and memory, and ends the program without memory: names that would cost too much
 * (symbol/d_walk.h) stay mangled.
 */

/* The name without parameters; NULL if it is not one of D. The caller frees it. */
char *d_name_demangle(const char *name);

#endif
