/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_ITERATE_H
#define BPFPROF_KERNEL_ITERATE_H

#include <stddef.h>
#include <stdint.h>

/* A link of a task iterator to one thread, to be used any number of times, or -errno. */
int iterate_link(int prog_fd, uint32_t tid);
/* The same to all threads of a process. */
int iterate_link_process(int prog_fd, uint32_t pid);
/* A link of an iterator over the elements of a map. */
int iterate_link_map(int prog_fd, int map_fd);
/* A descriptor to read a task iterator's output for one thread from, or -errno. */
int iterate_open(int prog_fd, uint32_t tid);
/* The first record, of len bytes: 0, -ESRCH (there is none), -errno. */
int iterate_read(int fd, void *dst, size_t len);

/*
 * Calls each() for every record of so many bytes that the iterator writes for the threads of a process (pid 0: of
 * all), until that returns something other than 0. The record is borrowed during the call. 0; -ESRCH: there is no
 * record; the result of each(); -errno.
 */
int iterate_each(int prog_fd, uint32_t pid, size_t bytes,
		 int (*each)(void *arg, const void *record), void *arg);

#endif
