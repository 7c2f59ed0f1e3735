/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_MEMORY_H
#define BPFPROF_KERNEL_MEMORY_H

/*
 * Reads memory of another process with a sleepable BPF iterator: needs no ptrace rights and stops
 * no process. A read may fault and block, so it runs under a deadline; while one hangs, the next
 * reads use another of a few slots.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct deadline_runner;
struct session;

#define MEMORY_DEADLINE_MS 200

/*
 * Reads exactly len bytes at va of process pid. 0, -EFAULT, -ESRCH, -ETIMEDOUT, -EBUSY (all slots
 * hang), -errno.
 */
int memory_read(struct session *session, struct deadline_runner *runner, uint32_t pid, uint64_t va,
		void *dst, size_t len);
/* Does a read hang at present? */
bool memory_hangs(const struct session *session, const struct deadline_runner *runner);

/* The first of nr slots whose call does not hang any more; -EBUSY if all hang. */
int memory_slot_find(const uint64_t *hung, int nr, const struct deadline_runner *runner);

#endif
