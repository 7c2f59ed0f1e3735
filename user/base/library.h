/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_LIBRARY_H
#define BPFPROF_BASE_LIBRARY_H

/*
 * Shared libraries that few commands need are loaded when they are needed: some bring twenty others, which
 * take milliseconds at each start of bpfprof, and memory of each.
 */

#include <stddef.h>

struct library_function {
	const char *name;
	void *pointer; /* to a pointer to that function, which library_load() sets */
};

/*
 * Loads a library with all these functions, or nothing: 0 or -ELIBACC. It stays loaded. *handle is NULL at
 * first; once it is loaded, nothing is done.
 */
int library_load(void **handle, const char *name, const struct library_function *functions,
		 size_t nr);

#endif
