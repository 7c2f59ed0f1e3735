/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_ENVIRON_H
#define BPFPROF_KERNEL_ENVIRON_H

/*
 * The initial environment of a process, read like its memory (kernel/memory.h). Only variables for
 * proc/ranks.h are kept. All other bytes in buffers and maps are overwritten before the call
 * returns, or when a hanging read returns.
 */

#include <stddef.h>
#include <stdint.h>

struct bpfprof_task_id;
struct deadline_runner;
struct ranks;
struct session;

#define ENVIRON_MAX_BYTES (256U << 10) /* later variables are not read */

/*
 * pid: as in our pid namespace. task: the process that the environment must belong to. 0; -E2BIG:
 * longer, ret has the first ENVIRON_MAX_BYTES; -ESRCH: ended, or another process; -EFAULT:
 * unreadable; -ETIMEDOUT; -EBUSY: too many reads hang; -errno.
 */
int environ_read(struct session *session, struct deadline_runner *runner, uint32_t pid,
		 const struct bpfprof_task_id *task, struct ranks *ret);

#endif
