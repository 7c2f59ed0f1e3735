// SPDX-License-Identifier: Apache-2.0
#include "proc/image_find.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file_read.h"
#include "proc/mountinfo.h"
#include "proc/target_mount.h"

#define OWN_MOUNTS_MAX_BYTES (4U << 20)

/* Types of file handles (linux/exportfs.h, fs/xfs/xfs_export.h). */
#define FILEID_INO32_GEN 1
#define FILEID_XFS_64 0x81

struct finder {
	const struct image_place *place;
	const struct image_identity *identity;
	const struct target_mount *mount; /* mount of the path in its process, if it is known */
	struct stat st; /* the found file */
	dev_t dev; /* file system of the mount that fd must lie in */
	int fd; /* the found file, or -1 */
	int refused; /* -errno for an owned file that was refused */
	bool seen; /* bpfprof also has a mount of this file system */
	int why; /* -errno of the search in the mounts of the process */
};

dev_t image_dev(uint32_t kernel_dev)
{
	return makedev(kernel_dev >> 20, kernel_dev & 0xfffff);
}

const char *image_way_name(enum image_way way)
{
	static const char *const names[IMAGE_NR_WAYS] = {
		[IMAGE_WAY_NONE] = "none",     [IMAGE_WAY_PATH] = "path",
		[IMAGE_WAY_INODE] = "inode",   [IMAGE_WAY_LAYER] = "overlay_layer",
		[IMAGE_WAY_MOUNT] = "mount",   [IMAGE_WAY_TARGET_LAYER] = "target_layer",
		[IMAGE_WAY_MEMORY] = "memory",
	};

	return names[way];
}

/* Overlay and btrfs show device numbers that differ from the inode's super block. */
static bool has_own_devices(int fd)
{
	struct statfs fs;

	return !fstatfs(fd, &fs) && ((unsigned long)fs.f_type == OVERLAYFS_SUPER_MAGIC ||
				     (unsigned long)fs.f_type == BTRFS_SUPER_MAGIC);
}

/*
 * Is it the file? A deleted file's inode number is reused at once, so size and time are compared,
 * too.
 */
static bool is_the_one(const struct stat *st, const struct image_identity *id, int fd)
{
	if (id->folder)
		return S_ISDIR(st->st_mode);
	if (!S_ISREG(st->st_mode))
		return false;
	if (!id->ino)
		return true;
	if (st->st_ino != id->ino || (uint64_t)st->st_size != id->size ||
	    st->st_mtim.tv_sec != id->mtime_sec)
		return false;
	return st->st_dev == image_dev(id->dev) || has_own_devices(fd);
}

int image_owner_check(const struct stat *st, const struct image_identity *id)
{
	if (!S_ISREG(st->st_mode) || st->st_nlink > 1 || (st->st_uid && st->st_uid != id->uid))
		return -EPERM;
	return st->st_mtim.tv_sec < id->since_sec ? -EKEYEXPIRED : 0;
}

/* Takes fd, and keeps it if it is the file. */
static bool finder_try(struct finder *f, int fd)
{
	if (fd < 0)
		return false;
	if (!fstat(fd, &f->st)) {
		if (f->identity->owned)
			f->refused = image_owner_check(&f->st, f->identity);
		if (!f->refused && is_the_one(&f->st, f->identity, fd)) {
			f->fd = fd;
			return true;
		}
	}
	close(fd);
	return false;
}

/* An owned file is opened without following a link, so that it can be checked. */
static uint64_t last_flags(const struct finder *f)
{
	return f->identity->owned ? O_NOFOLLOW : 0;
}

/* Opens path below root; no link may lead out of it. */
static int open_below(int root_fd, const char *path, uint64_t flags)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC | flags,
				.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };

	return (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
}

static int open_path(const struct image_place *place, const char *path, uint64_t flags)
{
	__cleanup(close_fd) int root_fd = -1;
	struct stat st;

	if (!place->root[0])
		return open(path, O_PATH | O_CLOEXEC | (int)flags);
	root_fd = open(place->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root_fd < 0 || (place->root_ino && fstat(root_fd, &st)))
		return -1;
	if (place->root_ino &&
	    (st.st_ino != place->root_ino ||
	     (st.st_dev != image_dev(place->root_dev) && !has_own_devices(root_fd)))) {
		errno = ESTALE;
		return -1;
	}
	return open_below(root_fd, path, flags);
}

static void own_mounts_read(mount_line_fn fn, struct finder *f)
{
	__cleanup(close_fd) int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);

	if (fd >= 0)
		mountinfo_read(fd, OWN_MOUNTS_MAX_BYTES, fn, f);
}

/* Opens a folder or file of the file system, as handles need one. */
static bool open_mount(void *arg, const struct mount_line *line)
{
	struct finder *f = arg;
	__cleanup(close_fd) int path_fd = -1;
	struct stat st;
	char self[40];

	if (line->dev != f->dev)
		return true;
	path_fd = open(line->point, O_PATH | O_CLOEXEC);
	if (path_fd < 0 || fstat(path_fd, &st) || st.st_dev != f->dev ||
	    !(S_ISDIR(st.st_mode) || S_ISREG(st.st_mode)))
		return true;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", path_fd);
	f->fd = open(self, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	return f->fd < 0;
}

static int open_handle(int mount_fd, int type, const uint32_t *words, unsigned int nr)
{
	union {
		struct file_handle head;
		char room[sizeof(struct file_handle) + 4 * sizeof(uint32_t)];
	} handle;

	handle.head.handle_type = type;
	handle.head.handle_bytes = nr * (unsigned int)sizeof(uint32_t);
	memcpy(handle.head.f_handle, words, nr * sizeof(uint32_t));
	return open_by_handle_at(mount_fd, &handle.head, O_PATH | O_CLOEXEC);
}

/* Finds the inode itself, even if its names have changed. */
static bool find_inode(struct finder *f)
{
	const struct image_identity *id = f->identity;
	uint32_t lo = (uint32_t)id->ino, hi = (uint32_t)(id->ino >> 32);
	const uint32_t ino32_gen[] = { lo, id->ino_gen };
	const uint32_t xfs[] = { lo, hi, id->ino_gen };
	const uint32_t tmpfs[] = { id->ino_gen, lo, hi };
	__cleanup(close_fd) int mount_fd = -1;
	int fd = -1;

	f->dev = image_dev(id->dev);
	own_mounts_read(open_mount, f);
	mount_fd = f->fd;
	f->fd = -1;
	if (mount_fd < 0)
		return false;
	if (!hi)
		fd = open_handle(mount_fd, FILEID_INO32_GEN, ino32_gen, 2);
	if (fd < 0)
		fd = open_handle(mount_fd, FILEID_XFS_64, xfs, 3);
	if (fd < 0)
		fd = open_handle(mount_fd, FILEID_INO32_GEN, tmpfs, 3);
	return finder_try(f, fd);
}

static bool find_in_layers(struct finder *f, const struct target_mount *mount, const char *path)
{
	char layer[PATH_MAX];
	unsigned int i;
	int root_fd, fd;

	for (i = 0; !target_mount_layer(mount, i, layer, sizeof(layer)); i++) {
		root_fd = open_path(f->place, layer, O_DIRECTORY);
		if (root_fd < 0)
			continue;
		fd = open_below(root_fd, path, last_flags(f));
		close(root_fd);
		/* Without an inode the uppermost file counts, even if it is marked as deleted. */
		if (finder_try(f, fd) || (fd >= 0 && !f->identity->ino))
			return f->fd >= 0;
	}
	return false;
}

/*
 * Since 6.12 the kernel names a file of an overlay by its path inside the layer. The mount options
 * have the folders of the layers; inode and device identify the right one.
 */
static bool layers_of_mount(void *arg, const struct mount_line *line)
{
	struct finder *f = arg;
	struct target_mount mount = { .layers = (char *)line->options };

	return strcmp(line->type, "overlay") || !find_in_layers(f, &mount, f->place->path);
}

/*
 * Opens path below a mount of bpfprof. Any path may lead to a file with a known inode. For another
 * file, links of the target must not lead out of its mount.
 */
static int open_in_mount(const struct finder *f, int point_fd, const char *path)
{
	struct open_how how = { .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
				.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS };
	const char *inside = f->mount->inside + strspn(f->mount->inside, "/");
	size_t len = strlen(path), len_inside = strlen(inside);
	__cleanup(close_fd) int root_fd = -1;
	char folder[PATH_MAX] = ".";

	if (f->identity->ino)
		return open_below(point_fd, path, 0);
	if (len > len_inside) /* otherwise bpfprof's mount lies within the target's */
		snprintf(folder, sizeof(folder), "./%.*s", (int)(len - len_inside), path);
	else
		inside = path;
	root_fd = (int)syscall(SYS_openat2, point_fd, folder, &how, sizeof(how));
	return root_fd < 0 ? root_fd : open_below(root_fd, inside[0] ? inside : ".", last_flags(f));
}

/*
 * Searches a container's rootfs or a volume: bpfprof may have a mount of the file system of the
 * target's mount.
 */
static bool below_mount(void *arg, const struct mount_line *line)
{
	struct finder *f = arg;
	const char *path = target_mount_below(f->mount, line);
	__cleanup(close_fd) int point_fd = -1;

	if (!path)
		return true;
	point_fd = open(line->point, O_PATH | O_CLOEXEC);
	if (point_fd < 0)
		return true;
	f->seen = true;
	return !finder_try(f, path[0] ? open_in_mount(f, point_fd, path) : dup(point_fd));
}

/*
 * Is the process in bpfprof's user namespace now? A process that has left it cannot come back. So a
 * process that is in it was also in it when its mounts were listed, and could not make them with
 * rights of its own namespace.
 */
static bool has_our_users(uint32_t pid)
{
	char name[40], own[4096], its[sizeof(own)];
	ssize_t own_len = file_read_text(own, sizeof(own), "/proc/self/uid_map"), len;

	snprintf(name, sizeof(name), "/proc/%u/uid_map", pid);
	len = file_read_text(its, sizeof(its), name);
	return len > 0 && len == own_len && !memcmp(own, its, (size_t)len);
}

static bool find_by_target(struct finder *f, enum image_way *ret_way)
{
	struct target_mount mount;
	__cleanup(close_fd) int fd = -1;
	char name[40];
	bool layers;

	snprintf(name, sizeof(name), "/proc/%u/mountinfo", f->place->pid);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd < 0) /* EINVAL: the process is a zombie */
		f->why = errno == ENOENT || errno == EINVAL ? -ESRCH : -errno;
	else
		f->why = target_mount_find(&mount, fd, f->place->path);
	if (f->why)
		return false;
	f->mount = &mount;
	own_mounts_read(below_mount, f);
	/*
	 * Without an inode to compare, only the text of the mount's options would identify the
	 * file.
	 */
	layers = mount.layers && (f->identity->ino || (!f->seen && f->place->trusts_layers &&
						       has_our_users(f->place->pid)));
	if (f->fd >= 0)
		*ret_way = IMAGE_WAY_MOUNT;
	else if (layers && find_in_layers(f, &mount, mount.inside))
		*ret_way = IMAGE_WAY_TARGET_LAYER;
	else
		f->why = f->seen || layers ? -ENOENT : -EXDEV;
	f->mount = NULL;
	target_mount_fini(&mount);
	return f->fd >= 0;
}

int image_find(const struct image_place *place, const struct image_identity *identity,
	       struct stat *ret_st, enum image_way *ret_way)
{
	struct finder f = { .place = place, .identity = identity, .fd = -1 };
	bool absolute = place->path[0] == '/';
	enum image_way way = IMAGE_WAY_PATH;
	int fd, err = -ESTALE;

	if (absolute && !(place->pid && !identity->ino)) {
		fd = open_path(place, place->path, last_flags(&f));
		if (fd < 0)
			err = -errno;
		finder_try(&f, fd);
	}
	if (f.fd < 0 && identity->ino && find_inode(&f))
		way = IMAGE_WAY_INODE;
	if (f.fd < 0 && identity->ino && absolute) {
		own_mounts_read(layers_of_mount, &f);
		way = IMAGE_WAY_LAYER;
	}
	if (f.fd < 0 && !(absolute && place->pid && find_by_target(&f, &way)))
		return f.refused				      ? f.refused
		       : f.why && (!identity->ino || f.why == -EXDEV) ? f.why
								      : err;
	*ret_st = f.st;
	*ret_way = way;
	return f.fd;
}
