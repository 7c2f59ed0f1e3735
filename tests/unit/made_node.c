// SPDX-License-Identifier: Apache-2.0
#include "made_node.h"

#include <criterion/criterion.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static void make_parents(char *path)
{
	char *slash;

	for (slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		mkdir(path, 0755);
		*slash = '/';
	}
}

static void write_file(char *path, const char *text)
{
	FILE *file;

	make_parents(path);
	file = fopen(path, "we");
	cr_assert_not_null(file, "%s", path);
	cr_assert_geq(fputs(text, file), 0);
	cr_assert_eq(fclose(file), 0);
}

const char *made_path(const struct made_node *made, const char *path)
{
	static char full[4096];

	snprintf(full, sizeof(full), "%s%s", made->node, path);
	make_parents(full);
	return full;
}

void made_file(const struct made_node *made, const char *path, const char *text)
{
	char full[4096];

	snprintf(full, sizeof(full), "%s", made_path(made, path));
	write_file(full, text);
}

void made_proc(const struct made_node *made, unsigned int pid, const char *mountinfo,
	       const char *cgroup)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%u/mountinfo", made->proc, pid);
	write_file(path, mountinfo);
	snprintf(path, sizeof(path), "%s/%u/cgroup", made->proc, pid);
	write_file(path, cgroup);
}

void made_node_init(struct made_node *made)
{
	struct stat st;

	snprintf(made->root, sizeof(made->root), "/tmp/bpfprof-node-XXXXXX");
	cr_assert_not_null(mkdtemp(made->root));
	snprintf(made->proc, sizeof(made->proc), "%s/proc", made->root);
	snprintf(made->node, sizeof(made->node), "%s/node", made->root);
	cr_assert_eq(mkdir(made->node, 0755), 0);
	cr_assert_eq(stat(made->node, &st), 0);
	made->major = major(st.st_dev);
	made->minor = minor(st.st_dev);
	made_proc(made, 1, "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n", "0::/init.scope\n");
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

void made_node_fini(struct made_node *made)
{
	nftw(made->root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *made_own_root(const struct made_node *made)
{
	static char text[128];

	snprintf(text, sizeof(text), "900 800 %u:%u / / rw - overlay overlay rw\n", made->major,
		 made->minor);
	return text;
}

void made_bundle(const struct made_node *made, const char *namespace, const char *id,
		 const char *config)
{
	char path[1024];

	snprintf(path, sizeof(path), MADE_TASKS "/%s/%s/config.json", namespace, id);
	made_file(made, path, config);
	snprintf(path, sizeof(path), MADE_TASKS "/%s/%s/rootfs", namespace, id);
	cr_assert_eq(mkdir(made_path(made, path), 0755), 0);
}
