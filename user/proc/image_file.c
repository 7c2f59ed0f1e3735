// SPDX-License-Identifier: Apache-2.0
#include "proc/image_file.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/background.h"
#include "base/cleanup.h"
#include "base/deadline.h"
#include "base/file_read.h"
#include "elf/image.h"
#include "proc/mountinfo.h"
#include "bpfprof.h"

#define XFS_MAGIC 0x58465342
#define ZFS_MAGIC 0x2fc12fc1
#define F2FS_MAGIC 0xF2F52010
#define EROFS_MAGIC 0xE0F5E1E2
#define READ_CHUNK 65536
#define OWN_MOUNTS_MAX_BYTES (4U << 20)

struct open_job {
	char root[BPFPROF_PATH_MAX];
	char path[BPFPROF_PATH_MAX];
	uint64_t root_ino;
	uint32_t root_dev;
	bool trusts_layers;
	uint32_t pid;
	struct image_identity identity;
	int fd; /* result */
	enum image_way way; /* result */
	uint64_t size; /* result */
	bool may_block; /* result */
};

/*
 * Does another file have the same inode number? Only file systems with known generations show it.
 */
static bool is_later_file(int fd, const struct image_identity *id)
{
	uint32_t generation[2] = { 0 }; /* declared as long, written as int */

	return id->ino && !ioctl(fd, FS_IOC_GETVERSION, generation) && generation[0] != id->ino_gen;
}

/* Is it a file of the kernel? Reading such files may have effects, and no program lies there. */
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

/*
 * O_NONBLOCK: a process may hold a lease on the file (fcntl(2)), which would block open() for 45
 * seconds.
 */
int image_file_reopen(int path_fd)
{
	char self[40];

	snprintf(self, sizeof(self), "/proc/self/fd/%d", path_fd);
	return open(self, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
}

struct dev_scan {
	dev_t dev;
	bool may_block; /* result */
};

static bool dev_look_line(void *arg, const struct mount_line *line)
{
	static const char *const local[] = { "ext4",	 "ext3",  "ext2",    "xfs",
					     "btrfs",	 "tmpfs", "zfs",     "f2fs",
					     "squashfs", "erofs", "iso9660", "vfat" };
	struct dev_scan *look = arg;
	size_t i;

	if (line->dev != look->dev)
		return true;
	for (i = 0; i < sizeof(local) / sizeof(local[0]); i++)
		if (!strcmp(line->type, local[i]))
			look->may_block = false;
	return false;
}

bool image_file_dev_may_block(uint32_t dev)
{
	struct dev_scan look = { .dev = image_dev(dev), .may_block = true };
	__cleanup(close_fd) int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);

	if (fd >= 0)
		mountinfo_read(fd, OWN_MOUNTS_MAX_BYTES, dev_look_line, &look);
	return look.may_block;
}

static long open_run(void *arg)
{
	struct open_job *job = arg;
	struct image_place place = {
		.root = job->root,
		.root_ino = job->root_ino,
		.root_dev = job->root_dev,
		.trusts_layers = job->trusts_layers,
		.path = job->path,
		.pid = job->pid,
	};
	__cleanup(close_fd) int path_fd = -1;
	struct stat st;

	/*
	 * -ETIMEDOUT means that the job still runs in its thread; an error of a file server must
	 * not look like it.
	 */
	path_fd = image_find(&place, &job->identity, &st, &job->way);
	if (path_fd < 0)
		return path_fd == -ETIMEDOUT ? -EIO : path_fd;
	if (fs_is_pseudo(path_fd))
		return -EACCES;
	job->fd = image_file_reopen(path_fd);
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

/* The file system of a file waits for its server, or that of a process for whatever it mounted. */
static uint64_t key_of(uint32_t dev, const struct image_place *place)
{
	if (dev)
		return deadline_mount(dev);
	return place->pid ? deadline_process(place->pid) : DEADLINE_NODE;
}

struct look_job {
	char root[BPFPROF_PATH_MAX];
	char folder[BPFPROF_PATH_MAX];
	char name[64];
	uint64_t root_ino;
	uint32_t root_dev;
	bool trusts_layers;
	uint32_t pid;
};

static long look_run(void *arg)
{
	struct look_job *job = arg;
	struct image_identity identity = { 0 };
	char path[sizeof(job->folder) + sizeof(job->name)];
	struct image_place place = {
		.root = job->root,
		.root_ino = job->root_ino,
		.root_dev = job->root_dev,
		.trusts_layers = job->trusts_layers,
		.path = path,
		.pid = job->pid,
	};
	enum image_way way;
	struct stat st;
	long found;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", job->folder, job->name);
	fd = image_find(&place, &identity, &st, &way);
	found = fd >= 0;
	if (!found) {
		/* The file may exist although its folder cannot be searched. */
		identity.folder = true;
		place.path = job->folder;
		fd = image_find(&place, &identity, &st, &way);
	}
	if (fd < 0)
		return fd == -ETIMEDOUT ? -EIO : fd;
	close(fd);
	return found;
}

int image_file_check(struct deadline_runner *runner, const struct image_place *folder,
		     const char *name, unsigned int timeout_ms)
{
	__cleanup(free_mem) struct look_job *job = calloc(1, sizeof(*job));

	if (!job)
		return -ENOMEM;
	if (strlen(folder->path) >= sizeof(job->folder))
		return -ENAMETOOLONG;
	snprintf(job->root, sizeof(job->root), "%s", folder->root);
	snprintf(job->folder, sizeof(job->folder), "%s", folder->path);
	snprintf(job->name, sizeof(job->name), "%s", name);
	job->root_ino = folder->root_ino;
	job->root_dev = folder->root_dev;
	job->trusts_layers = folder->trusts_layers;
	job->pid = folder->pid;
	return (int)deadline_run(runner, key_of(0, folder), look_run, NULL, job, sizeof(*job),
				 timeout_ms);
}

/* The file of a source. */
struct image_file {
	int fd;
	bool may_block;
	uint64_t key; /* of calls, if it may block */
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

	if (n < 0)
		return errno == ETIMEDOUT ? -EIO : -errno;
	return n;
}

static void read_abandon(void *arg)
{
	struct read_job *job = arg;

	close(job->fd);
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
		n = deadline_run(file->runner, file->key, read_run, read_abandon, job, sizeof(*job),
				 IMAGE_FILE_DEADLINE_MS);
		if (n == -ETIMEDOUT)
			file->fd = -1; /* the hanging thread closes it */
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
	if (background_is_over()) /* it is the job that took long, not the file */
		return -EBUSY;
	if (!file->may_block)
		return file_read_at(file->fd, dst, len, off);
	return read_under_deadline(file, dst, len, off);
}

static void image_file_close(void *arg)
{
	struct image_file *file = arg;

	if (file->fd >= 0 && !file->may_block)
		close(file->fd);
	else if (file->fd >= 0)
		deadline_close(file->runner, file->key, file->fd);
	free(file);
}

int image_file_open(struct elf_source *ret, struct deadline_runner *runner,
		    const struct image_place *place, const struct image_identity *identity,
		    unsigned int timeout_ms, enum image_way *ret_way)
{
	__cleanup(free_mem) struct open_job *job = calloc(1, sizeof(*job));
	struct image_file *file;
	uint64_t key;
	long err;

	if (!job)
		return -ENOMEM;
	job->fd = -1;
	job->identity = *identity;
	job->pid = place->pid;
	job->root_ino = place->root_ino;
	job->root_dev = place->root_dev;
	job->trusts_layers = place->trusts_layers;
	snprintf(job->root, sizeof(job->root), "%s", place->root);
	snprintf(job->path, sizeof(job->path), "%s", place->path);
	key = key_of(identity->dev, place);
	err = deadline_run(runner, key, open_run, open_abandon, job, sizeof(*job), timeout_ms);
	/* Calls that hang elsewhere do not concern disks. */
	if (err == -EBUSY && identity->dev && !image_file_dev_may_block(identity->dev))
		err = deadline_run(runner, DEADLINE_NODE, open_run, open_abandon, job, sizeof(*job),
				   timeout_ms);
	if (err)
		return (int)err;
	file = malloc(sizeof(*file));
	if (!file) {
		close(job->fd);
		return -ENOMEM;
	}
	file->fd = job->fd;
	file->may_block = job->may_block;
	file->key = key;
	file->runner = runner;
	*ret_way = job->way;
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

int image_file_fd(const struct elf_source *source)
{
	const struct image_file *file = source->arg;

	return source->read == image_file_read ? file->fd : -1;
}

int image_file_vdso(struct elf_image **ret)
{
	const Elf64_Ehdr *vdso = (const Elf64_Ehdr *)getauxval(AT_SYSINFO_EHDR);

	if (!vdso)
		return -ENOENT;
	/* The kernel made this ELF file: its section headers come last. */
	return elf_image_open_memory(ret, vdso,
				     vdso->e_shoff + (size_t)vdso->e_shnum * vdso->e_shentsize);
}
