/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_DAEMON_TREE_H
#define BPFPROF_DAEMON_TREE_H

/*
 * A folder of the daemon with a folder per pod below it: DIR/NAMESPACE/POD/, each with sets and latest.* of its
 * own (store.h). The limits hold for all of them together: the oldest sets go first, wherever they are, and with a
 * pod's last set its links and its folder. Only folders in which latest.pb.gz leads to a set are
 * ours. At most TREE_MAX_FOLDERS folders are looked at (counts->folders_unread says of more, and of those that
 * cannot be read), and of more than SETS_MAX_FILES sets the oldest half of that are known one by one. To be used
 * by one thread.
 */

#include <stddef.h>
#include <stdint.h>

#include "daemon/store.h"

#define TREE_MAX_FOLDERS 16384
#define TREE_PART_MAX 256 /* bytes of one folder's name, with the NUL */

/* Names of folders, fit for being one; part[TREE_PART_MAX] each. */
struct tree_name {
	char namespace[TREE_PART_MAX], pod[TREE_PART_MAX];
};

/*
 * Names are users' to choose. What Kubernetes allows stays as it is; of anything else (slashes, dots in
 * front, control characters, 10 KB) is made a name that no honest pod has, another one for each.
 */
void tree_name_make(struct tree_name *ret, const char *namespace, const char *pod);

struct tree;

/* Reads it; removes temporaries on the way. Borrows root. 0 or -errno; adds to counts. */
int tree_open(struct tree **ret, struct store *root, uint64_t now_seconds,
	      struct store_counts *counts);
/* With another limit, of at least 2, than SETS_MAX_FILES; for tests. */
int tree_open_max(struct tree **ret, struct store *root, size_t max_sets, uint64_t now_seconds,
		  struct store_counts *counts);
void tree_close(struct tree *tree); /* NULL is fine */

/* What a daemon that was killed may have left: links that do not lead to the newest set. */
void tree_repair(struct tree *tree, uint64_t now_seconds, struct store_counts *counts);

/*
 * Removes sets until the rest and reserve more bytes are within limits, but neither what was added since tree_open()
 * nor the newest set of the node. Sets counts->sets and bytes.
 */
void tree_prune(struct tree *tree, const struct store_limits *limits, uint64_t reserve,
		uint64_t now_seconds, struct store_counts *counts);
/* Bytes of all sets with the start of the newest set of the node. */
uint64_t tree_last_bytes(const struct tree *tree);

/* A set that store_commit() has just made in the folder; name NULL: of the node itself. 0 or -ENOMEM. */
int tree_add(struct tree *tree, const struct tree_name *name, const struct store_set *set);

#endif
