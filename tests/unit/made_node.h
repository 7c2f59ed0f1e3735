/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TESTS_MADE_NODE_H
#define BPFPROF_TESTS_MADE_NODE_H

/*
 * A node made of files in a temporary folder: ROOT/proc and ROOT/node (its file system). Its containers'
 * roots are plain folders, so a mountinfo that names the folder's own device fits each of them.
 */

#include <stddef.h>

#define MADE_TASKS "/run/containerd/io.containerd.runtime.v2.task"
#define MADE_ID "1f2e3d4c5b6a79881f2e3d4c5b6a79881f2e3d4c5b6a79881f2e3d4c5b6a7988"
#define MADE_ID2 "aaaabbbbccccddddaaaabbbbccccddddaaaabbbbccccddddaaaabbbbccccdddd"
#define MADE_UID "0d1c2b3a-4958-6776-8594-a3b2c1d0e1f2"

struct made_node {
	char root[64], proc[80], node[80];
	unsigned int major, minor; /* of the folder's device */
};

/* Has pid 1 with a root of its own (device 8:1), and nothing else. */
void made_node_init(struct made_node *made);
void made_node_fini(struct made_node *made);

/* Path in the node's folder, with its parents made. Valid until the next call. */
const char *made_path(const struct made_node *made, const char *path);
void made_file(const struct made_node *made, const char *path, const char *text);
void made_proc(const struct made_node *made, unsigned int pid, const char *mountinfo,
	       const char *cgroup);
/* mountinfo of a process whose root is all of the folder's device. Valid until the next call. */
const char *made_own_root(const struct made_node *made);
/* containerd's bundle with a rootfs. */
void made_bundle(const struct made_node *made, const char *namespace, const char *id,
		 const char *config);

#endif
