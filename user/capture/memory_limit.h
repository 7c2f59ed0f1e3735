/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CAPTURE_MEMORY_LIMIT_H
#define BPFPROF_CAPTURE_MEMORY_LIMIT_H

/* The memory that we may use: our budget, and the limits of cgroups of version 1, 2 or both. */

#include <stdint.h>

/*
 * The lowest limit in bytes on the way from our cgroup to the root; UINT64_MAX: none. membership is
 * /proc/self/cgroup, mount is /sys/fs/cgroup; a cgroup that cannot be seen from inside a
 * container counts as its nearest visible parent.
 */
uint64_t memory_limit(const char *membership, const char *mount);

/* The most bytes that we use, BPF maps included, with this number of possible CPUs. */
uint64_t memory_budget(int nr_cpus);

#endif
