// SPDX-License-Identifier: Apache-2.0
#include "kernel/kernel_path.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "made_kernel.h"

#define EXT4 0xef53
#define STEPS 20000
#define MAP "/tmp/perf-7.map"

static struct made_kernel k;
static uint64_t disk, memory; /* super blocks */
static uint64_t root, tmp; /* folders */
static uint64_t root_mount;

static void scene(bool hlists)
{
	made_kernel_init(&k, hlists);
	disk = made_super(&k, EXT4);
	memory = made_super(&k, MADE_TMPFS);
	root = made_folder(&k, disk, 0, "/");
	tmp = made_folder(&k, disk, root, "tmp");
	made_folder(&k, disk, root, "usr");
	root_mount = made_mount(&k, 0, 0, root);
}

static void setup(void)
{
	scene(true);
}

static void teardown(void)
{
	made_kernel_fini(&k);
}

TestSuite(kernel_path, .init = setup, .fini = teardown, .timeout = 60);

static int find(const char *path, struct kernel_inode *ret)
{
	uint32_t steps = STEPS;

	return kernel_path_find(&k.view, made_vfsmount(&k, root_mount), root, path, &steps, ret);
}

/* A tmpfs on a folder, with a file; the inode of that. */
static uint64_t tmpfs_on(uint64_t mount, uint64_t point, const char *name, uint64_t *ret_mount,
			 uint64_t *ret_root)
{
	uint64_t folder = made_folder(&k, memory, 0, "/");
	uint64_t inode = made_inode(&k, memory, S_IFREG | 0644, 11);

	*ret_root = folder;
	*ret_mount = made_mount(&k, mount, point, folder);
	made_dentry(&k, folder, name, inode);
	return inode;
}

static uint64_t found(const char *path)
{
	struct kernel_inode inode = { 0 };
	int err = find(path, &inode);

	cr_assert_eq(err, 0, "%s: %d", path, err);
	return inode.va;
}

static int error(const char *path)
{
	struct kernel_inode inode;

	return find(path, &inode);
}

static void mounted(void)
{
	uint64_t mount, folder, inode = tmpfs_on(root_mount, tmp, "perf-7.map", &mount, &folder);
	struct kernel_inode got;

	cr_expect_eq(found(MAP), inode);
	cr_expect_eq(found("//tmp///perf-7.map"), inode);
	cr_assert_eq(find(MAP, &got), 0);
	cr_expect_eq(got.magic, MADE_TMPFS);
	cr_expect_eq(got.size, 11);
	cr_expect_eq(got.nr_links, 1);
	cr_expect_eq(got.mode, S_IFREG | 0644);
}

Test(kernel_path, mounted)
{
	mounted();
}

Test(kernel_path, lists_with_a_head)
{
	teardown();
	scene(false);
	mounted();
	cr_expect_eq(error("/tmp/other"), -ENOENT);
}

/* The last mount counts: on the folder, or on an earlier mount. */
Test(kernel_path, stacked)
{
	uint64_t mount, folder, upper, upper_folder, inode;

	tmpfs_on(root_mount, tmp, "perf-7.map", &mount, &folder);
	inode = tmpfs_on(mount, folder, "perf-7.map", &upper, &upper_folder);
	cr_expect_eq(found(MAP), inode);
	tmpfs_on(upper, upper_folder, "other", &mount, &folder);
	cr_expect_eq(error(MAP), -ENOENT, "hidden by an empty one");
}

Test(kernel_path, nested)
{
	uint64_t mount, folder, deep, deep_mount, deep_root, inode;

	tmpfs_on(root_mount, tmp, "x", &mount, &folder);
	deep = made_folder(&k, memory, folder, "deep");
	/* The same folder is mounted on elsewhere: that is not this mount's. */
	tmpfs_on(root_mount, deep, "wrong", &deep_mount, &deep_root);
	inode = tmpfs_on(mount, deep, "perf-7.map", &deep_mount, &deep_root);
	cr_expect_eq(found("/tmp/deep/perf-7.map"), inode);
	cr_expect_eq(error("/tmp/deep/wrong"), -ENOENT);
	made_dentry(&k, deep_root, "perf-8.map", 0);
	cr_expect_eq(error("/tmp/deep/perf-8.map"), -ENOENT, "a name of nothing");
}

/* A file can be mounted on a file, and may belong to another user. */
Test(kernel_path, file_on_file)
{
	uint64_t mount, folder, below, inode = made_inode(&k, memory, S_IFREG, 5);

	tmpfs_on(root_mount, tmp, "x", &mount, &folder);
	below = made_dentry(&k, folder, "perf-7.map", made_inode(&k, memory, S_IFREG, 4));
	made_mount(&k, mount, below, made_dentry(&k, 0, "/", inode));
	cr_expect_eq(error(MAP), -EPERM);
}

Test(kernel_path, names)
{
	static const char *const others[] = { "perf-7.ma", "perf-7.map2", "perf-77.map",
					      "erf-7.map", "Perf-7.map",  "" };
	uint64_t mount, folder, inode = tmpfs_on(root_mount, tmp, "perf-7.map", &mount, &folder);
	uint64_t gone, other = made_inode(&k, memory, S_IFREG, 1);
	size_t i;

	for (i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		made_dentry(&k, folder, others[i], other);
	gone = made_dentry(&k, folder, "perf-7.map", other);
	made_put(&k, gone + k.view.layout.dentry_hash_pprev, 0);
	cr_expect_eq(found(MAP), inode);
	cr_expect_eq(found("/tmp/perf-7.map2"), other);
	cr_expect_eq(error("/tmp/perf-7"), -ENOENT);
	cr_expect_eq(error("/tm/perf-7.map"), -ENOENT);
}

Test(kernel_path, no_way)
{
	struct kernel_inode inode = { 0 };
	uint64_t mount, folder, link = made_inode(&k, disk, S_IFLNK, 3);

	tmpfs_on(root_mount, tmp, "perf-7.map", &mount, &folder);
	made_dentry(&k, root, "link", link);
	cr_expect_eq(error("/link/perf-7.map"), -ELOOP);
	cr_expect_eq(found("/link"), link, "said as what it is");
	cr_expect_eq(error("/tmp/perf-7.map/x"), -ENOTDIR);
	cr_expect_eq(error("/tmp/../tmp/perf-7.map"), -EINVAL);
	cr_expect_eq(error("tmp"), -EINVAL);
	cr_expect_eq(find("/usr/perf-7.map", &inode), -ENOENT);
	cr_expect_eq(inode.magic, EXT4, "the folder that lacks it");
	cr_expect_eq(find("/tmp/perf-8.map", &inode), -ENOENT);
	cr_expect_eq(inode.magic, MADE_TMPFS);
}

/* Each name and mount is a step. */
Test(kernel_path, steps)
{
	uint64_t mount, folder, inode = tmpfs_on(root_mount, tmp, "perf-7.map", &mount, &folder);
	struct kernel_inode got;
	uint32_t steps = 4;

	made_folder(&k, memory, folder, "other");
	/* usr, tmp, its mount; other, perf-7.map. */
	cr_expect_eq(
		kernel_path_find(&k.view, made_vfsmount(&k, root_mount), root, MAP, &steps, &got),
		-E2BIG);
	cr_expect_eq(steps, 0);
	steps = 7;
	cr_expect_eq(
		kernel_path_find(&k.view, made_vfsmount(&k, root_mount), root, MAP, &steps, &got),
		0);
	cr_expect_eq(got.va, inode);
	cr_expect_eq(steps, 2);
}

/* Lists that lead in a circle, or out of memory. */
Test(kernel_path, broken_lists)
{
	uint64_t mount, folder, a, b, next = k.view.layout.dentry_next;

	tmpfs_on(root_mount, tmp, "perf-7.map", &mount, &folder);
	a = made_folder(&k, memory, folder, "a");
	b = made_folder(&k, memory, folder, "b");
	made_put(&k, a + next, b + next);
	cr_expect_eq(error(MAP), -E2BIG);
	cr_expect_lt(k.nr_reads, 3 * STEPS);
	made_put(&k, a + next, 0x1234);
	cr_expect_eq(error(MAP), -EFAULT);
	made_put(&k, a + next, 0);
	cr_expect_eq(error(MAP), -ENOENT);
	made_put(&k, b + k.view.layout.dentry_parent, root);
	cr_expect_eq(error(MAP), -EAGAIN, "it is another folder's by now");
	k.nr_reads = 0;
	made_put(&k, mount + k.view.layout.mount_child, mount + k.view.layout.mount_child);
	made_put(&k, mount + k.view.layout.mount_point, 1);
	cr_expect_eq(error(MAP), -E2BIG);
	cr_expect_lt(k.nr_reads, 3 * STEPS);
	made_put(&k, mount + k.view.layout.mount_parent, 1);
	cr_expect_eq(error(MAP), -EAGAIN);
}

static void change(struct made_kernel *kernel)
{
	made_put(kernel, kernel->change_va, kernel->change_to);
}

/* Another file takes the path during the walk: one of both is found, never a mixture. */
Test(kernel_path, changes_midway)
{
	uint64_t mount, folder, dentry, first = made_inode(&k, memory, S_IFREG, 1),
					second = made_inode(&k, memory, S_IFREG, 2);
	struct kernel_inode inode;
	uint64_t at, last;

	tmpfs_on(root_mount, tmp, "x", &mount, &folder);
	dentry = made_dentry(&k, folder, "perf-7.map", first);
	cr_assert_eq(found(MAP), first);
	last = k.nr_reads;
	k.change = change;
	for (at = 1; at <= last; at++) {
		k.nr_reads = 0;
		k.change_at = at;
		made_put(&k, dentry + k.view.layout.dentry_inode, first);
		k.change_va = dentry + k.view.layout.dentry_inode;
		k.change_to = second;
		cr_assert_eq(find(MAP, &inode), 0);
		cr_expect(inode.va == first ? inode.size == 1 : inode.size == 2);
		/* Deleted: it was there, or is not. */
		made_put(&k, k.change_va, first);
		k.nr_reads = 0;
		k.change_va = dentry + k.view.layout.dentry_hash_pprev;
		k.change_to = 0;
		cr_expect(error(MAP) == -ENOENT || at == last, "at %lu of %lu", at, last);
		made_put(&k, k.change_va, dentry);
	}
}

static uint64_t given_away;

/* The name leads to another inode, and the memory of the old one to another file. */
static void give_away(struct made_kernel *kernel)
{
	made_put(kernel, kernel->change_va, kernel->change_to);
	made_put(kernel, given_away + kernel->view.layout.inode_size, 99);
}

Test(kernel_path, inode_given_away)
{
	uint64_t mount, folder, dentry, second = made_inode(&k, memory, S_IFREG, 2), at, last;
	struct kernel_inode inode;

	given_away = made_inode(&k, memory, S_IFREG, 1);
	tmpfs_on(root_mount, tmp, "x", &mount, &folder);
	dentry = made_dentry(&k, folder, "perf-7.map", given_away);
	cr_assert_eq(found(MAP), given_away);
	last = k.nr_reads;
	k.change = give_away;
	k.change_va = dentry + k.view.layout.dentry_inode;
	k.change_to = second;
	for (at = 1; at <= last; at++) {
		made_put(&k, k.change_va, given_away);
		made_put(&k, given_away + k.view.layout.inode_size, 1);
		k.nr_reads = 0;
		k.change_at = at;
		cr_assert_eq(find(MAP, &inode), 0);
		cr_expect_eq(inode.size, inode.va == second ? 2 : 1, "at %lu of %lu", at, last);
	}
}

/* The mapping of an inode that is none any more belongs to another. */
Test(kernel_path, no_inode)
{
	uint64_t mount, folder, inode = tmpfs_on(root_mount, tmp, "perf-7.map", &mount, &folder);

	made_put(&k, made_get(&k, inode + k.view.layout.inode_mapping) + k.view.layout.mapping_host,
		 inode + 256);
	cr_expect_eq(error(MAP), -EAGAIN);
	made_put(&k, inode + k.view.layout.inode_mapping, 16);
	cr_expect_eq(error(MAP), -EFAULT);
}
