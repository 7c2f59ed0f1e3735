/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_DAEMON_TREE_H
#define BPFPROF_DAEMON_TREE_H

/*
 * A folder of the daemon with a folder per pod below it: DIR/NAMESPACE/POD/, each with its own sets
 * and links latest.* (store.h). The limits hold for all of them together: the oldest set is removed
 * first, in whichever folder it is; with a pod's last set its links and its folder are removed. Only
 * a folder in which latest.pb.gz leads to a set belongs to the tree. At most TREE_MAX_FOLDERS folders
 * are read; counts->folders_unread counts the others and the unreadable ones. Of more than
 * SETS_MAX_FILES sets only the oldest half of that number is kept one by one. One thread uses a tree.
 */

#include <stddef.h>
#include <stdint.h>

#include "daemon/store.h"

#define TREE_MAX_FOLDERS 16384
#define TREE_PART_MAX 256 /* bytes of one folder's name, with the NUL */

/* Two names that a folder can have. */
struct tree_name {
	char namespace[TREE_PART_MAX], pod[TREE_PART_MAX];
};

/*
 * Users choose the names of pods. A name that Kubernetes allows stays as it is. Any other one
 * (slashes, leading dots, control characters, 10 KB) becomes a name that no valid pod has, and no two
 * of them become the same.
 */
void tree_name_make(struct tree_name *ret, const char *namespace, const char *pod);

struct tree;

/* Reads the folders and removes temporary files. Borrows root. Adds to counts. 0 or -errno. */
int tree_open(struct tree **ret, struct store *root, uint64_t now_seconds,
	      struct store_counts *counts);
/* The same with a limit of at least 2 in place of SETS_MAX_FILES; for tests. */
int tree_open_max(struct tree **ret, struct store *root, size_t max_sets, uint64_t now_seconds,
		  struct store_counts *counts);
void tree_close(struct tree *tree); /* NULL is fine */

/* Sets the links that do not lead to the newest set, as a killed daemon may leave them. */
void tree_repair(struct tree *tree, uint64_t now_seconds, struct store_counts *counts);

/*
 * Removes sets until the others and reserve more bytes are within limits. Keeps the newest set of the
 * node, and sets that were added after tree_open(). Sets counts->sets and bytes.
 */
void tree_prune(struct tree *tree, const struct store_limits *limits, uint64_t reserve,
		uint64_t now_seconds, struct store_counts *counts);
/* Bytes of all sets with the start of the newest set of the node. */
uint64_t tree_last_bytes(const struct tree *tree);

/* Adds a set that store_commit() has made; name NULL: a set of the node itself. 0 or -ENOMEM. */
int tree_add(struct tree *tree, const struct tree_name *name, const struct store_set *set);

#endif
