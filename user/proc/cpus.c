// SPDX-License-Identifier: Apache-2.0
#include "proc/cpus.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file_read.h"

#define MAX_CPUS 8192 /* the most that Linux can be built for */

/* The first CPU in the core of this CPU; -1: the CPU is offline, or the core is not known. */
static long core_first(long cpu)
{
	char path[96], text[64];

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%ld/topology/thread_siblings_list",
		 cpu);
	return file_read_text(text, sizeof(text), path) > 0 ? (long)strtoull(text, NULL, 10) : -1;
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
