// SPDX-License-Identifier: Apache-2.0
#include "proc/mountinfo.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "container/kubelet_mounts.h"
#include "container/placement.h"
#include "made_node.h"

struct line_case {
	char line[256];
	int err;
	unsigned int major, minor;
	char root[64], point[64], type[16], options[64];
};

static struct line_case line_cases[] = {
	{ "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue", 0, 98,
	  0, "/mnt1", "/mnt2", "ext3", "rw,errors=continue" },
	{ "1 0 0:1048575 / / rw - overlay overlay rw", 0, 0, 1048575, "/", "/", "overlay", "rw" },
	{ "1 0 4095:1 / /a\\040b\\134c\\011d rw shared:1 master:2 unbindable - t s o", 0, 4095, 1,
	  "/", "/a b\\c\td", "t", "o" },
	{ "1 0 0:4 mnt:[4026532] /run/x rw - nsfs nsfs rw", 0, 0, 4, "mnt:[4026532]", "/run/x",
	  "nsfs", "rw" },
	{ "1 0 0:4 / /x rw - tmpfs  rw", 0, 0, 4, "/", "/x", "tmpfs", "rw" },
	{ "1 0 0:4 /\\40 /\\ rw - a b c", 0, 0, 4, "/\\40", "/\\", "a", "c" },
	{ "1 0 0:4 / /x rw tmpfs none rw", -EBADMSG, 0, 0, "", "", "", "" },
	{ "1 0 0:4 / /x rw - tmpfs none", -EBADMSG, 0, 0, "", "", "", "" },
	{ "1 0 4096:4 / /x rw - a b c", -EBADMSG, 0, 0, "", "", "", "" },
	{ "1 0 0:1048576 / /x rw - a b c", -EBADMSG, 0, 0, "", "", "", "" },
	{ "1 0 0: / /x rw - a b c", -EBADMSG, 0, 0, "", "", "", "" },
	{ "1 0 :4 / /x rw - a b c", -EBADMSG, 0, 0, "", "", "", "" },
	{ "1 0 0 / /x rw - a b c", -EBADMSG, 0, 0, "", "", "", "" },
	{ "1 0 0:-4 / /x rw - a b c", -EBADMSG, 0, 0, "", "", "", "" },
	{ "1 0 0:4 / x rw - a b c", -EBADMSG, 0, 0, "", "", "", "" },
	{ "1 0 0:4  /x rw - a b c", -EBADMSG, 0, 0, "", "", "", "" },
	{ "1 0 99999999999999999999999999:4 / /x rw - a b c", -EBADMSG, 0, 0, "", "", "", "" },
	{ "1 0", -EBADMSG, 0, 0, "", "", "", "" },
	{ "", -EBADMSG, 0, 0, "", "", "", "" },
};

ParameterizedTestParameters(container_mountinfo, line)
{
	return cr_make_param_array(struct line_case, line_cases,
				   sizeof(line_cases) / sizeof(line_cases[0]));
}

ParameterizedTest(struct line_case *c, container_mountinfo, line)
{
	struct mount_line line;
	char copy[256];

	memcpy(copy, c->line, sizeof(copy));
	cr_assert_eq(mount_line_parse(&line, copy), c->err, "%s", c->line);
	if (c->err)
		return;
	cr_expect_eq(line.dev, makedev(c->major, c->minor), "%s", c->line);
	cr_expect_str_eq(line.root, c->root);
	cr_expect_str_eq(line.point, c->point);
	cr_expect_str_eq(line.type, c->type);
	cr_expect_str_eq(line.options, c->options);
}

static bool count_line(void *arg, const struct mount_line *line)
{
	unsigned int *nr = arg;

	cr_expect_str_eq(line->type, "t");
	return ++*nr != 150000;
}

static int memory_file(const char *head, size_t nr_lines, const char *line, const char *tail)
{
	int fd = memfd_create("mountinfo", MFD_CLOEXEC);
	FILE *file = fdopen(dup(fd), "w");
	size_t i;

	cr_assert_not_null(file);
	fputs(head, file);
	for (i = 0; i < nr_lines; i++)
		fputs(line, file);
	fputs(tail, file);
	cr_assert_eq(fclose(file), 0);
	lseek(fd, 0, SEEK_SET);
	return fd;
}

Test(container_mountinfo, of_100000_lines, .timeout = 30)
{
	unsigned int nr = 0;
	int fd = memory_file("", 100000, "1 0 0:4 /a /b rw - t s o\n", "");

	cr_expect_eq(mountinfo_read(fd, SIZE_MAX, count_line, &nr), 0);
	cr_expect_eq(nr, 100000);
	nr = 0;
	lseek(fd, 0, SEEK_SET);
	cr_expect_eq(mountinfo_read(fd, 100000, count_line, &nr), -E2BIG);
	cr_expect_geq(nr, 100000 / 25);
	cr_expect_leq(nr, (100000 + MOUNTINFO_LINE_MAX) / 25);
	close(fd);
}

Test(container_mountinfo, stops_on_request)
{
	unsigned int nr = 150000 - 3;
	int fd = memory_file("", 10, "1 0 0:4 /a /b rw - t s o\n", "");

	cr_expect_eq(mountinfo_read(fd, SIZE_MAX, count_line, &nr), 0);
	cr_expect_eq(nr, 150000);
	close(fd);
}

/*
 * A line that is too long is skipped, and the next one is not; the rest of a long line is no line,
 * even if it looks like one.
 */
Test(container_mountinfo, lines_too_long)
{
	unsigned int nr = 0;
	int fd = memory_file("", MOUNTINFO_LINE_MAX / 8, "12345678",
			     "1 0 0:4 /a /end rw - t s o\n1 0 0:4 /a /b rw - t s o\n1 0 0:4 /");

	cr_expect_eq(mountinfo_read(fd, SIZE_MAX, count_line, &nr), 0);
	cr_expect_eq(nr, 1);
	close(fd);
}

struct kubelet_case {
	char name[24];
	char roots[3][160];
	char uid[40], container[24];
};

static struct kubelet_case kubelet_cases[] = {
	{ "as kubelet does",
	  { "/var/lib/kubelet/pods/" MADE_UID "/etc-hosts",
	    "/var/lib/kubelet/pods/" MADE_UID "/containers/ray-worker/1a2b3c4d" },
	  MADE_UID,
	  "ray-worker" },
	{ "a disk of its own", { "/pods/" MADE_UID "/containers/web/1a2b" }, MADE_UID, "web" },
	{ "hosts only", { "/kubelet/pods/" MADE_UID "/etc-hosts" }, MADE_UID, "" },
	{ "a volume's folder",
	  { "/kubelet/pods/" MADE_UID "/volumes/kubernetes.io~empty-dir/v/pods/"
	    "11111111-1111-1111-1111-111111111111/etc-hosts" },
	  "",
	  "" },
	{ "of another pod",
	  { "/kubelet/pods/" MADE_UID "/etc-hosts",
	    "/kubelet/pods/11111111-1111-1111-1111-111111111111/containers/x/1" },
	  MADE_UID,
	  "" },
	{ "no uid", { "/x/pods/evil/etc-hosts", "/pods/", "/pods//etc-hosts" }, "", "" },
	{ "no label", { "/pods/" MADE_UID "/containers/a\tb/1" }, MADE_UID, "" },
	{ "deeper", { "/pods/" MADE_UID "/containers/web/1/2" }, MADE_UID, "" },
};

ParameterizedTestParameters(container_mountinfo, kubelet)
{
	return cr_make_param_array(struct kubelet_case, kubelet_cases,
				   sizeof(kubelet_cases) / sizeof(kubelet_cases[0]));
}

ParameterizedTest(struct kubelet_case *c, container_mountinfo, kubelet)
{
	struct kubelet_mounts found = { 0 };
	struct mount_line line = { 0 };
	size_t i;

	for (i = 0; i < 3; i++) {
		line.root = c->roots[i];
		kubelet_mounts_note(&found, &line);
	}
	cr_expect_str_eq(found.pod_uid, c->uid, "%s: %s", c->name, found.pod_uid);
	cr_expect_str_eq(found.container, c->container, "%s: %s", c->name, found.container);
}

static struct placement placement;

Test(container_mountinfo, placement)
{
	struct made_node made;

	made_node_init(&made);
	made_proc(&made, 5,
		  "1 0 0:4 / / rw - rootfs none rw\n"
		  "2 1 0:77 /sub\\040vol / rw - btrfs none rw\n"
		  "3 1 0:5 / /proc rw - proc proc rw\n",
		  "0::/docker/" MADE_ID "\n");
	cr_assert_eq(placement_read(&placement, made.proc, 5), 0);
	cr_expect(placement.has_root);
	cr_expect_eq(placement.root_dev, makedev(0, 77));
	cr_expect_str_eq(placement.root, "/sub vol");
	cr_expect_str_eq(placement.cgroup.ids[0], MADE_ID);
	cr_expect_not(placement.cut);
	cr_expect_eq(placement_read(&placement, made.proc, 6), -ESRCH);
	/* After a chroot there is no mount on its root. */
	made_proc(&made, 7, "3 1 0:5 / /proc rw - proc proc rw\n", "0::/\n");
	cr_assert_eq(placement_read(&placement, made.proc, 7), 0);
	cr_expect_not(placement.has_root);
	made_node_fini(&made);
}
