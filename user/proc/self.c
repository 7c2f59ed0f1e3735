// SPDX-License-Identifier: Apache-2.0
#include "proc/self.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/time.h"
#include "proc/usage.h"

static uint64_t kib_after(const char *line, const char *key)
{
	size_t len = strlen(key);

	if (strncmp(line, key, len) || line[len] != ':')
		return 0;
	return strtoull(line + len + 1, NULL, 10) * 1024;
}

static int status_read(struct self_usage *usage)
{
	__cleanup(close_file) FILE *file = fopen("/proc/self/status", "re");
	char line[256];

	if (!file)
		return -errno;
	while (fgets(line, sizeof(line), file)) {
		usage->rss_bytes += kib_after(line, "VmRSS");
		usage->peak_rss_bytes += kib_after(line, "VmHWM");
		usage->own_bytes += kib_after(line, "RssAnon") + kib_after(line, "RssShmem");
	}
	return 0;
}

uint64_t self_anonymous_bytes(void)
{
	struct self_usage usage = { 0 };

	return status_read(&usage) ? 0 : usage.own_bytes;
}

/* Counts private pages of files: text and libraries of bpfprof that no other process has. */
static int private_file_read(struct self_usage *usage)
{
	__cleanup(close_file) FILE *file = fopen("/proc/self/smaps", "re");
	bool counted = false;
	char line[4352];

	if (!file)
		return -errno;
	while (fgets(line, sizeof(line), file)) {
		/*
		 * A mapping's first line starts with its address in lower-case hex, the other lines
		 * start with a capital.
		 */
		if (line[0] < 'A' || line[0] > 'Z') {
			counted = strchr(line, '/') && !strstr(line, "bpf-map");
			continue;
		}
		if (!counted)
			continue;
		usage->own_bytes += kib_after(line, "Private_Clean");
		usage->own_bytes += kib_after(line, "Private_Dirty");
		/* Modified copies are counted as anonymous. */
		usage->own_bytes -= kib_after(line, "Anonymous");
	}
	return 0;
}

uint64_t self_private_bytes(void)
{
	__cleanup(close_file) FILE *file = fopen("/proc/self/smaps_rollup", "re");
	uint64_t bytes = 0;
	char line[256];

	while (file && fgets(line, sizeof(line), file))
		bytes += kib_after(line, "Private_Clean") + kib_after(line, "Private_Dirty");
	return bytes;
}

int self_usage_read(struct self_usage *ret)
{
	struct self_usage usage = { 0 };
	struct proc_usage proc;
	struct rusage ru;
	int err;

	err = status_read(&usage);
	if (!err)
		err = private_file_read(&usage);
	if (!err)
		err = proc_usage_read(&proc, getpid());
	if (err)
		return err;
	getrusage(RUSAGE_SELF, &ru);
	usage.cpu_seconds = (double)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) +
			    (double)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) / 1e6;
	usage.age_seconds =
		((double)time_of_clock_ns(CLOCK_BOOTTIME) - (double)proc.start_ns) / 1e9;
	*ret = usage;
	return 0;
}
