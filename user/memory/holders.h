/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_MEMORY_HOLDERS_H
#define BPFPROF_MEMORY_HOLDERS_H

/*
 * The functions that hold the memory of a process. A function is the innermost one of Python, or else the
 * innermost native one that is no allocator and not in the C library.
 */

#include <stddef.h>
#include <stdint.h>

struct profile;
struct profile_location;
struct strtab;

struct holder {
	const char *name; /* `keep (leak.py:12)`, or a label in brackets */
	int64_t bytes;
	uint64_t pages; /* large ones are one; 0: not known */
};

struct holders {
	const struct profile *profile;
	struct strtab *names;
	uint32_t *locations; /* the name of each location */
	struct holder *list;
	size_t nr;
};

/* The location of the function that holds the memory; NULL: the stack has no frame. */
const struct profile_location *holders_find(const struct profile *profile, uint32_t stack);
/* Borrows the profile, which a monitor made. 0 or -ENOMEM; holders_fini() is due whatever it is. */
int holders_new(struct holders *holders, const struct profile *profile);
void holders_fini(struct holders *holders);
/* The function that holds the memory of a stack of the profile, as an id of names. */
uint32_t holders_name(const struct holders *holders, uint32_t stack);
/* Makes the list of one process, most bytes first; some have none. drift_bytes: less than 0: is a row, too. */
void holders_of(struct holders *holders, uint32_t kernel_pid, int64_t drift_bytes);

#endif
