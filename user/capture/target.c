// SPDX-License-Identifier: Apache-2.0
#include "capture/target.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proc/usage.h"

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

pid_t target_pod_pid(pid_t pid)
{
	char status[8192], *end;
	const char *field;
	unsigned long number = 0;

	if (proc_file_read(status, sizeof(status), pid, "status") < 0)
		return 0;
	field = status_field(status, "NSpid");
	/* The outermost pid comes first, with tabs between the pids. */
	for (; field && *field >= '0' && *field <= '9'; field = end + (*end == '\t'))
		number = strtoul(field, &end, 10);
	return number <= INT_MAX ? (pid_t)number : 0;
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
