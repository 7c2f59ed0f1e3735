/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CMD_WATCHED_H
#define BPFPROF_CMD_WATCHED_H

#include <stddef.h>
#include <sys/types.h>

struct capture_options;
struct deadline_runner;

/*
 * Names the watched processes for the first line of a screen: "pid 42, 'train.py'", "the whole machine". shown_pid stands
 * for the one pid of -p, 0: as it is.
 */
void watched_text(char *dst, size_t cap, const struct capture_options *capture,
		  struct deadline_runner *runner, pid_t shown_pid);

#endif
