// SPDX-License-Identifier: Apache-2.0
#include "proc/usage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/deadline.h"
#include "base/file_read.h"

#define CMDLINE_DEADLINE_MS 250

/* Fields of /proc/PID/stat; the state is field 0 here (field 3 in proc(5)). */
enum {
	STAT_PARENT = 1,
	STAT_FLAGS = 6,
	STAT_UTIME = 11,
	STAT_STIME = 12,
	STAT_THREADS = 17,
	STAT_START = 19,
	STAT_RSS = 21,
	STAT_NR,
};

ssize_t proc_file_read(char *dst, size_t cap, pid_t pid, const char *name)
{
	char path[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	n = file_read_text(dst, cap, path);
	return n == -ENOENT ? -ESRCH : n;
}

static uint64_t ticks_to_ns(uint64_t ticks)
{
	long per_second = sysconf(_SC_CLK_TCK);

	return ticks * (1000000000ULL / (uint64_t)(per_second > 0 ? per_second : 100));
}

bool proc_usage_has_memory(const struct proc_usage *usage)
{
	return !(usage->flags & PROC_PF_KTHREAD) && usage->state != 'Z' && usage->state != 'X';
}

uint64_t proc_usage_start_ticks(const struct proc_usage *usage)
{
	return usage->start_ns / (1000000000ULL / (uint64_t)sysconf(_SC_CLK_TCK));
}

int proc_usage_read(struct proc_usage *ret, pid_t pid)
{
	unsigned long long fields[STAT_NR] = { 0 };
	char text[1024], *name, *at;
	ssize_t n = proc_file_read(text, sizeof(text), pid, "stat");
	int i;

	if (n < 0)
		return (int)n;
	/* The name may have any characters, even parentheses: the last ')' ends it. */
	name = strchr(text, '(');
	at = strrchr(text, ')');
	if (!name || !at || at < name || at[1] != ' ' || !at[2])
		return -EBADMSG;
	*at = 0;
	*ret = (struct proc_usage){ .state = at[2] };
	snprintf(ret->comm, sizeof(ret->comm), "%s", name + 1);
	at += 3;
	for (i = 1; i < STAT_NR; i++)
		fields[i] = strtoull(at, &at, 10);
	ret->parent = (pid_t)fields[STAT_PARENT];
	ret->flags = (uint32_t)fields[STAT_FLAGS];
	ret->cpu_ns = ticks_to_ns(fields[STAT_UTIME] + fields[STAT_STIME]);
	ret->nr_threads = (uint32_t)fields[STAT_THREADS];
	ret->start_ns = ticks_to_ns(fields[STAT_START]);
	ret->rss_bytes = fields[STAT_RSS] * (uint64_t)sysconf(_SC_PAGESIZE);
	return 0;
}

struct cmdline_job {
	pid_t pid;
	char text[PROC_CMDLINE_MAX];
};

static long cmdline_run(void *arg)
{
	struct cmdline_job *job = arg;

	return proc_file_read(job->text, sizeof(job->text), job->pid, "cmdline");
}

ssize_t proc_argv_read(struct deadline_runner *runner, char *dst, size_t cap, pid_t pid)
{
	struct cmdline_job job = { .pid = pid };
	long n = deadline_run(runner, deadline_process((uint32_t)pid), cmdline_run, NULL, &job,
			      sizeof(job), CMDLINE_DEADLINE_MS);

	if (n < 0)
		return n;
	if ((size_t)n > cap - 1)
		n = (long)cap - 1;
	memcpy(dst, job.text, (size_t)n);
	dst[n] = 0;
	return n;
}

int proc_cmdline_read(struct deadline_runner *runner, char *dst, size_t cap, pid_t pid)
{
	ssize_t n = proc_argv_read(runner, dst, cap, pid), i;

	if (n < 0)
		return (int)n;
	while (n > 0 && !dst[n - 1])
		n--;
	for (i = 0; i < n; i++)
		dst[i] = dst[i] ? dst[i] : ' ';
	dst[n] = 0;
	return 0;
}
