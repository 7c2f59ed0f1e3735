/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CAPTURE_TARGET_H
#define BPFPROF_CAPTURE_TARGET_H

/*
 * Facts from /proc, without ptrace, about a process that the user named. The
 * process may exit at any time, and chooses its name itself.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct target {
	pid_t pid; /* as asked for */
	pid_t leader; /* its process; not pid if pid is another thread of it */
	bool zombie;
	bool kernel_thread;
	int bits; /* 32, 64, or 0: not known */
	char name[64]; /* printable */
};

/* 0, -ESRCH without such a process, or the error of reading /proc. */
int target_probe(pid_t pid, struct target *ret);
/* Its number in its own pid namespace; 0 if it cannot be read. */
pid_t target_pod_pid(pid_t pid);
/* Is number its pid in one of its pid namespaces? */
bool target_is_pid(pid_t pid, pid_t number);
/* Was it started at these clock ticks since boot, field 22 of its stat file? Every process has 0. */
bool target_has_start(pid_t pid, uint64_t ticks);
/* Is it in the pid namespace of /proc, in no inner one, and not exiting? False, too, if it cannot be read. */
bool target_is_outermost(pid_t pid);

#endif
