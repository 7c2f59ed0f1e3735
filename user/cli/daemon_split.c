// SPDX-License-Identifier: Apache-2.0
/* --split pod: an interval becomes a set of files per pod, and one of what lives in no pod. */
#include "cli/daemon.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/time.h"
#include "daemon/push_queue.h"
#include "daemon/tree.h"
#include "profile/parts.h"

#define LIST_BYTES (8U << 20)

int split_repair(struct daemon *daemon, struct store_counts *counts)
{
	uint64_t now = time_wall_ns() / NS_PER_SECOND;
	struct tree *tree;
	int err;

	err = tree_open(&tree, daemon->store, now, counts);
	if (err)
		return err;
	tree_repair(tree, now, counts);
	tree_prune(tree, &daemon->options->limits, 0, now, counts);
	err = counts->remove_error;
	tree_close(tree);
	return err;
}

/* For the parent: path without suffix, namespace and pod, each with its NUL. */
static void list_add(struct buf *list, const struct tree_name *name, const struct store_set *set,
		     const struct profile_part *part)
{
	buf_printf(list, "%s/%s/%s", name->namespace, name->pod, set->name);
	buf_add(list, "", 1);
	buf_add(list, part->namespace, strlen(part->namespace) + 1);
	buf_add(list, part->pod, strlen(part->pod) + 1);
}

static int pod_write(struct daemon *daemon, const struct profile_part *part, struct tree *tree,
		     struct buf *list, struct write_result *result)
{
	const char *names[2];
	struct tree_name name;
	struct store_set set;
	struct store *store;
	int err;

	tree_name_make(&name, part->namespace, part->pod);
	names[0] = name.namespace;
	names[1] = name.pod;
	err = store_open_below(&store, daemon->store, names, 2, true);
	if (err)
		return err;
	err = set_write(daemon, store, NULL, &part->profile, &set, &result->counts);
	store_close(store);
	if (err)
		return err;
	result->bytes += set.bytes;
	list_add(list, &name, &set, part);
	return tree_add(tree, &name, &set);
}

/* The node's set comes last: once it is there, all of the interval is. */
static int parts_write(struct daemon *daemon, struct profile_parts *parts, struct tree *tree,
		       struct buf *list, struct write_result *result)
{
	const struct store_limits *limits = &daemon->options->limits;
	uint64_t now = time_wall_ns() / NS_PER_SECOND;
	struct profile_part part;
	struct store_set set;
	size_t i;
	int err;

	for (i = 1; i < profile_parts_count(parts); i++) {
		err = profile_part_make(parts, i, &part);
		if (!err) {
			err = pod_write(daemon, &part, tree, list, result);
			profile_part_fini(&part);
		}
		if (err && !result->pods_failed++)
			result->pods_error = err;
		result->pods += !err;
		tree_prune(tree, limits, 0, now, &result->counts);
	}
	err = profile_part_make(parts, 0, &part);
	if (err)
		return err;
	err = set_write(daemon, daemon->store, NULL, &part.profile, &set, &result->counts);
	profile_part_fini(&part);
	if (err)
		return err;
	memcpy(result->name, set.name, sizeof(result->name));
	result->bytes += set.bytes;
	err = tree_add(tree, NULL, &set);
	tree_prune(tree, limits, 0, now, &result->counts);
	return err;
}

/* All or nothing. */
static void list_give(const struct daemon *daemon, const struct buf *list)
{
	ssize_t n;

	if (daemon->writer.pods_fd < 0 || buf_error(list) || !list->len)
		return;
	n = write(daemon->writer.pods_fd, list->data, list->len);
	if (n != (ssize_t)list->len && ftruncate(daemon->writer.pods_fd, 0))
		return;
}

int split_write(struct daemon *daemon, const struct profile *profile, struct write_result *result)
{
	uint64_t now = time_wall_ns() / NS_PER_SECOND;
	struct profile_parts *parts = NULL;
	struct tree *tree = NULL;
	struct buf list;
	int err;

	buf_init(&list, LIST_BYTES);
	err = tree_open(&tree, daemon->store, now, &result->counts);
	if (!err)
		err = profile_parts_new(&parts, profile, PROFILE_CUT_PODS);
	if (!err) {
		tree_prune(tree, &daemon->options->limits, tree_last_bytes(tree), now,
			   &result->counts);
		err = parts_write(daemon, parts, tree, &list, result);
		list_give(daemon, &list);
	}
	profile_parts_free(parts);
	tree_close(tree);
	buf_fini(&list);
	return err;
}

/* The next string of the list, or NULL at its end. */
static const char *list_next(const char **at, const char *end)
{
	const char *text = *at, *nul = memchr(text, 0, (size_t)(end - text));

	if (!nul)
		return NULL;
	*at = nul + 1;
	return text;
}

/* How many. */
static uint64_t list_push(struct daemon *daemon, const char *at, const char *end)
{
	const char *path, *namespace, *pod;
	uint64_t nr = 0;

	while ((path = list_next(&at, end)) && (namespace = list_next(&at, end)) &&
	       (pod = list_next(&at, end))) {
		/* Only read. */
		struct push_item item = { .path = (char *)(uintptr_t)path,
					  .namespace = (char *)(uintptr_t) namespace,
					  .pod = (char *)(uintptr_t)pod,
					  .start = daemon->writer.from_s,
					  .until = daemon->writer.until_s };

		push_written(daemon, &item);
		nr++;
	}
	return nr;
}

void split_push(struct daemon *daemon, uint64_t pods)
{
	int fd = daemon->writer.pods_fd;
	uint64_t pushed = 0;
	struct stat st;
	char *list;

	if (!daemon->push.pusher)
		return;
	if (fd >= 0 && !fstat(fd, &st) && st.st_size > 0) {
		list = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (list != MAP_FAILED) {
			pushed = list_push(daemon, list, list + st.st_size);
			munmap(list, (size_t)st.st_size);
		}
	}
	for (; pushed < pods; pushed++)
		pusher_no_memory(daemon->push.pusher);
	if (fd >= 0)
		close(fd);
	daemon->writer.pods_fd = -1;
}
