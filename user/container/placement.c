// SPDX-License-Identifier: Apache-2.0
#include "container/placement.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "proc/mountinfo.h"

/*
 * A pod has about 25 lines. 100,000 lines of a tenant are 10 MB, and the kernel takes 0.2 s to
 * write them.
 */
#define MOUNTINFO_MAX_BYTES (512 * 1024)
#define CGROUP_MAX_BYTES 65536

static int open_file(const char *proc, uint32_t pid, const char *name)
{
	char path[PLACEMENT_PATH_MAX];
	int fd;

	if ((size_t)snprintf(path, sizeof(path), "%s/%u/%s", proc, pid, name) >= sizeof(path))
		return -ENAMETOOLONG;
	/* O_NONBLOCK has no effect in procfs. In another tree, a FIFO cannot block the open. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	return fd;
}

static bool note_line(void *arg, const struct mount_line *line)
{
	struct placement *placement = arg;

	kubelet_mounts_note(&placement->kubelet, line);
	/* The last mount on a path hides the others. */
	if (!strcmp(line->point, "/") && strlen(line->root) < sizeof(placement->root)) {
		placement->has_root = true;
		placement->root_dev = line->dev;
		memcpy(placement->root, line->root, strlen(line->root) + 1);
	}
	return true;
}

static int read_mounts(struct placement *placement, const char *proc, uint32_t pid)
{
	__cleanup(close_fd) int fd = open_file(proc, pid, "mountinfo");
	int err;

	if (fd < 0)
		return fd;
	err = mountinfo_read(fd, MOUNTINFO_MAX_BYTES, note_line, placement);
	/* -EINVAL: the process exits and has no mounts any more. */
	if (err == -EINVAL)
		return -ESRCH;
	if (err != -E2BIG)
		return err;
	placement->cut = true;
	return 0;
}

static int read_cgroups(struct placement *placement, const char *proc, uint32_t pid)
{
	__cleanup(close_fd) int fd = open_file(proc, pid, "cgroup");
	__cleanup(free_mem) char *text = malloc(CGROUP_MAX_BYTES);
	size_t len = 0;
	ssize_t n;

	if (!text)
		return -ENOMEM;
	if (fd < 0)
		return fd;
	while (len < CGROUP_MAX_BYTES - 1) {
		n = read(fd, text + len, CGROUP_MAX_BYTES - 1 - len);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (!n)
			break;
		len += n > 0 ? (size_t)n : 0;
	}
	placement->cut |= len == CGROUP_MAX_BYTES - 1;
	text[len] = 0;
	cgroup_ids_parse(&placement->cgroup, text);
	return 0;
}

int placement_read(struct placement *ret, const char *proc, uint32_t pid)
{
	__cleanup(free_mem) struct placement *placement = calloc(1, sizeof(*placement));
	int err;

	if (!placement)
		return -ENOMEM;
	err = read_mounts(placement, proc, pid);
	if (!err)
		err = read_cgroups(placement, proc, pid);
	if (!err)
		*ret = *placement;
	return err;
}
