/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_SYMBOL_D_NAME_H
#define BPFPROF_SYMBOL_D_NAME_H

/*
 * Names of D (https://dlang.org/spec/abi.html, name mangling) by libiberty. Its D demangler takes as
 * much time and memory as a name asks for, and ends the program where there is none: names that would
 * cost too much (symbol/d_walk.h) stay as they are.
 */

/* Without the parameters of the function; NULL if it is none. The caller frees. */
char *d_name_demangle(const char *name);

#endif
