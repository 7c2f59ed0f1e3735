// SPDX-License-Identifier: Apache-2.0
/*
 * Reads files of tmpfs and ramfs as memory. These file systems have no disk: names lie in the
 * kernel's name cache, contents in its page cache. The steps:
 *   1. An iterator returns the root directory of the process (kernel_memory.h).
 *   2. From there the path leads over mounts and names to the inode (kernel_path.h).
 *   3. The inode's tree leads to the struct page of each page (page_cache.h).
 *   4. The direct map holds the contents of a page (direct_map.h). bpfprof finds its address with a
 *      file of its own: for this file, steps 3 and 4 must return what bpfprof wrote to it.
 * No lock is held between two reads, so each step checks its result by reading again.
 */
#include "kernel/private_file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/time.h"
#include "elf/image.h"
#include "kernel/direct_map.h"
#include "kernel/kernel_memory.h"
#include "kernel/kernel_path.h"
#include "kernel/page_cache.h"
#include "proc/image_find.h"

#define TMPFS_MAGIC 0x01021994 /* linux/magic.h */
#define RAMFS_MAGIC 0x858458f6
#define NR_PROOFS 8
#define MIN_PROOFS 3
/* A process that fills directories with names costs other processes time, but not their files. */
#define STEPS_OF_ONE 131072 /* some 0.2 s */
#define STEPS_OF_ALL (4U * STEPS_OF_ONE) /* per STEPS_NS; after that, each file has STEPS_LEAST */
#define STEPS_LEAST 2048
#define RETRY_NS (10 * NS_PER_SECOND) /* loading costs some 30 ms */
#define STEPS_NS (10 * NS_PER_SECOND)
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x8U /* Linux 6.3 */
#endif

struct private_files {
	struct kernel_memory *memory; /* NULL: not loaded yet */
	pid_t loaded_by; /* the process that loaded it; children that fork later share its map */
	struct direct_map direct_map; /* valid until the next boot */
	uint32_t steps; /* rest of STEPS_OF_ALL */
	uint64_t steps_until_ns; /* CLOCK_MONOTONIC */
	uint64_t retry_ns; /* after a failure, CLOCK_MONOTONIC */
};

static bool is_memory(const struct kernel_inode *inode)
{
	return inode->magic == TMPFS_MAGIC || inode->magic == RAMFS_MAGIC;
}

/* Makes a file in memory whose pages begin with random bytes. Returns its descriptor, or -errno. */
static int proofs_write(struct direct_map_proof *proofs, size_t nr)
{
	int fd = memfd_create("bpfprof", MFD_CLOEXEC | MFD_NOEXEC_SEAL);
	size_t i;

	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("bpfprof", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	for (i = 0; i < nr; i++) {
		if (getrandom(proofs[i].nonce, DIRECT_MAP_NONCE, 0) != DIRECT_MAP_NONCE ||
		    pwrite(fd, proofs[i].nonce, DIRECT_MAP_NONCE,
			   (off_t)(i * BPFPROF_KERNEL_BYTES)) != DIRECT_MAP_NONCE) {
			close(fd);
			return -EIO;
		}
	}
	return fd;
}

/* Learns the direct map with a file of bpfprof, which it finds in the same way as other files. */
static int direct_map_learn(struct direct_map *ret, struct kernel_memory *memory)
{
	const struct kernel_view *view = kernel_memory_view(memory);
	struct direct_map_proof proofs[NR_PROOFS];
	struct page_cache cache = { .view = view };
	__cleanup(close_fd) int fd = proofs_write(proofs, NR_PROOFS);
	size_t i, nr = 0;
	int err = fd < 0 ? fd : kernel_memory_own_inode(memory, fd);

	if (!err)
		err = kernel_inode_read(view, view->layout.own_inode, &cache.inode);
	if (err || !is_memory(&cache.inode))
		return err ? err : -EOPNOTSUPP;
	for (i = 0; i < NR_PROOFS; i++) {
		proofs[nr] = proofs[i];
		nr += !page_cache_page(&cache, i, &proofs[nr].page);
	}
	if (nr < MIN_PROOFS || !direct_map_all_accepted("/proc/meminfo"))
		return -EOPNOTSUPP;
	return direct_map_find(ret, view, view->layout.own_inode,
			       direct_map_physical_bytes("/proc/zoneinfo"), proofs, nr);
}

int private_files_new(struct private_files **ret)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? 0 : -ENOMEM;
}

void private_files_free(struct private_files *files)
{
	if (!files)
		return;
	kernel_memory_close(files->memory);
	free(files);
}

uint64_t private_files_map_bytes(const struct private_files *files)
{
	return files && files->memory ? kernel_memory_map_bytes(files->memory) : 0;
}

static ssize_t private_file_read(void *cache, void *dst, size_t len, uint64_t off)
{
	size_t done = 0;
	ssize_t n;

	while (done < len) {
		n = page_cache_read(cache, (char *)dst + done, len - done, off + done);
		if (n < 0 && !(n == -ENODATA && done))
			return n;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

static void private_file_close(void *cache)
{
	free(cache);
}

static int owner_check(const struct kernel_inode *inode, const struct image_identity *owned)
{
	struct stat st = {
		.st_mode = inode->mode,
		.st_uid = inode->uid,
		.st_nlink = inode->nr_links,
		.st_mtim.tv_sec = inode->mtime_sec,
	};

	return image_owner_check(&st, owned);
}

static int path_find(struct kernel_inode *ret, struct private_files *files,
		     const struct bpfprof_task_root *root, const char *path)
{
	uint64_t now_ns = time_monotonic_ns();
	uint32_t granted, steps;
	int err;

	if (now_ns >= files->steps_until_ns) {
		files->steps = STEPS_OF_ALL;
		files->steps_until_ns = now_ns + STEPS_NS;
	}
	granted = files->steps < STEPS_OF_ONE ? files->steps : STEPS_OF_ONE;
	granted = granted > STEPS_LEAST ? granted : STEPS_LEAST;
	steps = granted;
	err = kernel_path_find(kernel_memory_view(files->memory), root->mount, root->dentry, path,
			       &steps, ret);
	granted -= steps;
	files->steps -= granted < files->steps ? granted : files->steps;
	return err;
}

static int inode_find(struct kernel_inode *ret, struct private_files *files, uint32_t pid,
		      uint64_t start_ns, const char *path, const struct image_identity *owned)
{
	struct bpfprof_task_root root;
	int err = kernel_memory_root(files->memory, pid, &root);

	if (!err && start_ns && root.task.start_ns != start_ns)
		err = -ESRCH;
	if (err)
		return err == -ESRCH ? err : -EXDEV;
	err = path_find(ret, files, &root, path);
	if (err == -EAGAIN || err == -EFAULT || err == -E2BIG)
		return -EIO;
	if (err == -EPERM)
		return err;
	if (err && err != -ENOENT)
		return -EXDEV;
	/* In other file systems the look-up of an uncached name may need a disk. */
	if (!is_memory(ret))
		return -EXDEV;
	return err ? err : owner_check(ret, owned);
}

static int prepare(struct private_files *files)
{
	uint64_t now_ns = time_monotonic_ns();
	int err = 0;

	if (files->memory && files->loaded_by != getpid()) {
		kernel_memory_close(files->memory);
		files->memory = NULL;
	}
	if (files->memory && files->direct_map.scale)
		return 0;
	if (now_ns < files->retry_ns)
		return -EOPNOTSUPP;
	if (!files->memory)
		err = kernel_memory_open(&files->memory);
	files->loaded_by = getpid();
	if (!err && !files->direct_map.scale)
		err = direct_map_learn(&files->direct_map, files->memory);
	if (err)
		files->retry_ns = now_ns + RETRY_NS;
	return err;
}

int private_files_open(void *arg, uint32_t pid, uint64_t start_ns, const char *path,
		       const struct image_identity *owned, struct elf_source *ret)
{
	struct private_files *files = arg;
	struct page_cache *cache;
	struct kernel_inode inode;
	int err;

	if (prepare(files))
		return -EXDEV;
	err = inode_find(&inode, files, pid, start_ns, path, owned);
	if (err)
		return err;
	cache = malloc(sizeof(*cache));
	if (!cache)
		return -ENOMEM;
	*cache = (struct page_cache){ .view = kernel_memory_view(files->memory),
				      .direct_map = files->direct_map,
				      .inode = inode };
	*ret = (struct elf_source){ .read = private_file_read,
				    .close = private_file_close,
				    .arg = cache,
				    .size = inode.size };
	return 0;
}
