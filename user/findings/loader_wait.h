/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_FINDINGS_LOADER_WAIT_H
#define BPFPROF_FINDINGS_LOADER_WAIT_H

/*
 * Does the first thread of a process wait for what its children hand it? As a trainer for those that
 * load its data: told by who ended its waits, and by nothing else.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct waker_link;

#define LOADER_WAIT_MAX_CHILDREN 64

struct loader_wait {
	uint64_t ns, nr; /* how long it waited, in how many waits, which */
	uint32_t children[LOADER_WAIT_MAX_CHILDREN]; /* these ended, by the kernel's pid */
	uint32_t nr_children;
};

/*
 * A wait counts if a child ended it, or another thread of the process that is itself woken by children
 * most of the time, and by hardly anybody else. is_child: of the process.
 */
void loader_wait_find(struct loader_wait *ret, const struct waker_link *links, size_t nr,
		      uint32_t pid, bool (*is_child)(void *arg, uint32_t pid), void *arg);

#endif
