/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROC_MOUNTINFO_H
#define BPFPROF_PROC_MOUNTINFO_H

/*
 * /proc/PID/mountinfo (proc(5), Documentation/filesystems/proc.rst section 3.5), read line by line.
 * Needs no ptrace rights. A container can have 100,000 mounts: the caller ends the reading early.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MOUNTINFO_LINE_MAX 32768 /* longer lines are left out */

/* Points into the line. Octal escapes are decoded in root and point, not in options. */
struct mount_line {
	dev_t dev; /* st_dev of files in it; btrfs shows others */
	const char *root; /* the folder of the file system that is mounted */
	const char *point; /* the mount point, as the process sees it */
	const char *type;
	const char *options; /* of the super block: overlay's layers */
};

/* Splits line (no newline) in place. 0 or -EBADMSG. */
int mount_line_parse(struct mount_line *ret, char *line);

/* line is valid until the call returns. False ends the reading. */
typedef bool (*mount_line_fn)(void *arg, const struct mount_line *line);

/*
 * Calls fn for each line that can be parsed, from the descriptor's position on. 0: all were read, or fn
 * ended the reading; -E2BIG: max_bytes were reached; -ENOMEM or -errno of read.
 */
int mountinfo_read(int fd, size_t max_bytes, mount_line_fn fn, void *arg);

#endif
