/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_SYMBOL_D_NAME_H
#define BPFPROF_SYMBOL_D_NAME_H

/*
 * Names of D (https://dlang.org/spec/abi.html, name mangling) by libiberty. Its D demangler takes as
 * much memory as a name asks for, and ends the program where there is none: names that could
 * grow too long by their back references are not given to it.
 */

/* Without the parameters of the function; NULL if it is none. The caller frees. */
char *d_name_demangle(const char *name);

#endif
