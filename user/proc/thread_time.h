/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROC_THREAD_TIME_H
#define BPFPROF_PROC_THREAD_TIME_H

/* What the scheduler counts of a thread, from /proc/PID/task/TID/schedstat: readable for everybody. */

#include <stdint.h>
#include <sys/types.h>

struct thread_time {
	uint64_t run_ns; /* on a CPU */
	uint64_t wait_ns; /* ready to run, without one; its cgroup's being throttled counts */
	uint64_t nr_runs; /* how often it was given one */
};

/* text: the file's, with a NUL. 0 or -EBADMSG. */
int thread_time_parse(struct thread_time *ret, const char *text);
/* 0, -ESRCH, -EBADMSG or -errno; -ENOENT is -ESRCH, also where the kernel does not count. */
int thread_time_read(struct thread_time *ret, pid_t pid, pid_t tid);

#endif
