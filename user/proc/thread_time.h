/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROC_THREAD_TIME_H
#define BPFPROF_PROC_THREAD_TIME_H

/* The scheduler's counters of a thread: /proc/PID/task/TID/schedstat, which everybody may read. */

#include <stdint.h>
#include <sys/types.h>

struct thread_time {
	uint64_t run_ns; /* on a CPU */
	uint64_t wait_ns; /* ready to run without a CPU, also while its cgroup is throttled */
	uint64_t nr_runs; /* how often it got a CPU */
};

/* text: of the file, with a NUL. 0 or -EBADMSG. */
int thread_time_parse(struct thread_time *ret, const char *text);
/* 0, -EBADMSG or -errno. -ESRCH: it has exited, or the kernel has no such counters. */
int thread_time_read(struct thread_time *ret, pid_t pid, pid_t tid);

#endif
