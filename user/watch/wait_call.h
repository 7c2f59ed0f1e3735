/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_WATCH_WAIT_CALL_H
#define BPFPROF_WATCH_WAIT_CALL_H

/* The kind of a thread's wait, by the system call that it is in: numbers and arguments as in Linux's ABI. */

#include <stdbool.h>
#include <stdint.h>

#include "watch/wait_graph.h"

struct thread_dump;

/* Which processes may end a wait of WAIT_ENDS. */
enum wait_end {
	WAIT_END_NONE,
	WAIT_END_READS,
	WAIT_END_WRITES,
	WAIT_END_EVENTS, /* of an epoll, without a time limit */
	WAIT_END_CHILD,
	WAIT_END_CHILDREN,
};

struct wait_call {
	enum wait_kind kind;
	bool timed;
	enum wait_end end; /* what the waiter does with fd, or the children that it waits for */
	uint32_t id; /* the descriptor, or the pid of the child as the waiter sees it */
};

struct wait_call wait_call_of(const struct thread_dump *thread);

#endif
