// SPDX-License-Identifier: Apache-2.0
#include "proc/target_mount.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "proc/mountinfo.h"

#define OVERLAY(options) "20 1 0:39 / / rw,relatime - overlay overlay rw," options "\n"

static int find(struct target_mount *ret, const char *text, const char *path)
{
	int fd = memfd_create("mountinfo", 0), err;

	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	lseek(fd, 0, SEEK_SET);
	err = target_mount_find(ret, fd, path);
	close(fd);
	return err;
}

/* The longest mount point, whole components only, the last of several on one point. */
Test(target_mount, find)
{
	static const char text[] = "20 1 0:39 / / rw - overlay overlay rw,lowerdir=/l\n"
				   "21 20 8:1 /vol/a\\040b /data rw shared:1 - ext4 /dev/vda rw\n"
				   "22 20 0:50 / /data/mem rw - tmpfs tmpfs rw\n"
				   "23 20 8:1 /file /etc/hosts rw - ext4 /dev/vda rw\n"
				   "24 22 0:51 /sub /data/mem rw - tmpfs tmpfs rw\n";
	static const struct {
		const char *path, *within, *inside;
		unsigned int major_nr, minor_nr;
		bool layers;
	} cases[] = {
		{ "/usr/bin/x", "/usr/bin/x", "/usr/bin/x", 0, 39, true },
		{ "/data/x", "/vol/a b/x", "/x", 8, 1, false },
		{ "/database/x", "/database/x", "/database/x", 0, 39, true },
		{ "/data/mem/y", "/sub/y", "/y", 0, 51, false },
		{ "/data/memory", "/vol/a b/memory", "/memory", 8, 1, false },
		{ "/etc/hosts", "/file", "", 8, 1, false },
	};
	struct target_mount mount;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cr_assert_eq(find(&mount, text, cases[i].path), 0, "%s", cases[i].path);
		cr_expect_eq(mount.dev, makedev(cases[i].major_nr, cases[i].minor_nr), "%s",
			     cases[i].path);
		cr_expect_str_eq(mount.path, cases[i].within);
		cr_expect_str_eq(mount.inside, cases[i].inside);
		cr_expect_eq(!!mount.layers, cases[i].layers, "%s", cases[i].path);
		target_mount_fini(&mount);
	}
}

Test(target_mount, nothing_found)
{
	struct target_mount mount = { .dev = 7 };
	char *text, long_path[PATH_MAX + 8];
	size_t len = 0;

	cr_expect_eq(find(&mount, "", "/x"), -ENOENT);
	cr_expect_eq(find(&mount, "rubbish\n1 2 3\n", "/x"), -ENOENT);
	cr_expect_eq(find(&mount, "21 20 8:1 / /data rw - ext4 /dev/vda rw\n", "/x"), -ENOENT);
	memset(long_path, 'x', sizeof(long_path));
	long_path[0] = '/';
	long_path[sizeof(long_path) - 1] = 0;
	cr_expect_eq(find(&mount, OVERLAY("lowerdir=/l"), long_path), -ENAMETOOLONG);

	text = malloc(TARGET_MOUNT_MAX_BYTES + 200);
	while (len < TARGET_MOUNT_MAX_BYTES + 100)
		len += (size_t)snprintf(text + len, 64, "20 1 0:39 / / rw - tmpfs tmpfs rw\n");
	cr_expect_eq(find(&mount, text, "/x"), -E2BIG);
	free(text);
	cr_expect_eq(mount.dev, 7, "untouched");
}

/* The path of the file below a mount of another namespace. */
Test(target_mount, below)
{
	static const struct {
		const char *root, *below;
		unsigned int minor_nr;
	} cases[] = {
		{ "/", "/vol/a/x", 1 }, { "/vol", "/a/x", 1 },	   { "/vol/a", "/x", 1 },
		{ "/vol/a/x", "", 1 },	{ "/vol/a/x/y", NULL, 1 }, { "/vo", NULL, 1 },
		{ "/other", NULL, 1 },	{ "/", NULL, 2 },
	};
	struct target_mount mount;
	struct mount_line line = { .point = "/somewhere", .type = "ext4", .options = "rw" };
	const char *below;
	size_t i;

	cr_assert_eq(find(&mount, "21 20 8:1 /vol/a /data rw - ext4 /dev/vda rw\n", "/data/x"), 0);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		line.root = cases[i].root;
		line.dev = makedev(8, cases[i].minor_nr);
		below = target_mount_below(&mount, &line);
		cr_expect_eq(!below, !cases[i].below, "%s", cases[i].root);
		if (below && cases[i].below)
			cr_expect_str_eq(below, cases[i].below);
	}
	target_mount_fini(&mount);
}

#define SNAPSHOTS "/var/lib/containerd/snapshots"
#define DOCKER "/var/lib/docker/overlay2"

Test(target_mount, layers)
{
	static const struct {
		const char *text;
		const char *layers[4];
	} cases[] = {
		{ OVERLAY("lowerdir=/a/1:/a/2,upperdir=/u/9/fs,workdir=/w"),
		  { "/u/9/fs", "/a/1", "/a/2" } },
		{ OVERLAY("lowerdir=/a/1:/a/2"), { "/a/1", "/a/2" } },
		{ OVERLAY("lowerdir=3/fs:2/fs:1/fs,upperdir=" SNAPSHOTS "/14/fs,workdir=/w"),
		  { SNAPSHOTS "/14/fs", SNAPSHOTS "/3/fs", SNAPSHOTS "/2/fs", SNAPSHOTS "/1/fs" } },
		{ OVERLAY("lowerdir=l/AB:l/CD,upperdir=" DOCKER "/77/diff,workdir=/w"),
		  { DOCKER "/77/diff", DOCKER "/l/AB", DOCKER "/l/CD" } },
		{ OVERLAY("lowerdir+=/a/1,lowerdir+=/a/2,datadir+=/d,upperdir=/u/9/fs"),
		  { "/u/9/fs", "/a/1", "/a/2" } },
		{ OVERLAY("lowerdir=/a/1::/d"), { "/a/1", "/d" } },
		{ OVERLAY("lowerdir=1/fs:2/fs"), { NULL } }, /* relative to what? */
		{ OVERLAY("xlowerdir=/a,index=off"), { NULL } },
		{ OVERLAY("lowerdir="), { NULL } },
		{ "20 1 8:1 / / rw - ext4 /dev/vda rw,lowerdir=/a\n", { NULL } },
	};
	struct target_mount mount;
	char layer[PATH_MAX];
	unsigned int j;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cr_assert_eq(find(&mount, cases[i].text, "/bin/x"), 0);
		for (j = 0; j < 4 && cases[i].layers[j]; j++) {
			cr_assert_eq(target_mount_layer(&mount, j, layer, sizeof(layer)), 0,
				     "%s %u", cases[i].text, j);
			cr_expect_str_eq(layer, cases[i].layers[j]);
		}
		cr_expect_eq(target_mount_layer(&mount, j, layer, sizeof(layer)), -ENOENT, "%s",
			     cases[i].text);
		cr_expect_eq(target_mount_layer(&mount, 0, layer, 4),
			     cases[i].layers[0] ? -ENAMETOOLONG : -ENOENT);
		target_mount_fini(&mount);
	}
}
