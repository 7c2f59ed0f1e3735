// SPDX-License-Identifier: Apache-2.0
#include "proc/node_root.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "proc/mountinfo.h"

#define MOUNTS_MAX_BYTES (4U << 20)

struct root {
	dev_t dev;
	char folder[4096]; /* of the file system */
	bool found;
};

static bool root_take(void *arg, const struct mount_line *line)
{
	struct root *root = arg;

	if (strcmp(line->point, "/")) /* a later mount hides the earlier ones */
		return true;
	root->found = true;
	root->dev = line->dev;
	snprintf(root->folder, sizeof(root->folder), "%s", line->root);
	return true;
}

/* False: the mounts cannot be read. */
static bool root_read(struct root *ret, const char *proc, const char *process)
{
	__cleanup(close_fd) int fd = -1;
	char path[256];

	*ret = (struct root){ 0 };
	snprintf(path, sizeof(path), "%s/%s/mountinfo", proc, process);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 && !mountinfo_read(fd, MOUNTS_MAX_BYTES, root_take, ret);
}

enum node_root node_root_look(const char *proc)
{
	struct root first, own;

	if (!root_read(&first, proc, "1") || !first.found || !root_read(&own, proc, "self"))
		return NODE_ROOT_UNKNOWN;
	/* Below chroot(2) the root folder need not be a mount. */
	return own.found && own.dev == first.dev && !strcmp(own.folder, first.folder)
		       ? NODE_ROOT_OURS
		       : NODE_ROOT_ELSEWHERE;
}
