/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_MEMORY_H
#define BPFPROF_KERNEL_MEMORY_H

/*
 * Memory of another process, read by a sleepable BPF iterator: needs no ptrace
 * rights and stops nobody. The read may fault and then block, so it runs under a
 * deadline; after one that hung the next reads use another slot, of which there are few.
 */

#include <stddef.h>
#include <stdint.h>

struct deadline_runner;
struct session;

#define MEMORY_DEADLINE_MS 200

/* Exactly len bytes at va of process pid. 0, -EFAULT, -ESRCH, -ETIMEDOUT, -EBUSY (all slots hang), -errno. */
int memory_read(struct session *session, struct deadline_runner *runner, uint32_t pid, uint64_t va,
		void *dst, size_t len);

#endif
