// SPDX-License-Identifier: Apache-2.0
#include "container/host_mounts.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "made_node.h"

static struct made_node made;

static void setup(void)
{
	made_node_init(&made);
}

static void teardown(void)
{
	made_node_fini(&made);
}

TestSuite(container_mounts, .init = setup, .fini = teardown, .timeout = 60);

static const char NODE[] = "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
			   "21 20 0:5 / /proc rw - proc proc rw\n"
			   "30 20 0:55 / /a/merged rw - overlay overlay rw\n"
			   "31 20 0:55 / /b/rootfs rw - overlay overlay rw\n"
			   "32 20 0:55 / /c/merged rw - overlay overlay rw\n"
			   "33 20 8:2 / /data rw - xfs /dev/sdb rw\n"
			   "34 20 8:2 /sub /deep rw - xfs /dev/sdb rw\n"
			   "35 20 8:3 /vol /v rw - xfs /dev/sdc rw\n";

struct path_case {
	unsigned int minor; /* of major 8; 55 of major 0 */
	char root[24];
	int result;
	char path[32];
};

static struct path_case path_cases[] = {
	{ 1, "/", 1, "/" },
	{ 1, "/srv/x", 0, "/srv/x" },
	{ 55, "/", 1, "/b/rootfs" }, /* rather than another mount of it */
	{ 55, "/x", 0, "/b/rootfs/x" },
	{ 2, "/", 1, "/data" },
	{ 2, "/other", 0, "/data/other" },
	{ 2, "/sub", 1, "/deep" },
	{ 2, "/sub/x", 0, "/deep/x" }, /* the nearest */
	{ 2, "/subx", 0, "/data/subx" },
	{ 3, "/vol", 1, "/v" },
	{ 3, "/", -ENOENT, "kept" },
	{ 3, "/volx", -ENOENT, "kept" },
	{ 5, "/", -ENOENT, "kept" }, /* the kernel's own are left out */
	{ 9, "/", -ENOENT, "kept" },
};

ParameterizedTestParameters(container_mounts, path)
{
	return cr_make_param_array(struct path_case, path_cases,
				   sizeof(path_cases) / sizeof(path_cases[0]));
}

ParameterizedTest(struct path_case *c, container_mounts, path)
{
	dev_t dev = makedev(c->minor == 55 || c->minor == 5 ? 0 : 8, c->minor);
	struct host_mounts *mounts;
	char path[32] = "kept";

	made_proc(&made, 1, NODE, "0::/\n");
	cr_assert_eq(host_mounts_new(&mounts, made.proc, "/host"), 0);
	cr_assert_eq(host_mounts_refresh(mounts), 0);
	cr_expect_eq(host_mounts_path(mounts, dev, c->root, path, sizeof(path)), c->result, "%u %s",
		     c->minor, c->root);
	cr_expect_str_eq(path, c->path, "%u %s", c->minor, c->root);
	host_mounts_free(mounts);
}

Test(container_mounts, root_of_the_node)
{
	struct host_mounts *mounts;

	made_proc(&made, 1, NODE, "0::/\n");
	cr_assert_eq(host_mounts_new(&mounts, made.proc, NULL), 0);
	cr_expect_not(host_mounts_is_root(mounts, makedev(8, 1), "/"));
	cr_assert_eq(host_mounts_refresh(mounts), 0);
	cr_expect(host_mounts_is_root(mounts, makedev(8, 1), "/"));
	cr_expect_not(host_mounts_is_root(mounts, makedev(8, 1), "/x"));
	cr_expect_not(host_mounts_is_root(mounts, makedev(8, 2), "/"));
	cr_expect_eq(host_mounts_count(mounts), 7);
	host_mounts_free(mounts);
}

/* Pid 1's file cannot be read: ours has the node's mounts below host_root. */
Test(container_mounts, our_own)
{
	struct host_mounts *mounts;
	char path[128], own[128], dst[64];
	FILE *file;

	snprintf(path, sizeof(path), "%s/1/mountinfo", made.proc);
	cr_assert_eq(unlink(path), 0);
	cr_assert_eq(host_mounts_new(&mounts, made.proc, "/host"), 0);
	cr_expect_eq(host_mounts_refresh(mounts), -ENOENT);
	made_proc(&made, 7, "", "");
	snprintf(path, sizeof(path), "%s/7", made.proc);
	snprintf(own, sizeof(own), "%s/self", made.proc);
	cr_assert_eq(symlink(path, own), 0);
	snprintf(path, sizeof(path), "%s/7/mountinfo", made.proc);
	file = fopen(path, "we");
	cr_assert_not_null(file);
	fputs("1 0 0:66 / / rw - overlay overlay rw\n"
	      "2 1 8:1 / /host ro - ext4 /dev/sda1 rw\n"
	      "3 1 0:55 / /host/b/rootfs ro - overlay overlay rw\n"
	      "4 1 0:56 / /hostile ro - overlay overlay rw\n",
	      file);
	fclose(file);
	cr_assert_eq(host_mounts_refresh(mounts), 0);
	cr_expect(host_mounts_is_root(mounts, makedev(8, 1), "/"));
	cr_expect_not(host_mounts_is_root(mounts, makedev(0, 66), "/"));
	cr_expect_eq(host_mounts_path(mounts, makedev(0, 55), "/", dst, sizeof(dst)), 1);
	cr_expect_str_eq(dst, "/b/rootfs");
	cr_expect_eq(host_mounts_path(mounts, makedev(0, 55), "/", dst, 9), -ENAMETOOLONG);
	cr_expect_eq(host_mounts_path(mounts, makedev(0, 56), "/", dst, sizeof(dst)), -ENOENT);
	host_mounts_free(mounts);
}

Test(container_mounts, change)
{
	struct host_mounts *mounts;
	char dst[64];

	cr_assert_eq(host_mounts_new(&mounts, made.proc, NULL), 0);
	cr_assert_eq(host_mounts_refresh(mounts), 0);
	cr_expect_eq(host_mounts_path(mounts, makedev(8, 3), "/vol", dst, sizeof(dst)), -ENOENT);
	made_proc(&made, 1, NODE, "0::/\n");
	cr_assert_eq(host_mounts_refresh(mounts), 0);
	cr_expect_eq(host_mounts_path(mounts, makedev(8, 3), "/vol", dst, sizeof(dst)), 1);
	host_mounts_free(mounts);
}

/* 100,000 mounts: what there is room for is kept, the rest is counted. */
Test(container_mounts, too_many)
{
	size_t nr = 100000, bytes = nr * 64, i;
	char *text = malloc(bytes), *at = text;
	struct host_mounts *mounts;

	cr_assert_not_null(text);
	at += snprintf(at, bytes, "%s", NODE);
	for (i = 0; i < nr - 100; i++)
		at += snprintf(at, 64, "9 8 0:100 /%zu /mnt/%zu rw - tmpfs t rw\n", i, i);
	made_proc(&made, 1, text, "0::/\n");
	cr_assert_eq(host_mounts_new(&mounts, made.proc, NULL), 0);
	cr_assert_eq(host_mounts_refresh(mounts), 0);
	cr_expect(host_mounts_is_root(mounts, makedev(8, 1), "/"));
	cr_expect_gt(host_mounts_count(mounts), 10000);
	cr_expect_eq(host_mounts_count(mounts) + host_mounts_nr_left_out(mounts), nr - 100 + 7);
	host_mounts_free(mounts);
	free(text);
}
