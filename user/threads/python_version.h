/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_THREADS_PYTHON_VERSION_H
#define BPFPROF_THREADS_PYTHON_VERSION_H

#include <stdint.h>

struct python_heap;
struct strtab;

/*
 * "3.11.7" as an id of strings: version as in python/layout.h. Up to 3.10 it does not say which bug
 * fix it is: then sys.version of the interpreter at interpreter_va (0: not known) does.
 */
uint32_t dump_version(struct strtab *strings, uint32_t version, struct python_heap *heap,
		      uint64_t interpreter_va);

#endif
