// SPDX-License-Identifier: Apache-2.0
#include "proc/cpus.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"

#define MAX_CPUS 8192 /* the most that Linux can be built for */

/* The first CPU in the core of this CPU; -1: the CPU is offline, or the core is not known. */
static long core_first(long cpu)
{
	__cleanup(close_fd) int fd = -1;
	char path[96], text[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%ld/topology/thread_siblings_list",
		 cpu);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	n = read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return -1;
	text[n] = 0;
	return (long)strtoull(text, NULL, 10);
}

void cpus_count(uint32_t *ret_logical, uint32_t *ret_cores)
{
	long logical = sysconf(_SC_NPROCESSORS_ONLN), all = sysconf(_SC_NPROCESSORS_CONF), cpu;
	uint32_t cores = 0;

	*ret_logical = logical > 0 ? (uint32_t)logical : 1;
	for (cpu = 0; cpu < all && cpu < MAX_CPUS; cpu++)
		cores += core_first(cpu) == cpu;
	*ret_cores = cores ? cores : *ret_logical;
}

uint32_t cpus_allowed(pid_t pid)
{
	cpu_set_t *set = CPU_ALLOC(MAX_CPUS);
	size_t bytes = CPU_ALLOC_SIZE(MAX_CPUS);
	uint32_t nr = 0;

	if (!set)
		return 0;
	if (!sched_getaffinity(pid, bytes, set))
		nr = (uint32_t)CPU_COUNT_S(bytes, set);
	CPU_FREE(set);
	return nr;
}
