/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CAPTURE_TARGET_H
#define BPFPROF_CAPTURE_TARGET_H

/*
 * What /proc says, without ptrace, about a process that the user named. The
 * process may go at any time; its name is its own to choose.
 */

#include <stdbool.h>
#include <sys/types.h>

struct target {
	pid_t pid; /* as asked for */
	pid_t leader; /* its process; not pid if pid is another thread of it */
	bool zombie;
	bool kernel_thread;
	int bits; /* 32, 64, or 0: the kernel does not tell us */
	char name[64]; /* printable */
};

/* 0, -ESRCH without such a process, or what reading /proc gave. */
int target_probe(pid_t pid, struct target *ret);
/* Its number in its own pid namespace; 0 if it cannot be had. */
pid_t target_pod_pid(pid_t pid);

#endif
