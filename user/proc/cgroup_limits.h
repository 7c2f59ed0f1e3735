/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROC_CGROUP_LIMITS_H
#define BPFPROF_PROC_CGROUP_LIMITS_H

/*
 * The limits of the cgroups of a process, and how much of them is used: cgroup v2, and v1 for controllers
 * that are still there. The nearest group with a limit counts, from that of the process upwards. Paths
 * come from the kernel; the target chooses names in them.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CGROUP_DIR_MAX 512 /* longer ones are ignored */

/* The folders of the groups with a limit; "": there is none, or it cannot be seen from here. */
struct cgroup_limits {
	char cpu[CGROUP_DIR_MAX];
	char memory[CGROUP_DIR_MAX];
	bool hidden; /* the groups lie outside of our own cgroup namespace */
};

struct cgroup_cpu {
	double cpus; /* the group may use at once, 0: no limit */
	uint64_t nr_periods, nr_throttled, throttled_ns; /* since the group was made */
};

struct cgroup_memory {
	uint64_t max_bytes; /* 0: no limit */
	uint64_t
		used_bytes; /* without files that were not used lately: the kernel can drop these */
};

/* text: of /proc/PID/cgroup. root: the folder of the node's file system, "": /. */
void cgroup_limits_parse(struct cgroup_limits *ret, const char *root, const char *text);
/* 0 or -errno: as proc_file_read(). */
int cgroup_limits_find(struct cgroup_limits *ret, const char *root, pid_t pid);

/* 0 or -errno. */
int cgroup_cpu_read(struct cgroup_cpu *ret, const char *dir);
int cgroup_memory_read(struct cgroup_memory *ret, const char *dir);

#endif
