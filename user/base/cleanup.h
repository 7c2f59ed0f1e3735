/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_CLEANUP_H
#define BPFPROF_BASE_CLEANUP_H

/* Locals that free themselves at the end of their scope: `__cleanup(close_fd) int fd = -1;`. */

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define __cleanup(fn) __attribute__((cleanup(fn##_ptr)))

static inline void close_fd_ptr(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void close_file_ptr(FILE **file)
{
	if (*file)
		fclose(*file);
}

static inline void free_mem_ptr(void *ptr)
{
	free(*(void **)ptr);
}

#endif
