/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_OPEN_FILES_H
#define BPFPROF_KERNEL_OPEN_FILES_H

/*
 * The pipes, FIFOs and sockets that processes have open, from the kernel's own memory: an iterator that neither
 * blocks nor needs rights over the processes. The session has the option `files`.
 */

#include <stdint.h>

#include "bpfprof.h"

struct session;

/*
 * Calls each() for every such file of a process (pid 0: of all processes), until that returns something other than 0.
 * The file is borrowed during the call. 0, also without any file; the result of each(); -errno.
 */
int open_files_each(struct session *session, uint32_t pid,
		    int (*each)(void *arg, const struct bpfprof_open_file *file), void *arg);

#endif
