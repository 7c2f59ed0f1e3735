/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CAPTURE_PROCESS_OWNER_H
#define BPFPROF_CAPTURE_PROCESS_OWNER_H

/* The container of a process and its role in a Ray cluster: `owner` of struct process. */

#include <stdint.h>

struct container;

struct process_owner {
	const struct container *container; /* borrowed; NULL: none, or not known yet */
	uint64_t mnt_ns; /* the mount namespace that the container was searched for */
	uint64_t container_due_ns; /* when the next search is due, 0: at once */
	uint64_t container_wait_ns; /* the wait before the last search */
	char *role; /* on the heap (capture/ray_roles.h); NULL: none, or not known yet */
	uint64_t role_due_ns; /* when the next read of the arguments is due */
};

/* The process is in this mount namespace: in another one than before, its container is not known. */
void process_owner_place(struct process_owner *owner, uint64_t mnt_ns);
/* The containers are about to be freed: the next sample searches again. */
void process_owner_forget_container(struct process_owner *owner);
/* Frees the memory of a struct process_owner (struct process_part). */
void process_owner_clear(void *owner);

#endif
