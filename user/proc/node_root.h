/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROC_NODE_ROOT_H
#define BPFPROF_PROC_NODE_ROOT_H

/*
 * Is our root folder that of process 1? Else bpfprof runs in a container or below chroot(2), and the
 * paths of other processes lead nowhere, or to other files.
 */

enum node_root {
	NODE_ROOT_UNKNOWN, /* the mounts of process 1 cannot be read */
	NODE_ROOT_OURS,
	NODE_ROOT_ELSEWHERE,
};

enum node_root node_root_look(const char *proc); /* proc: "/proc" */

#endif
