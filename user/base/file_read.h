/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_FILE_READ_H
#define BPFPROF_BASE_FILE_READ_H

/* Reads open files, and small files of the kernel such as those of /proc, /sys and cgroups. */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Reads up to len bytes at off; the number read, fewer only at the end of the file, or -errno. */
ssize_t file_read_at(int fd, void *dst, size_t len, uint64_t off);

/*
 * Reads a small file in one read of at most cap - 1 bytes and ends it with a NUL. Neither follows a link
 * nor waits for the writer of a FIFO. The number of bytes, or -errno: dst is "" then.
 */
ssize_t file_read_text(char *dst, size_t cap, const char *path);

#endif
