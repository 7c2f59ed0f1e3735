// SPDX-License-Identifier: Apache-2.0
#include "threads/wait_reason.h"

#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/strtab.h"
#include "base/text.h"
#include "threads/thread_dump.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define MAX_SCHEDULER_FRAMES 16

/* Functions in which every sleep in the kernel ends: they give no reason. */
static const char *const scheduler[] = {
	"__schedule",	       "schedule",	    "preempt_schedule", "schedule_timeout",
	"schedule_hrtimeout",  "io_schedule",	    "__switch_to",	"context_switch",
	"wait_for_completion", "__wait_for_common", "wait_woken",
};

struct reason {
	const char *function; /* prefix of a kernel function */
	const char *words;
};

static const struct reason reasons[] = {
	{ "ptrace_stop", "a debugger" },
	{ "do_signal_stop", "SIGCONT (it is stopped)" },
	{ "do_jobctl_trap", "SIGCONT (it is stopped)" },
	{ "do_freezer_trap", "a thaw (its cgroup is frozen)" },
	{ "handle_userfault", "memory that a userfaultfd has to bring" },
	{ "fuse_", "a FUSE server" },
	{ "request_wait_answer", "a FUSE server" },
	{ "nfs", "an NFS server" },
	{ "rpc_", "an NFS server" },
	{ "rwsem_down", "a lock in the kernel" },
	{ "__mutex_lock", "a lock in the kernel" },
	{ "futex_", "a lock or condition" },
	{ "do_futex", "a lock or condition" },
	{ "hrtimer_nanosleep", "time to pass" },
	{ "do_nanosleep", "time to pass" },
	{ "common_nsleep", "time to pass" },
	{ "wait_for_partner", "the other end of a FIFO" },
	{ "fifo_open", "the other end of a FIFO" },
	{ "anon_pipe_read", "data from a pipe" },
	{ "pipe_read", "data from a pipe" },
	{ "fifo_pipe_read", "data from a FIFO" },
	{ "anon_pipe_write", "room in a pipe" },
	{ "pipe_write", "room in a pipe" },
	{ "fifo_pipe_write", "room in a FIFO" },
	{ "unix_stream_connect", "a Unix socket to accept" },
	{ "unix_accept", "a connection to a Unix socket" },
	{ "unix_stream_read", "data from a Unix socket" },
	{ "unix_stream_recv", "data from a Unix socket" },
	{ "unix_dgram_recv", "data from a Unix socket" },
	{ "unix_", "a Unix socket" },
	{ "inet_csk_accept", "a TCP connection" },
	{ "tcp_recvmsg", "data from a TCP socket" },
	{ "tcp_sendmsg", "room in a TCP socket" },
	{ "inet_stream_connect", "a TCP connection to be made" },
	{ "__inet_stream_connect", "a TCP connection to be made" },
	{ "udp_recvmsg", "data from a UDP socket" },
	{ "udpv6_recvmsg", "data from a UDP socket" },
	{ "netlink_", "data from a netlink socket" },
	{ "packet_recvmsg", "a network packet" },
	{ "ep_poll", "events (epoll)" },
	{ "do_epoll_wait", "events (epoll)" },
	{ "do_sys_poll", "events (poll)" },
	{ "do_select", "events (select)" },
	{ "core_sys_select", "events (select)" },
	{ "io_uring_", "events (io_uring)" },
	{ "read_events", "events (aio)" },
	{ "do_wait", "a child process" },
	{ "kernel_wait4", "a child process" },
	{ "kernel_clone", "a child of vfork" },
	{ "do_sigtimedwait", "a signal" },
	{ "sigsuspend", "a signal" },
	{ "do_pause", "a signal" },
	{ "__do_sys_pause", "a signal" },
	{ "n_tty_read", "input from a terminal" },
	{ "n_tty_write", "a terminal" },
	{ "eventfd_read", "an eventfd" },
	{ "signalfd_", "a signal (signalfd)" },
	{ "timerfd_read", "time to pass (timerfd)" },
	{ "inotify_read", "changes of files (inotify)" },
	{ "flock_lock", "a file lock" },
	{ "locks_lock", "a file lock" },
	{ "fcntl_setlk", "a file lock" },
	{ "posix_lock", "a file lock" },
	{ "do_semtimedop", "a System V semaphore" },
	{ "__do_semtimedop", "a System V semaphore" },
	{ "do_msgrcv", "a System V message" },
	{ "do_mq_timedreceive", "a POSIX message" },
	{ "folio_wait", "a disk" },
	{ "wait_on_page", "a disk" },
	{ "blk_", "a disk" },
	{ "jbd2_", "a disk" },
};

/* Native functions that tell more than "futex". */
static const struct reason native_reasons[] = {
	{ "take_gil", "the GIL" },
	{ "drop_gil", "the GIL" },
	{ "PyEval_RestoreThread", "the GIL" },
	{ "PyEval_AcquireThread", "the GIL" },
	{ "PyThread_acquire_lock", "a lock" },
	{ "_PyMutex_LockTimed", "a lock" },
	{ "_PySemaphore_Wait", "a lock" },
	{ "pthread_mutex_lock", "a mutex" },
	{ "__pthread_mutex_lock", "a mutex" },
	{ "pthread_cond_wait", "a condition" },
	{ "pthread_cond_timedwait", "a condition" },
	{ "__pthread_clockjoin_ex", "the end of a thread" },
	{ "pthread_join", "the end of a thread" },
	{ "sem_wait", "a semaphore" },
	{ "sem_timedwait", "a semaphore" },
};

static const char *find_reason(const struct reason *list, size_t nr, const char *name)
{
	size_t i;

	for (i = 0; i < nr; i++)
		if (text_begins(name, list[i].function))
			return list[i].words;
	return NULL;
}

static bool is_scheduler(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(scheduler); i++)
		if (text_begins(name, scheduler[i]))
			return true;
	return false;
}

/* Number of the file for which the system call waits, or -1. */
static long syscall_fd(const struct thread_dump *thread)
{
	switch (thread->syscall) {
	case SYS_read:
	case SYS_write:
	case SYS_pread64:
	case SYS_readv:
	case SYS_writev:
	case SYS_ioctl:
	case SYS_recvfrom:
	case SYS_recvmsg:
	case SYS_sendto:
	case SYS_sendmsg:
	case SYS_connect:
	case SYS_accept:
	case SYS_accept4:
	case SYS_flock:
	case SYS_fcntl:
	case SYS_fsync:
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
		return thread->syscall_args[0] <= INT32_MAX ? (long)thread->syscall_args[0] : -1;
	default:
		return -1;
	}
}

/* Finds the reason in the kernel frames; also notes the function in which the thread sleeps. */
static const char *kernel_reason(struct thread_dump *thread, const struct strtab *strings)
{
	const char *name, *words = NULL;
	size_t i;

	for (i = 0; i < thread->nr_frames && !words; i++) {
		if (thread->frames[i].kind != THREAD_FRAME_KERNEL)
			break;
		name = strtab_get(strings, thread->frames[i].name);
		if (!thread->wait_channel && !is_scheduler(name) && *name != '[')
			thread->wait_channel = thread->frames[i].name;
		if (!is_scheduler(name))
			words = find_reason(reasons, ARRAY_SIZE(reasons), name);
	}
	return words;
}

/* The outermost known function of the few native frames inside the first Python frame. */
static const char *native_reason(const struct thread_dump *thread, const struct strtab *strings)
{
	const char *words = NULL, *found;
	size_t i, nr = 0;

	for (i = 0; i < thread->nr_frames && nr < 8; i++) {
		if (thread->frames[i].kind == THREAD_FRAME_PYTHON)
			break;
		if (thread->frames[i].kind != THREAD_FRAME_NATIVE)
			continue;
		nr++;
		found = find_reason(native_reasons, ARRAY_SIZE(native_reasons),
				    strtab_get(strings, thread->frames[i].name));
		/* take_gil() waits in a condition variable: a function further out says more. */
		if (found)
			words = found;
	}
	return words;
}

static void thread_waits(struct thread_dump *thread, struct strtab *strings)
{
	const char *words = kernel_reason(thread, strings), *native;
	long fd = syscall_fd(thread);
	char text[128];

	if (thread->active || thread->running) {
		thread->wait_channel = 0;
		return;
	}
	if (words && text_begins(words, "a lock or condition")) {
		native = native_reason(thread, strings);
		words = native ? native : words;
	}
	if (!words)
		return;
	if (fd >= 0)
		snprintf(text, sizeof(text), "%s (file %ld)", words, fd);
	else
		snprintf(text, sizeof(text), "%s", words);
	thread->waits_for = strtab_add(strings, text);
}

void wait_reasons_find(struct dump *dump)
{
	size_t i, k;

	for (i = 0; i < dump->nr_processes; i++)
		for (k = 0; k < dump->processes[i].nr_threads; k++)
			thread_waits(&dump->processes[i].threads[k], dump->strings);
}

static bool has_kernel_only(const struct thread_dump *thread)
{
	size_t i;

	for (i = 0; i < thread->nr_frames; i++)
		if (thread->frames[i].kind == THREAD_FRAME_NATIVE ||
		    thread->frames[i].kind == THREAD_FRAME_PYTHON)
			return false;
	return thread->nr_frames > 0;
}

bool wait_reasons_need_kernel(const struct dump *dump)
{
	size_t i, k;

	for (i = 0; i < dump->nr_processes; i++)
		for (k = 0; k < dump->processes[i].nr_threads; k++)
			if (has_kernel_only(&dump->processes[i].threads[k]))
				return true;
	return false;
}
