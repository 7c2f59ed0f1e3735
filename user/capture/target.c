// SPDX-License-Identifier: Apache-2.0
#include "capture/target.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proc/usage.h"

#define PID_NAMESPACES_MAX 33 /* MAX_PID_NS_LEVEL of the kernel, and the first one */

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

static void copy_printable(char *dst, size_t cap, const char *name)
{
	size_t i;

	for (i = 0; name[i] && i < cap - 1; i++)
		dst[i] = name[i] >= 0x20 && name[i] < 0x7f ? name[i] : '?';
	dst[i] = 0;
}

/*
 * The bits of an address of the program, as in its auxiliary vector. Older kernels do not show the
 * vector.
 */
static int auxv_bits(pid_t pid)
{
	union {
		char bytes[1024];
		uint64_t words[128];
	} aux;
	ssize_t len = proc_file_read(aux.bytes, sizeof(aux.bytes), pid, "auxv");

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

/*
 * The pids of a process, the outermost pid namespace first: at most `cap` of them. Their number, 0 if
 * they cannot be read.
 */
static size_t pids_read(pid_t pid, unsigned long *ret, size_t cap)
{
	char status[8192], *end;
	const char *field;
	size_t nr = 0;

	if (proc_file_read(status, sizeof(status), pid, "status") < 0)
		return 0;
	field = status_field(status, "NSpid");
	for (; field && *field >= '0' && *field <= '9' && nr < cap; field = end + (*end == '\t'))
		ret[nr++] = strtoul(field, &end, 10);
	return nr;
}

pid_t target_pod_pid(pid_t pid)
{
	unsigned long pids[PID_NAMESPACES_MAX];
	size_t nr = pids_read(pid, pids, PID_NAMESPACES_MAX);

	return nr && pids[nr - 1] <= INT_MAX ? (pid_t)pids[nr - 1] : 0;
}

bool target_is_pid(pid_t pid, pid_t number)
{
	unsigned long pids[PID_NAMESPACES_MAX];
	size_t nr = pids_read(pid, pids, PID_NAMESPACES_MAX);

	while (nr && pids[nr - 1] != (unsigned long)number)
		nr--;
	return nr;
}

bool target_has_start(pid_t pid, uint64_t ticks)
{
	struct proc_usage usage;

	return !ticks || (!proc_usage_read(&usage, pid) && proc_usage_start_ticks(&usage) == ticks);
}

bool target_is_outermost(pid_t pid)
{
	unsigned long pids[2];
	struct proc_usage usage;

	return pids_read(pid, pids, 2) == 1 && !proc_usage_read(&usage, pid) &&
	       usage.state != 'Z' && usage.state != 'X' && !(usage.flags & PROC_PF_EXITING);
}

int target_probe(pid_t pid, struct target *ret)
{
	struct target target = { .pid = pid };
	struct proc_usage usage;
	const char *leader;
	char status[8192];
	ssize_t len;
	int err;

	len = proc_file_read(status, sizeof(status), pid, "status");
	if (len < 0)
		return (int)len;
	err = proc_usage_read(&usage, pid);
	if (err)
		return err;
	leader = status_field(status, "Tgid");
	copy_printable(target.name, sizeof(target.name), usage.comm);
	target.zombie = usage.state == 'Z' || usage.state == 'X';
	target.leader = leader ? (pid_t)strtoul(leader, NULL, 10) : pid;
	target.kernel_thread = usage.flags & PROC_PF_KTHREAD;
	if (!target.zombie && !target.kernel_thread)
		target.bits = auxv_bits(pid);
	*ret = target;
	return 0;
}
