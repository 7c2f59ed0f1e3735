/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_WATCH_STALL_CHECK_H
#define BPFPROF_WATCH_STALL_CHECK_H

/* `bpfprof dump --waits` of some processes, by a child: the caller's loop goes on meanwhile. */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define STALL_DUMP_BYTES (4U << 20)
#define STALL_SENTENCE_BYTES 4096
#define STALL_CHECK_PIDS 256 /* processes of one check; further ones are left out */

struct stall_options;

struct stall_check {
	pid_t child; /* 0: none */
	int fd; /* of an unlinked file: what it writes, STALL_DUMP_BYTES at most */
	uint64_t end_ns; /* CLOCK_MONOTONIC: then it is killed */
};

/* pids: as bpfprof sees them, the silent process first. host_root: NULL, or as of the caller. 0 or -errno. */
int stall_check_start(struct stall_check *check, const uint32_t *pids, size_t nr,
		      const struct stall_options *stall, const char *host_root);
/*
 * -EAGAIN: the child runs. 0: the child has ended. text has the beginning of its output, and *ret_fd, which the caller
 * closes, has all of it.
 */
int stall_check_take(struct stall_check *check, char text[STALL_SENTENCE_BYTES], int *ret_fd);
/* Kills it if it runs. */
void stall_check_fini(struct stall_check *check);

#endif
