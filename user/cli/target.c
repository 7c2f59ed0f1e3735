// SPDX-License-Identifier: Apache-2.0
#include "cli/target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

#define PF_KTHREAD 0x00200000UL /* include/linux/sched.h */
#define STAT_FLAGS_FIELD 7 /* blanks from the ')' to the flags, proc(5) */

/* A small file of /proc in one read: bytes read, NUL added, or -errno. */
static ssize_t proc_read(pid_t pid, const char *name, char *buf, size_t cap)
{
	__cleanup(close_fd) int fd = -1;
	char path[64];
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	len = read(fd, buf, cap - 1);
	if (len < 0)
		return -errno;
	buf[len] = 0;
	return len;
}

/* The value after "KEY:\t", or NULL. Names cannot forge it: their newlines are escaped. */
static const char *status_field(const char *status, const char *key)
{
	size_t len = strlen(key);

	for (const char *line = status; *line;) {
		if (!strncmp(line, key, len) && line[len] == ':' && line[len + 1] == '\t')
			return line + len + 2;
		line += strcspn(line, "\n");
		line += *line == '\n';
	}
	return NULL;
}

static void copy_name(char *dst, size_t cap, const char *line)
{
	size_t len = line ? strcspn(line, "\n") : 0;

	if (len >= cap)
		len = cap - 1;
	for (size_t i = 0; i < len; i++)
		dst[i] = line[i] >= 0x20 && line[i] < 0x7f ? line[i] : '?';
	dst[len] = 0;
}

/* The name, between the first '(' and the last ')', may hold anything. */
static bool stat_is_kernel_thread(const char *stat)
{
	const char *field = strrchr(stat, ')');

	for (int i = 0; field && i < STAT_FLAGS_FIELD; i++)
		field = strchr(field + 1, ' ');
	return field && (strtoul(field + 1, NULL, 10) & PF_KTHREAD);
}

/* The words of the auxiliary vector are as wide as the program; only newer kernels show it to us. */
static int auxv_bits(pid_t pid)
{
	union {
		char bytes[1024];
		uint64_t words[128];
	} aux;
	ssize_t len = proc_read(pid, "auxv", aux.bytes, sizeof(aux.bytes));

	if (len < 16)
		return 0;
	for (size_t i = 0; i + 1 < (size_t)len / 8; i += 2) {
		if (aux.words[i] == 0)
			return 64;
		if (aux.words[i] > 1024)
			return 32;
	}
	return 0;
}

int target_probe(pid_t pid, struct target *ret)
{
	struct target target = { .pid = pid };
	char status[8192], stat[1024];
	const char *state, *leader;
	ssize_t len;

	len = proc_read(pid, "status", status, sizeof(status));
	if (len < 0)
		return (int)len;
	len = proc_read(pid, "stat", stat, sizeof(stat));
	if (len < 0)
		return (int)len;
	state = status_field(status, "State");
	leader = status_field(status, "Tgid");
	copy_name(target.name, sizeof(target.name), status_field(status, "Name"));
	target.zombie = state && (*state == 'Z' || *state == 'X');
	target.leader = leader ? (pid_t)strtoul(leader, NULL, 10) : pid;
	target.kernel_thread = stat_is_kernel_thread(stat);
	if (!target.zombie && !target.kernel_thread)
		target.bits = auxv_bits(pid);
	*ret = target;
	return 0;
}
