// SPDX-License-Identifier: Apache-2.0
/*
 * `py-spy bpfprof-install DIR`: an init container copies the program out of an image that has no shell, under both
 * names, and writes the configuration beside it. DIR/memray is a file of its own, so that subPath can mount it.
 */
#include "standin.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int failed(const char *path)
{
	return standin_fail("%s: %s", path, strerror(errno));
}

/* Opens DIR/NAME anew. */
static int file_make(const char *dir, const char *name, mode_t mode)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	unlink(path); /* a program that runs cannot be written */
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	if (fd >= 0 && !fchmod(fd, mode)) /* whatever the umask is */
		return fd;
	failed(path);
	if (fd >= 0)
		close(fd);
	return -1;
}

static int program_copy(const char *dir, const char *name)
{
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), to;
	char bytes[65536];
	ssize_t len = -1;

	if (from < 0)
		return failed("/proc/self/exe");
	to = file_make(dir, name, 0755);
	while (to >= 0 && (len = read(from, bytes, sizeof(bytes))) > 0)
		if (write(to, bytes, (size_t)len) != len) {
			len = failed(name) ? -1 : 0;
			break;
		}
	close(from);
	if (to < 0)
		return STATUS_FAILED;
	return close(to) ? failed(name) : len ? STATUS_FAILED : 0;
}

static int config_write(const char *dir)
{
	static const char *const names[] = { "BPFPROF_AGENT", "HOST_IP", "BPFPROF_TOKEN",
					     "BPFPROF_TOKEN_FILE" };
	int fd = file_make(dir, "bpfprof-agent.conf", 0644);
	const char *value;
	size_t i;

	if (fd < 0)
		return STATUS_FAILED;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		value = getenv(names[i]);
		if (value && !strchr(value, '\n') && dprintf(fd, "%s=%s\n", names[i], value) < 0)
			return failed("bpfprof-agent.conf");
	}
	return close(fd) ? failed("bpfprof-agent.conf") : 0;
}

int standin_install(const char *dir)
{
	int status = program_copy(dir, "py-spy");

	if (!status)
		status = program_copy(dir, "memray");
	return status ? status : config_write(dir);
}
