/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_FINDINGS_LOADER_WAIT_H
#define BPFPROF_FINDINGS_LOADER_WAIT_H

/*
 * Does the first thread of a process wait for data from its children, as a trainer does for its data
 * loaders? The only evidence is the threads that ended its waits.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct waker_link;

#define LOADER_WAIT_MAX_CHILDREN 64

struct loader_wait {
	uint64_t ns, nr; /* total time and number of the waits */
	uint32_t children[LOADER_WAIT_MAX_CHILDREN]; /* that ended them, by the kernel's pid */
	uint32_t nr_children;
};

/*
 * A wait counts if a child of the process (is_child) ended it, or another thread of the process that is
 * itself woken almost only by children.
 */
void loader_wait_find(struct loader_wait *ret, const struct waker_link *links, size_t nr,
		      uint32_t pid, bool (*is_child)(void *arg, uint32_t pid), void *arg);

#endif
