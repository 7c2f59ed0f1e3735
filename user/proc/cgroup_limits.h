/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROC_CGROUP_LIMITS_H
#define BPFPROF_PROC_CGROUP_LIMITS_H

/*
 * The limits that a process's cgroups set, and what was used of them: of cgroup v2, and of v1 where the
 * controllers still hang there. The nearest group from the process's up that has a limit counts.
 * Paths come from the kernel; names in them are the target's.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CGROUP_DIR_MAX 512 /* longer ones are not looked at */

/* Folders of the groups that limit; "" = nothing does, or that cannot be seen from here. */
struct cgroup_limits {
	char cpu[CGROUP_DIR_MAX];
	char memory[CGROUP_DIR_MAX];
	bool hidden; /* they lie outside of our own cgroup namespace */
};

struct cgroup_cpu {
	double cpus; /* that may be used at once, 0: no limit */
	uint64_t nr_periods, nr_throttled, throttled_ns; /* since it was made */
};

struct cgroup_memory {
	uint64_t max_bytes; /* 0: no limit */
	uint64_t used_bytes; /* but for files that were not used lately: these can be dropped */
};

/* text: of /proc/PID/cgroup. root: where the node's file system is, "" = here. */
void cgroup_limits_parse(struct cgroup_limits *ret, const char *root, const char *text);
/* 0 or -errno: as proc_file_read(). */
int cgroup_limits_find(struct cgroup_limits *ret, const char *root, pid_t pid);

/* 0 or -errno. */
int cgroup_cpu_read(struct cgroup_cpu *ret, const char *dir);
int cgroup_memory_read(struct cgroup_memory *ret, const char *dir);

#endif
