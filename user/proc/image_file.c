// SPDX-License-Identifier: Apache-2.0
#include "proc/image_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/deadline.h"
#include "bpfprof.h"
#include "elf/image.h"

#define XFS_MAGIC 0x58465342
#define ZFS_MAGIC 0x2fc12fc1
#define F2FS_MAGIC 0xF2F52010
#define EROFS_MAGIC 0xE0F5E1E2
#define READ_CHUNK 65536
#define MAX_LINE 8192
#define MAX_LAYERS 128

/* Types of file handles (linux/exportfs.h, fs/xfs/xfs_export.h). */
#define FILEID_INO32_GEN 1
#define FILEID_XFS_64 0x81

struct open_job {
	char root[BPFPROF_PATH_MAX];
	char path[BPFPROF_PATH_MAX];
	struct image_identity identity;
	int fd; /* result */
	uint64_t size; /* result */
	bool may_block; /* result */
};

/* The kernel's dev_t (12 bits major, 20 bits minor) as stat shows it. */
static dev_t dev_of(uint32_t kernel_dev)
{
	return makedev(kernel_dev >> 20, kernel_dev & 0xfffff);
}

/*
 * Inode numbers are used again at once when a file is deleted, hence size and time. Overlay and
 * btrfs show other device numbers than the inode's super block has.
 */
static bool is_the_one(const struct stat *st, const struct image_identity *id, bool any_dev)
{
	if (!S_ISREG(st->st_mode))
		return false;
	if (!id->ino)
		return true;
	if (st->st_ino != id->ino)
		return false;
	if (st->st_dev != dev_of(id->dev) && !any_dev)
		return false;
	return (uint64_t)st->st_size == id->size && st->st_mtim.tv_sec == id->mtime_sec;
}

/* Another file under the same number? Asked of file systems that are known to tell. */
static bool is_later_file(int fd, const struct image_identity *id)
{
	uint32_t generation[2] = { 0 }; /* declared as long, written as int */

	return id->ino && !ioctl(fd, FS_IOC_GETVERSION, generation) && generation[0] != id->ino_gen;
}

/* Files of the kernel's own: reading them can do things, and no program lies there. */
static bool fs_is_pseudo(int fd)
{
	struct statfs fs;

	if (fstatfs(fd, &fs))
		return true;
	switch ((unsigned long)fs.f_type) {
	case PROC_SUPER_MAGIC:
	case SYSFS_MAGIC:
	case DEBUGFS_MAGIC:
	case TRACEFS_MAGIC:
	case SECURITYFS_MAGIC:
	case CGROUP_SUPER_MAGIC:
	case CGROUP2_SUPER_MAGIC:
	case BPF_FS_MAGIC:
		return true;
	default:
		return false;
	}
}

static bool fs_may_block(int fd)
{
	struct statfs fs;

	if (fstatfs(fd, &fs))
		return true;
	switch ((unsigned long)fs.f_type) {
	case EXT4_SUPER_MAGIC:
	case XFS_MAGIC:
	case BTRFS_SUPER_MAGIC:
	case TMPFS_MAGIC:
	case RAMFS_MAGIC:
	case SQUASHFS_MAGIC:
	case EROFS_MAGIC:
	case F2FS_MAGIC:
	case ZFS_MAGIC:
	case ISOFS_SUPER_MAGIC:
	case MSDOS_SUPER_MAGIC:
		return false;
	default:
		return true;
	}
}

static bool has_own_devices(int fd)
{
	struct statfs fs;

	return !fstatfs(fd, &fs) && ((unsigned long)fs.f_type == OVERLAYFS_SUPER_MAGIC ||
				     (unsigned long)fs.f_type == BTRFS_SUPER_MAGIC);
}

/*
 * Opens for reading what an O_PATH descriptor stands for. O_NONBLOCK: a tenant's
 * lease on the file (fcntl(2)) would hold us up for 45 seconds.
 */
static int reopen(int path_fd)
{
	char self[40];

	snprintf(self, sizeof(self), "/proc/self/fd/%d", path_fd);
	return open(self, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
}

static int open_path(const char *root, const char *path)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT };
	__cleanup(close_fd) int root_fd = -1;

	if (!root[0])
		return open(path, O_PATH | O_CLOEXEC);
	root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root_fd < 0)
		return -1;
	return (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
}

/* A descriptor of some mount of the file system dev, or -1. */
static int open_mount(dev_t dev)
{
	__cleanup(close_file) FILE *file = fopen("/proc/self/mountinfo", "re");
	char line[MAX_LINE], want[32], number[32], mount_point[BPFPROF_PATH_MAX];
	struct stat st;
	int fd, path_fd;

	if (!file)
		return -1;
	snprintf(want, sizeof(want), "%u:%u", major(dev), minor(dev));
	while (fgets(line, sizeof(line), file)) {
		/* ID PARENT MAJOR:MINOR ROOT MOUNTPOINT ... ; our own mounts, written by the kernel. */
		if (sscanf(line, "%*u %*u %31s %*s %4095s", number, mount_point) != 2 ||
		    strcmp(number, want))
			continue;
		path_fd = open(mount_point, O_PATH | O_CLOEXEC);
		if (path_fd < 0)
			continue;
		fd = -1;
		if (!fstat(path_fd, &st) && st.st_dev == dev &&
		    (S_ISDIR(st.st_mode) || S_ISREG(st.st_mode)))
			fd = reopen(path_fd);
		close(path_fd);
		if (fd >= 0)
			return fd;
	}
	return -1;
}

bool image_file_dev_may_block(uint32_t dev)
{
	static const char *const local[] = { "ext4",	 "ext3",  "ext2",    "xfs",
					     "btrfs",	 "tmpfs", "zfs",     "f2fs",
					     "squashfs", "erofs", "iso9660", "vfat" };
	__cleanup(close_file) FILE *file = fopen("/proc/self/mountinfo", "re");
	char line[MAX_LINE], want[32], number[32], type[32];
	const char *rest;
	size_t i;

	snprintf(want, sizeof(want), "%u:%u", major(dev_of(dev)), minor(dev_of(dev)));
	while (file && fgets(line, sizeof(line), file)) {
		rest = strstr(line, " - ");
		if (!rest || sscanf(line, "%*u %*u %31s", number) != 1 || strcmp(number, want) ||
		    sscanf(rest, " - %31s", type) != 1)
			continue;
		for (i = 0; i < sizeof(local) / sizeof(local[0]); i++)
			if (!strcmp(type, local[i]))
				return false;
		return true;
	}
	return true;
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

/* The inode itself, whatever became of its names. */
static int open_inode(const struct image_identity *id)
{
	uint32_t lo = (uint32_t)id->ino, hi = (uint32_t)(id->ino >> 32);
	const uint32_t ino32_gen[] = { lo, id->ino_gen };
	const uint32_t xfs[] = { lo, hi, id->ino_gen };
	const uint32_t tmpfs[] = { id->ino_gen, lo, hi };
	__cleanup(close_fd) int mount_fd = open_mount(dev_of(id->dev));
	int fd = -1;

	if (mount_fd < 0)
		return -1;
	if (!hi)
		fd = open_handle(mount_fd, FILEID_INO32_GEN, ino32_gen, 2);
	if (fd < 0)
		fd = open_handle(mount_fd, FILEID_XFS_64, xfs, 3);
	if (fd < 0)
		fd = open_handle(mount_fd, FILEID_INO32_GEN, tmpfs, 3);
	return fd;
}

/* The file at path in one of the layers listed as KEY=DIR:DIR:... in an overlay mount's options. */
static int open_in_layers(const char *options, const char *key, const char *path,
			  const struct image_identity *id)
{
	const char *dir = strstr(options, key);
	char candidate[2 * BPFPROF_PATH_MAX];
	struct stat st;
	size_t len;
	int fd, tries;

	if (!dir)
		return -1;
	for (dir += strlen(key), tries = 0; *dir == '/' && tries < MAX_LAYERS; tries++) {
		len = strcspn(dir, ":, \n");
		snprintf(candidate, sizeof(candidate), "%.*s%s", (int)len, dir, path);
		fd = open(candidate, O_PATH | O_CLOEXEC);
		if (fd >= 0 && !fstat(fd, &st) && is_the_one(&st, id, false))
			return fd;
		if (fd >= 0)
			close(fd);
		dir += len;
		dir += *dir == ':';
	}
	return -1;
}

/*
 * From 6.12 on the kernel names a file of an overlay by its path inside the layer. The
 * layers' folders stand in the mount's options; inode and device tell the right one.
 */
static int open_layer(const char *path, const struct image_identity *id)
{
	__cleanup(close_file) FILE *file = fopen("/proc/self/mountinfo", "re");
	char line[MAX_LINE];
	const char *options;
	int fd;

	while (file && path[0] == '/' && fgets(line, sizeof(line), file)) {
		options = strstr(line, " - overlay ");
		if (!options)
			continue;
		fd = open_in_layers(options, "upperdir=", path, id);
		if (fd < 0)
			fd = open_in_layers(options, "lowerdir=", path, id);
		if (fd >= 0)
			return fd;
	}
	return -1;
}

static long open_run(void *arg)
{
	struct open_job *job = arg;
	__cleanup(close_fd) int path_fd = -1;
	struct stat st;
	int err = -ESTALE;

	if (job->path[0] == '/') {
		path_fd = open_path(job->root, job->path);
		if (path_fd < 0)
			err = errno == ETIMEDOUT ? -EIO : -errno;
	}
	if (path_fd < 0 || fstat(path_fd, &st) ||
	    !is_the_one(&st, &job->identity, has_own_devices(path_fd))) {
		if (path_fd >= 0)
			close(path_fd);
		path_fd = job->identity.ino ? open_inode(&job->identity) : -1;
		if (path_fd < 0 && job->identity.ino)
			path_fd = open_layer(job->path, &job->identity);
		if (path_fd < 0)
			return err;
		if (fstat(path_fd, &st) || !is_the_one(&st, &job->identity, false))
			return -ESTALE;
	}
	if (fs_is_pseudo(path_fd))
		return -EACCES;
	job->fd = reopen(path_fd);
	if (job->fd < 0)
		return errno == ETIMEDOUT ? -EIO : -errno;
	job->may_block = fs_may_block(job->fd);
	if (!job->may_block && is_later_file(job->fd, &job->identity)) {
		close(job->fd);
		job->fd = -1;
		return -ESTALE;
	}
	job->size = (uint64_t)st.st_size;
	return 0;
}

static void open_abandon(void *arg)
{
	struct open_job *job = arg;

	if (job->fd >= 0)
		close(job->fd);
}

/* What a source reads from. */
struct image_file {
	int fd;
	bool may_block;
	struct deadline_runner *runner;
};

struct read_job {
	int fd;
	uint32_t len;
	uint64_t off;
	uint8_t data[READ_CHUNK];
};

static long read_run(void *arg)
{
	struct read_job *job = arg;
	ssize_t n = pread(job->fd, job->data, job->len, (off_t)job->off);

	/* -ETIMEDOUT means that the job was left to its thread: a file server may not say so. */
	if (n < 0)
		return errno == ETIMEDOUT ? -EIO : -errno;
	return n;
}

static void read_abandon(void *arg)
{
	struct read_job *job = arg;

	close(job->fd);
}

static ssize_t read_direct(int fd, void *dst, size_t len, uint64_t off)
{
	size_t done = 0;
	ssize_t n;

	while (done < len) {
		n = pread(fd, (char *)dst + done, len - done, (off_t)(off + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

static ssize_t read_under_deadline(struct image_file *file, void *dst, size_t len, uint64_t off)
{
	__cleanup(free_mem) struct read_job *job = malloc(sizeof(*job));
	size_t done = 0;
	long n = 1;

	if (!job)
		return -ENOMEM;
	while (done < len && n > 0) {
		job->fd = file->fd;
		job->off = off + done;
		job->len = len - done < READ_CHUNK ? (uint32_t)(len - done) : READ_CHUNK;
		n = deadline_run(file->runner, read_run, read_abandon, job, sizeof(*job),
				 IMAGE_FILE_DEADLINE_MS);
		if (n == -ETIMEDOUT)
			file->fd = -1; /* closed by the thread that hangs in it */
		if (n < 0)
			return n;
		memcpy((char *)dst + done, job->data, (size_t)n);
		done += (size_t)n;
	}
	return (ssize_t)done;
}

static ssize_t image_file_read(void *arg, void *dst, size_t len, uint64_t off)
{
	struct image_file *file = arg;

	if (file->fd < 0)
		return -ETIMEDOUT;
	if (!file->may_block)
		return read_direct(file->fd, dst, len, off);
	return read_under_deadline(file, dst, len, off);
}

static void image_file_close(void *arg)
{
	struct image_file *file = arg;

	if (file->fd >= 0)
		close(file->fd);
	free(file);
}

int image_file_open(struct elf_source *ret, struct deadline_runner *runner, const char *root,
		    const char *path, const struct image_identity *identity,
		    unsigned int timeout_ms)
{
	__cleanup(free_mem) struct open_job *job = calloc(1, sizeof(*job));
	struct image_file *file;
	long err;

	if (!job)
		return -ENOMEM;
	job->fd = -1;
	job->identity = *identity;
	snprintf(job->root, sizeof(job->root), "%s", root ? root : "");
	snprintf(job->path, sizeof(job->path), "%s", path);
	err = deadline_run(runner, open_run, open_abandon, job, sizeof(*job), timeout_ms);
	if (err)
		return (int)err;
	file = malloc(sizeof(*file));
	if (!file) {
		close(job->fd);
		return -ENOMEM;
	}
	file->fd = job->fd;
	file->may_block = job->may_block;
	file->runner = runner;
	*ret = (struct elf_source){
		.read = image_file_read,
		.close = image_file_close,
		.arg = file,
		.size = job->size,
	};
	return 0;
}

bool image_file_hung(const struct elf_source *source)
{
	const struct image_file *file = source->arg;

	return source->read == image_file_read && file->fd < 0;
}
