// SPDX-License-Identifier: Apache-2.0
#include "watch/wait_call.h"

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "threads/thread_dump.h"

/* include/uapi/linux/futex.h of Linux 5.16 */
#ifndef FUTEX_LOCK_PI2
#define FUTEX_LOCK_PI2 13
#endif

static struct wait_call futex_wait(const uint64_t *args)
{
	struct wait_call call = { .kind = args[1] & FUTEX_PRIVATE_FLAG ? WAIT_LOCK : WAIT_SHARED };

	switch (args[1] & FUTEX_CMD_MASK) {
	case FUTEX_WAIT:
	case FUTEX_WAIT_BITSET:
	case FUTEX_LOCK_PI:
	case FUTEX_LOCK_PI2:
	case FUTEX_WAIT_REQUEUE_PI:
		call.timed = args[3];
		return call;
	default:
		return (struct wait_call){ 0 };
	}
}

static struct wait_call file_wait(uint64_t fd, enum wait_end end)
{
	return (struct wait_call){ .kind = fd <= INT_MAX ? WAIT_ENDS : WAIT_NONE,
				   .end = end,
				   .id = (uint32_t)fd };
}

static struct wait_call child_wait(int64_t pid)
{
	return (struct wait_call){ .kind = WAIT_ENDS,
				   .end = pid > 0 ? WAIT_END_CHILD : WAIT_END_CHILDREN,
				   .id = pid > 0 ? (uint32_t)pid : 0 };
}

static struct wait_call call_of(int32_t number, const uint64_t *args)
{
	static const struct wait_call outside = { .kind = WAIT_OUTSIDE };

	switch (number) {
	case SYS_futex:
		return futex_wait(args);
	case SYS_read:
	case SYS_readv:
	case SYS_pread64:
	case SYS_preadv:
	case SYS_recvfrom:
	case SYS_recvmsg:
		return file_wait(args[0], WAIT_END_READS);
	case SYS_write:
	case SYS_writev:
	case SYS_pwrite64:
	case SYS_pwritev:
	case SYS_sendto:
	case SYS_sendmsg:
		return file_wait(args[0], WAIT_END_WRITES);
	case SYS_wait4:
		return child_wait((int32_t)args[0]);
	case SYS_waitid:
		return child_wait(args[0] == P_PID ? (int32_t)args[1] : -1);
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
		/* With a time limit the kernel wakes it. */
		return (int32_t)args[3] < 0 ? file_wait(args[0], WAIT_END_EVENTS) : outside;
	/* Signals end the waits of these at a FUSE server, so their state is that of other sleeps. */
	case SYS_stat:
	case SYS_lstat:
	case SYS_fstat:
	case SYS_newfstatat:
	case SYS_statx:
	case SYS_statfs:
	case SYS_access:
	case SYS_faccessat:
	case SYS_getdents64:
	case SYS_fsync:
	case SYS_fdatasync:
	case SYS_ftruncate:
	case SYS_rename:
	case SYS_renameat2:
	case SYS_unlink:
	case SYS_unlinkat:
	case SYS_mkdir:
	case SYS_mkdirat:
		return (struct wait_call){ .kind = WAIT_KERNEL };
	case SYS_nanosleep:
	case SYS_clock_nanosleep:
		return (struct wait_call){ .kind = WAIT_TIME };
	default: /* events, connections, terminals, signals, locks of files, ... */
		return outside;
	}
}

/* A parent sleeps like one that waits for a disk until its child of vfork() executes a program, or ends. */
static bool may_be_vfork(int32_t number)
{
	return number == SYS_vfork || number == SYS_clone || number == SYS_clone3;
}

struct wait_call wait_call_of(const struct thread_dump *thread)
{
	if (thread->state == 'T' || thread->state == 't')
		return (struct wait_call){ .kind = WAIT_STOPPED };
	if (thread->nr_collectives)
		return (struct wait_call){ .kind = WAIT_COLLECTIVE };
	if (thread->running || thread->state == 'R')
		return (struct wait_call){ .kind = WAIT_NONE };
	if (may_be_vfork(thread->syscall))
		return child_wait(-1);
	/* A thread that sleeps outside of a system call waits for a page. */
	if (thread->state == 'D' || thread->syscall < 0)
		return (struct wait_call){ .kind = WAIT_KERNEL };
	return call_of(thread->syscall, thread->syscall_args);
}
