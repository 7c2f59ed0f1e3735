// SPDX-License-Identifier: Apache-2.0
#include "proc/cgroup_limits.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file_read.h"
#include "proc/usage.h"

#define CGROUPS "/sys/fs/cgroup"
#define FILE_MAX 8192
#define TEXT_MAX 16384 /* for /proc/PID/cgroup */
#define MAX_LEVELS 32
#define NO_LIMIT (1ULL << 62) /* for no limit, v1 writes the largest number of pages */

static int file_read(char *dst, size_t cap, const char *dir, const char *name)
{
	char path[CGROUP_DIR_MAX + 64];
	ssize_t n;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	n = file_read_text(dst, cap, path);
	return n < 0 ? (int)n : 0;
}

/* Reads a file that is one number; false: it holds none, such as `max` and -1. */
static bool number_read(uint64_t *ret, const char *dir, const char *name)
{
	char text[64];

	if (file_read(text, sizeof(text), dir, name) || *text < '0' || *text > '9')
		return false;
	*ret = strtoull(text, NULL, 10);
	return true;
}

/* The number behind `key ` at the beginning of a line; 0: there is no such line. */
static uint64_t value_of(const char *text, const char *key)
{
	size_t len = strlen(key);

	while (text && *text) {
		if (!strncmp(text, key, len) && text[len] == ' ')
			return strtoull(text + len + 1, NULL, 10);
		text = strchr(text, '\n');
		text += text != NULL;
	}
	return 0;
}

static double cpus_of(uint64_t quota_us, uint64_t period_us)
{
	return period_us ? (double)quota_us / (double)period_us : 0;
}

static bool cpu_limit_read(double *ret, const char *dir)
{
	uint64_t quota, period;
	char text[64], *end;

	if (!file_read(text, sizeof(text), dir, "cpu.max")) {
		if (*text < '0' || *text > '9')
			return false;
		quota = strtoull(text, &end, 10);
		*ret = cpus_of(quota, strtoull(end, NULL, 10));
		return *ret > 0;
	}
	if (!number_read(&quota, dir, "cpu.cfs_quota_us") ||
	    !number_read(&period, dir, "cpu.cfs_period_us"))
		return false;
	*ret = cpus_of(quota, period);
	return *ret > 0;
}

static bool memory_limit_read(uint64_t *ret, const char *dir)
{
	return (number_read(ret, dir, "memory.max") ||
		number_read(ret, dir, "memory.limit_in_bytes")) &&
	       *ret && *ret < NO_LIMIT;
}

int cgroup_cpu_read(struct cgroup_cpu *ret, const char *dir)
{
	struct cgroup_cpu cpu = { 0 };
	char text[FILE_MAX];
	int err;

	err = file_read(text, sizeof(text), dir, "cpu.stat");
	if (err)
		return err;
	cpu_limit_read(&cpu.cpus, dir);
	cpu.nr_periods = value_of(text, "nr_periods");
	cpu.nr_throttled = value_of(text, "nr_throttled");
	cpu.throttled_ns =
		value_of(text, "throttled_usec") * 1000 + value_of(text, "throttled_time");
	*ret = cpu;
	return 0;
}

int cgroup_memory_read(struct cgroup_memory *ret, const char *dir)
{
	struct cgroup_memory memory = { 0 };
	uint64_t used, inactive;
	char text[FILE_MAX];
	int err;

	err = file_read(text, sizeof(text), dir, "memory.stat");
	if (err)
		return err;
	if (!number_read(&used, dir, "memory.current") &&
	    !number_read(&used, dir, "memory.usage_in_bytes"))
		return -ENODATA;
	if (!memory_limit_read(&memory.max_bytes, dir))
		memory.max_bytes = 0;
	/* v1 has a total that includes the groups below. */
	inactive = value_of(text, "total_inactive_file") ?: value_of(text, "inactive_file");
	memory.used_bytes = used > inactive ? used - inactive : 0;
	*ret = memory;
	return 0;
}

static bool has_cpu_limit(const char *dir)
{
	double cpus;

	return cpu_limit_read(&cpus, dir);
}

static bool has_memory_limit(const char *dir)
{
	uint64_t bytes;

	return memory_limit_read(&bytes, dir);
}

/* Finds the first group with a limit, from hierarchy/path upwards. */
static void climb(char ret[CGROUP_DIR_MAX], const char *root, const char *hierarchy,
		  const char *path, bool (*limits)(const char *dir))
{
	char dir[CGROUP_DIR_MAX];
	size_t base;
	int n, level;

	n = snprintf(dir, sizeof(dir), "%s" CGROUPS "%s", root, hierarchy);
	if (n < 0 || (size_t)n + strlen(path) >= sizeof(dir))
		return;
	base = (size_t)n;
	memcpy(dir + base, path, strlen(path) + 1);
	for (level = 0; level < MAX_LEVELS && strlen(dir) > base + 1; level++) {
		if (limits(dir)) {
			memcpy(ret, dir, sizeof(dir));
			return;
		}
		*strrchr(dir, '/') = 0;
	}
}

static bool lists(const char *controllers, size_t len, const char *name)
{
	const char *end = controllers + len, *comma;

	while (controllers < end) {
		comma = memchr(controllers, ',', (size_t)(end - controllers));
		if (!comma)
			comma = end;
		if ((size_t)(comma - controllers) == strlen(name) &&
		    !memcmp(controllers, name, strlen(name)))
			return true;
		controllers = comma + 1;
	}
	return false;
}

/* Reads ID:CONTROLLERS:PATH; v2 has no controllers. */
static void take_line(struct cgroup_limits *ret, const char *root, char *line)
{
	char *controllers = strchr(line, ':'), *path;
	size_t len;

	path = controllers ? strchr(controllers + 1, ':') : NULL;
	if (!path || path[1] != '/')
		return;
	controllers++;
	len = (size_t)(path - controllers);
	path++;
	/* In a cgroup namespace, a path outside of it is relative to its root. */
	if (!strncmp(path, "/..", 3)) {
		ret->hidden = true;
		return;
	}
	if (!len || lists(controllers, len, "cpu"))
		climb(ret->cpu, root, len ? "/cpu" : "", path, has_cpu_limit);
	if (!len || lists(controllers, len, "memory"))
		climb(ret->memory, root, len ? "/memory" : "", path, has_memory_limit);
}

void cgroup_limits_parse(struct cgroup_limits *ret, const char *root, const char *text)
{
	char line[CGROUP_DIR_MAX];
	size_t len;

	*ret = (struct cgroup_limits){ 0 };
	for (; *text; text += len + (text[len] == '\n')) {
		len = strcspn(text, "\n");
		if (len >= sizeof(line))
			continue;
		memcpy(line, text, len);
		line[len] = 0;
		take_line(ret, root, line);
	}
}

int cgroup_limits_find(struct cgroup_limits *ret, const char *root, pid_t pid)
{
	char text[TEXT_MAX];
	ssize_t n = proc_file_read(text, sizeof(text), pid, "cgroup");

	if (n < 0)
		return (int)n;
	cgroup_limits_parse(ret, root, text);
	return 0;
}
