// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "threads/thread_dump.h"
#include "watch/wait_call.h"

#define PRIVATE FUTEX_PRIVATE_FLAG
#define FOREVER 0xffffffffULL

struct call_case {
	const char *name;
	char state;
	int syscall;
	uint64_t args[4];
	enum wait_kind kind;
	enum wait_end end;
	uint32_t id;
	bool timed;
};

static const struct call_case cases[] = {
	{ "mutex", 'S', SYS_futex, { 1, FUTEX_WAIT | PRIVATE }, .kind = WAIT_LOCK },
	{ "condition",
	  'S',
	  SYS_futex,
	  { 1, FUTEX_WAIT_BITSET | PRIVATE | FUTEX_CLOCK_REALTIME, 0, 7 },
	  .kind = WAIT_LOCK,
	  .timed = true },
	{ "shared", 'S', SYS_futex, { 1, FUTEX_WAIT_BITSET }, .kind = WAIT_SHARED },
	{ "futex that waits for nothing",
	  'S',
	  SYS_futex,
	  { 1, FUTEX_WAKE | PRIVATE },
	  .kind = WAIT_NONE },
	{ "read", 'S', SYS_read, { 5 }, .kind = WAIT_ENDS, .end = WAIT_END_READS, .id = 5 },
	{ "write", 'S', SYS_write, { 1 }, .kind = WAIT_ENDS, .end = WAIT_END_WRITES, .id = 1 },
	{ "a negative file",
	  'S',
	  SYS_read,
	  { UINT64_MAX },
	  .kind = WAIT_NONE,
	  .end = WAIT_END_READS,
	  .id = UINT32_MAX },
	{ "any child", 'S', SYS_wait4, { FOREVER }, .kind = WAIT_ENDS, .end = WAIT_END_CHILDREN },
	{ "one child", 'S', SYS_wait4, { 77 }, .kind = WAIT_ENDS, .end = WAIT_END_CHILD, .id = 77 },
	{ "a group of children",
	  'S',
	  SYS_wait4,
	  { FOREVER - 76 },
	  .kind = WAIT_ENDS,
	  .end = WAIT_END_CHILDREN },
	{ "waitid",
	  'S',
	  SYS_waitid,
	  { P_PID, 77 },
	  .kind = WAIT_ENDS,
	  .end = WAIT_END_CHILD,
	  .id = 77 },
	{ "vfork", 'D', SYS_vfork, { 0 }, .kind = WAIT_ENDS, .end = WAIT_END_CHILDREN },
	{ "clone", 'D', SYS_clone, { 0 }, .kind = WAIT_ENDS, .end = WAIT_END_CHILDREN },
	{ "sleep", 'S', SYS_clock_nanosleep, { 0 }, .kind = WAIT_TIME },
	{ "epoll",
	  'S',
	  SYS_epoll_wait,
	  { 6, 0, 0, FOREVER },
	  .kind = WAIT_ENDS,
	  .end = WAIT_END_EVENTS,
	  .id = 6 },
	{ "epoll with a time limit", 'S', SYS_epoll_wait, { 6, 0, 0, 1000 }, .kind = WAIT_OUTSIDE },
	{ "poll", 'S', SYS_poll, { 0 }, .kind = WAIT_OUTSIDE },
	{ "accept", 'S', SYS_accept4, { 3 }, .kind = WAIT_OUTSIDE },
	{ "pause", 'S', SYS_pause, { 0 }, .kind = WAIT_OUTSIDE },
	{ "stat at a file server", 'S', SYS_newfstatat, { 0 }, .kind = WAIT_KERNEL },
	{ "read of a disk", 'D', SYS_read, { 5 }, .kind = WAIT_KERNEL },
	{ "page fault", 'S', -1, { 0 }, .kind = WAIT_KERNEL },
	{ "stopped", 'T', SYS_read, { 5 }, .kind = WAIT_STOPPED },
	{ "debugger", 't', SYS_futex, { 1, FUTEX_WAIT | PRIVATE }, .kind = WAIT_STOPPED },
	{ "runs", 'R', SYS_read, { 5 }, .kind = WAIT_NONE },
};

Test(wait_call, cases)
{
	size_t i, k;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct call_case *c = &cases[i];
		struct thread_dump thread = { .state = c->state, .syscall = c->syscall };
		struct wait_call call;

		for (k = 0; k < 4; k++)
			thread.syscall_args[k] = c->args[k];
		call = wait_call_of(&thread);
		cr_expect_eq(call.kind, c->kind, "%s: kind %d", c->name, call.kind);
		cr_expect_eq(call.end, c->end, "%s: end %d", c->name, call.end);
		cr_expect_eq(call.id, c->id, "%s: id %u", c->name, call.id);
		cr_expect_eq(call.timed, c->timed, "%s: timed", c->name);
	}
}

Test(wait_call, collective)
{
	struct thread_dump thread = { .state = 'R', .syscall = -1, .nr_collectives = 1 };

	cr_expect_eq(wait_call_of(&thread).kind, WAIT_COLLECTIVE);
	thread.state = 'T';
	cr_expect_eq(wait_call_of(&thread).kind, WAIT_STOPPED);
}
