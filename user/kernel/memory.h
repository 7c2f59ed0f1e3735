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
#define MEMORY_MAX_PIECES 10

/* Memory of a process at va, at most BPFPROF_MEMORY_BYTES. */
struct memory_piece {
	uint64_t va;
	void *dst;
	uint32_t len;
	int err; /* result: 0, -EFAULT or -errno */
};

/*
 * Reads pieces[0..nr), at most MEMORY_MAX_PIECES, under one deadline. 0: each piece has its result;
 * -ESRCH, -ETIMEDOUT, -EAGAIN (no time is left), -EBUSY (all slots hang), -errno.
 */
int memory_read_pieces(struct session *session, struct deadline_runner *runner, uint32_t pid,
		       struct memory_piece *pieces, size_t nr);
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
