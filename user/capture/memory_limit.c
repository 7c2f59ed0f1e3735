// SPDX-License-Identifier: Apache-2.0
#include "capture/memory_limit.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file_read.h"

#define FILE_NAME_MAX 32
#define MIB (1ULL << 20)
#define BUDGET_CPUS 32
#define BUDGET_BYTES (64 * MIB) /* for BUDGET_CPUS */
#define BUDGET_PER_CPU (MIB / 2) /* for each CPU above BUDGET_CPUS */

/* The number in a file; UINT64_MAX for "max", and if the file does not exist. */
static uint64_t limit_read(const char *path)
{
	char text[32];

	file_read_text(text, sizeof(text), path);
	return *text >= '0' && *text <= '9' ? strtoull(text, NULL, 10) : UINT64_MAX;
}

/* The lowest limit in the directories from mount/cgroup up to mount itself. */
static uint64_t lowest_limit(const char *mount, const char *cgroup, const char *name)
{
	char path[2 * PATH_MAX];
	uint64_t lowest = UINT64_MAX, limit;
	size_t root = strlen(mount);
	int len = snprintf(path, sizeof(path) - FILE_NAME_MAX, "%s%s", mount, cgroup);

	if (len < 0 || (size_t)len >= sizeof(path) - FILE_NAME_MAX)
		return lowest;
	for (size_t end = (size_t)len;; end--) {
		/* This happens at the end of each part of the path; the last part is mount. */
		if (end > root && path[end] && path[end] != '/')
			continue;
		snprintf(path + end, FILE_NAME_MAX, "/%s", name);
		limit = limit_read(path);
		if (limit < lowest)
			lowest = limit;
		if (end <= root)
			return lowest;
		path[end] = 0;
	}
}

uint64_t memory_limit(const char *membership, const char *mount)
{
	__cleanup(close_file) FILE *file = fopen(membership, "re");
	uint64_t lowest = UINT64_MAX, limit;
	char line[PATH_MAX + 64], v1[PATH_MAX];

	if (snprintf(v1, sizeof(v1), "%s/memory", mount) >= (int)sizeof(v1))
		return lowest;
	while (file && fgets(line, sizeof(line), file)) {
		const char *controllers = strchr(line, ':');
		const char *cgroup = controllers ? strchr(controllers + 1, ':') : NULL;

		if (!cgroup)
			continue;
		line[strcspn(line, "\n")] = 0;
		limit = UINT64_MAX;
		if (!strncmp(line, "0::", 3))
			limit = lowest_limit(mount, cgroup + 1, "memory.max");
		else if (!strncmp(controllers, ":memory:", 8))
			limit = lowest_limit(v1, cgroup + 1, "memory.limit_in_bytes");
		if (limit < lowest)
			lowest = limit;
	}
	return lowest;
}

uint64_t memory_budget(int nr_cpus)
{
	return BUDGET_BYTES +
	       (nr_cpus > BUDGET_CPUS ? (uint64_t)(nr_cpus - BUDGET_CPUS) * BUDGET_PER_CPU : 0);
}
