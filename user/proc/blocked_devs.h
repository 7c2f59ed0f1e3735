/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROC_BLOCKED_DEVS_H
#define BPFPROF_PROC_BLOCKED_DEVS_H

/*
 * File systems that did not answer in time. Each is left alone for a while, and for as long as the
 * call hangs, so that it takes up one of the runner's threads at most. All zero: none is blocked.
 */

#include <stdbool.h>
#include <stdint.h>

#define BLOCKED_DEVS_MAX 64 /* more than calls that can hang */

struct deadline_runner;

struct blocked_devs {
	struct blocked_dev {
		uint32_t dev;
		uint64_t until_ns;
		uint64_t call; /* the call that hung there */
	} list[BLOCKED_DEVS_MAX];
	uint32_t next;
};

bool blocked_devs_have(const struct blocked_devs *blocked, const struct deadline_runner *runner,
		       uint32_t dev, uint64_t now_ns);
/* The call that the runner gave up last hangs on this file system. */
void blocked_devs_add(struct blocked_devs *blocked, const struct deadline_runner *runner,
		      uint32_t dev, uint64_t now_ns);

#endif
