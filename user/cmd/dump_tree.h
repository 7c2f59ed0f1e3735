/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CMD_DUMP_TREE_H
#define BPFPROF_CMD_DUMP_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct dump_target {
	pid_t pid;
	pid_t parent; /* 0: was asked for by name */
};

#define DUMP_MAX_TARGETS 65536

/*
 * pids, each followed by its descendants if those are wanted: the order in which py-spy shows them.
 * Each process once. *ret is malloced. 0 or -errno.
 */
int dump_tree(struct dump_target **ret, size_t *ret_nr, const pid_t *pids, size_t nr,
	      bool descendants);

#endif
