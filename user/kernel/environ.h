/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_ENVIRON_H
#define BPFPROF_KERNEL_ENVIRON_H

/*
 * The environment that a process was started with, read like its memory (kernel/memory.h), of which only what
 * proc/ranks.h wants is kept. Everything else that was in a buffer of ours or of our maps is
 * overwritten before the call returns, or when a read that hung comes back.
 */

#include <stddef.h>
#include <stdint.h>

struct bpfprof_task_id;
struct deadline_runner;
struct ranks;
struct session;

#define ENVIRON_MAX_BYTES (256U << 10) /* variables behind that are not seen */

/*
 * pid: as we know it. task: whose it must be, or it is not taken. 0; -E2BIG, and ret is what the first
 * ENVIRON_MAX_BYTES say; -ESRCH gone, or another process by now; -EFAULT not to be read; -ETIMEDOUT;
 * -EBUSY too many reads hang; -errno.
 */
int environ_read(struct session *session, struct deadline_runner *runner, uint32_t pid,
		 const struct bpfprof_task_id *task, struct ranks *ret);

#endif
