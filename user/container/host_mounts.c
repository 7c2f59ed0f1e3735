// SPDX-License-Identifier: Apache-2.0
#include "container/host_mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/sorted.h"
#include "base/vec.h"
#include "proc/mountinfo.h"

#define FILE_MAX_BYTES (64 << 20) /* 100,000 mounts with the layers of overlays */
#define TEXT_MAX_BYTES (3 << 20)
#define MOUNTS_MAX 32768
#define PATH_BYTES 4096

struct host_mount {
	dev_t dev;
	uint32_t root, point; /* offsets in text */
};

struct mount_list {
	struct host_mount *mounts; /* sorted by dev, then in the order of the file */
	size_t nr, cap;
	struct buf text;
	uint64_t nr_left_out;
	int error;
	const char *strip; /* prefix of bpfprof's paths before those of the node, or "" */
};

struct host_mounts {
	char path[2][PATH_BYTES]; /* file of pid 1, file of bpfprof */
	const char *host_root; /* "" */
	char *host_root_copy;
	int fd; /* stays open: poll() reports changes */
	bool own; /* fd is bpfprof's own file */
	struct stat
		/* Of fd at the last read: shows changes if poll() does not (outside of procfs). */
		st;
	bool read;
	struct mount_list list;
	uint64_t nr_left_out;
};

static void list_fini(struct mount_list *list)
{
	free(list->mounts);
	buf_fini(&list->text);
}

static void list_init(struct mount_list *list, const char *strip)
{
	*list = (struct mount_list){ .strip = strip };
	buf_init(&list->text, TEXT_MAX_BYTES);
}

int host_mounts_new(struct host_mounts **ret, const char *proc, const char *host_root)
{
	struct host_mounts *mounts = calloc(1, sizeof(*mounts));

	if (!mounts)
		return -ENOMEM;
	mounts->fd = -1;
	mounts->host_root_copy = strdup(host_root ? host_root : "");
	if (!mounts->host_root_copy) {
		free(mounts);
		return -ENOMEM;
	}
	mounts->host_root = mounts->host_root_copy;
	snprintf(mounts->path[0], PATH_BYTES, "%s/1/mountinfo", proc);
	snprintf(mounts->path[1], PATH_BYTES, "%s/self/mountinfo", proc);
	list_init(&mounts->list, "");
	*ret = mounts;
	return 0;
}

void host_mounts_free(struct host_mounts *mounts)
{
	if (!mounts)
		return;
	if (mounts->fd >= 0)
		close(mounts->fd);
	list_fini(&mounts->list);
	free(mounts->host_root_copy);
	free(mounts);
}

static bool is_kernels_own(const char *type)
{
	static const char *const types[] = { "proc",	   "sysfs",	  "cgroup",  "cgroup2",
					     "devpts",	   "mqueue",	  "debugfs", "tracefs",
					     "securityfs", "bpf",	  "nsfs",    "autofs",
					     "pstore",	   "configfs",	  "fusectl", "efivarfs",
					     "hugetlbfs",  "binfmt_misc", "devtmpfs" };
	size_t i;

	for (i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (!strcmp(type, types[i]))
			return true;
	return false;
}

/* The path in the view of pid 1; NULL: it lies outside of the node's file system. */
static const char *node_path(const char *point, const char *strip)
{
	size_t len = strlen(strip);

	if (!len)
		return point;
	if (strncmp(point, strip, len) || (point[len] && point[len] != '/'))
		return NULL;
	return point[len] ? point + len : "/";
}

static bool list_add(void *arg, const struct mount_line *line)
{
	struct mount_list *list = arg;
	const char *point = node_path(line->point, list->strip);
	size_t bytes;

	if (!point || is_kernels_own(line->type))
		return true;
	bytes = strlen(line->root) + strlen(point) + 2;
	if (list->nr == MOUNTS_MAX || bytes > TEXT_MAX_BYTES - list->text.len) {
		list->nr_left_out++;
		return true;
	}
	list->error = vec_grow(list->mounts, list->nr + 1, list->cap, MOUNTS_MAX);
	if (list->error)
		return false;
	list->mounts[list->nr++] = (struct host_mount){
		.dev = line->dev,
		.root = (uint32_t)list->text.len,
		.point = (uint32_t)(list->text.len + strlen(line->root) + 1),
	};
	buf_add(&list->text, line->root, strlen(line->root) + 1);
	buf_add(&list->text, point, strlen(point) + 1);
	list->error = buf_error(&list->text);
	return !list->error;
}

static int mount_compare(const void *a, const void *b)
{
	const struct host_mount *x = a, *y = b;

	if (x->dev != y->dev)
		return sorted_order(x->dev, y->dev);
	return sorted_order(x->root, y->root); /* the order of the file */
}

static int open_own(struct host_mounts *mounts)
{
	int i;

	for (i = 0; i < 2 && mounts->fd < 0; i++) {
		mounts->fd = open(mounts->path[i], O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		mounts->own = i == 1;
	}
	return mounts->fd < 0 ? -errno : 0;
}

static bool has_changed(struct host_mounts *mounts)
{
	struct pollfd poll_fd = { .fd = mounts->fd, .events = POLLPRI };
	struct stat st;

	if (!mounts->read || poll(&poll_fd, 1, 0) > 0)
		return true;
	return fstat(mounts->fd, &st) || st.st_size != mounts->st.st_size ||
	       st.st_mtim.tv_sec != mounts->st.st_mtim.tv_sec ||
	       st.st_mtim.tv_nsec != mounts->st.st_mtim.tv_nsec;
}

int host_mounts_refresh(struct host_mounts *mounts)
{
	struct mount_list list;
	int err = open_own(mounts);

	if (err || !has_changed(mounts))
		return err;
	mounts->read = false; /* poll() reports a change only once */
	list_init(&list, mounts->own ? mounts->host_root : "");
	if (fstat(mounts->fd, &mounts->st) || lseek(mounts->fd, 0, SEEK_SET))
		err = -errno;
	else
		err = mountinfo_read(mounts->fd, FILE_MAX_BYTES, list_add, &list);
	if (err == -E2BIG) {
		list.nr_left_out++;
		err = 0;
	}
	if (!err)
		err = list.error;
	if (err) {
		list_fini(&list);
		return err;
	}
	if (list.nr)
		qsort(list.mounts, list.nr, sizeof(*list.mounts), mount_compare);
	list_fini(&mounts->list);
	mounts->list = list;
	mounts->nr_left_out += list.nr_left_out;
	mounts->read = true;
	return 0;
}

/* The first mount of dev; its other mounts follow. */
static size_t list_find(const struct mount_list *list, dev_t dev)
{
	return sorted_count(list->nr, i, list->mounts[i].dev < dev);
}

bool host_mounts_is_root(const struct host_mounts *mounts, dev_t dev, const char *root)
{
	const struct mount_list *list = &mounts->list;
	size_t i;

	for (i = list_find(list, dev); i < list->nr && list->mounts[i].dev == dev; i++)
		if (!strcmp(list->text.data + list->mounts[i].root, root) &&
		    !strcmp(list->text.data + list->mounts[i].point, "/"))
			return true;
	return false;
}

/* Is folder at or below above? Returns the length of above without a slash at the end; -1: no. */
static long below(const char *folder, const char *above)
{
	size_t len = strcmp(above, "/") ? strlen(above) : 0;

	if (strncmp(folder, above, len) || (folder[len] && folder[len] != '/'))
		return -1;
	return (long)len;
}

int host_mounts_path(const struct host_mounts *mounts, dev_t dev, const char *root, char *dst,
		     size_t cap)
{
	const struct mount_list *list = &mounts->list;
	const char *best = NULL, *point;
	long best_len = -1, len;
	bool below_it;
	size_t i;

	for (i = list_find(list, dev); i < list->nr && list->mounts[i].dev == dev; i++) {
		point = list->text.data + list->mounts[i].point;
		len = below(root, list->text.data + list->mounts[i].root);
		if (len < best_len || len < 0)
			continue;
		/* The first of equal mounts counts, unless a later one belongs to a bundle. */
		if (len == best_len && strcmp(strrchr(point, '/'), "/rootfs"))
			continue;
		best = point;
		best_len = len;
	}
	if (!best)
		return -ENOENT;
	root += best_len;
	if (!strcmp(root, "/"))
		root = "";
	below_it = *root != 0;
	if (*root && !strcmp(best, "/"))
		best = "";
	if (strlen(best) + strlen(root) >= cap)
		return -ENAMETOOLONG;
	snprintf(dst, cap, "%s%s", best, root);
	return !below_it;
}

size_t host_mounts_count(const struct host_mounts *mounts)
{
	return mounts->list.nr;
}

uint64_t host_mounts_nr_left_out(const struct host_mounts *mounts)
{
	return mounts->nr_left_out;
}
