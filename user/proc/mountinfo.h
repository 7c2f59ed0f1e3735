/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROC_MOUNTINFO_H
#define BPFPROF_PROC_MOUNTINFO_H

/*
 * /proc/PID/mountinfo (proc(5), Documentation/filesystems/proc.rst section 3.5), read line by line.
 * Needs no ptrace rights. A container can hold 100,000 mounts: the reader is told when to stop.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MOUNTINFO_LINE_MAX 32768 /* longer lines are left out */

/* Points into the line. root and point have their octal escapes decoded, options has not. */
struct mount_line {
	dev_t dev; /* st_dev of files in it; btrfs shows others */
	const char *root; /* folder of the file system that is mounted */
	const char *point; /* where, as the process sees it */
	const char *type;
	const char *options; /* of the super block: overlay's layers */
};

/* Takes line (no newline) to pieces, in place. 0 or -EBADMSG. */
int mount_line_parse(struct mount_line *ret, char *line);

/* line: until the call returns. False: that was enough. */
typedef bool (*mount_line_fn)(void *arg, const struct mount_line *line);

/*
 * Calls fn for each line from the descriptor's position on that can be parsed. 0 (all, or
 * fn had enough), -E2BIG (gave up after max_bytes), -ENOMEM or -errno of read.
 */
int mountinfo_read(int fd, size_t max_bytes, mount_line_fn fn, void *arg);

#endif
