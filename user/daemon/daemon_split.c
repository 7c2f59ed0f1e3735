// SPDX-License-Identifier: Apache-2.0
/*
 * --split pod: an interval becomes a set of files per pod, and one set of the processes in no pod.
 */
#include "daemon/daemon.h"

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

/* For the parent: path without suffix, namespace, pod, and "calls" or "", each with its NUL. */
static void list_add(struct buf *list, const struct tree_name *name, const struct store_set *set,
		     const struct profile_part *part)
{
	buf_printf(list, "%s/%s/%s", name->namespace, name->pod, set->name);
	buf_add(list, "", 1);
	buf_add(list, part->namespace, strlen(part->namespace) + 1);
	buf_add(list, part->pod, strlen(part->pod) + 1);
	if (set->files & 1U << STORE_CUDA_PPROF)
		buf_add_str(list, "calls");
	buf_add(list, "", 1);
}

enum kind { CPU, CALLS, MEMORY, NR_KINDS };

/* The profiles of an interval, cut into parts; NULL: there is no profile of that kind. */
struct split {
	struct profile_parts *parts[NR_KINDS];
	struct tree *tree;
	struct buf *list;
	struct write_result *result;
	const struct seconds *seconds; /* of all pods */
};

/* The parts of one pod, or of the processes in no pod. Some may be NULL. */
struct pod {
	struct profile_part *parts[NR_KINDS];
};

static struct profiles profiles_of(const struct split *split, const struct pod *pod)
{
	return (struct profiles){
		.cpu = pod->parts[CPU] ? &pod->parts[CPU]->profile : NULL,
		.calls = pod->parts[CALLS] ? &pod->parts[CALLS]->profile : NULL,
		.memory = pod->parts[MEMORY] ? &pod->parts[MEMORY]->profile : NULL,
		.seconds = split->seconds,
	};
}

static int pod_write(struct daemon *daemon, const struct pod *pod, struct split *split)
{
	const struct profile_part *part = pod->parts[CPU]     ? pod->parts[CPU]
					  : pod->parts[CALLS] ? pod->parts[CALLS]
							      : pod->parts[MEMORY];
	struct profiles profiles = profiles_of(split, pod);
	struct profile idle = part->profile;
	const char *names[2];
	struct tree_name name;
	struct store_set set;
	struct store *store;
	int err;

	/* A pod that has only made calls, or holds memory, has no samples. */
	idle.nr_samples = idle.nr_calls = 0;
	idle.call_values = NULL;
	idle.history = NULL;
	idle.value = (struct profile_value){ 0 };
	if (!profiles.cpu)
		profiles.cpu = &idle;
	tree_name_make(&name, part->namespace, part->pod);
	names[0] = name.namespace;
	names[1] = name.pod;
	err = store_open_below(&store, daemon->store, names, 2, true);
	if (err)
		return err;
	err = set_write(daemon, store, NULL, &profiles, &set, &split->result->counts);
	store_close(store);
	if (err)
		return err;
	split->result->bytes += set.bytes;
	list_add(split->list, &name, &set, part);
	return tree_add(split->tree, &name, &set);
}

static int node_write(struct daemon *daemon, const struct pod *pod, struct split *split)
{
	const struct profiles profiles = profiles_of(split, pod);
	struct write_result *result = split->result;
	struct store_set set;
	int err;

	err = set_write(daemon, daemon->store, NULL, &profiles, &set, &result->counts);
	if (err)
		return err;
	memcpy(result->name, set.name, sizeof(result->name));
	result->bytes += set.bytes;
	result->calls = profiles.calls;
	return tree_add(split->tree, NULL, &set);
}

/* By kind the index of the part, 0: the pod has none. All 0: the processes in no pod. */
static int parts_write(struct daemon *daemon, struct split *split, const size_t indexes[NR_KINDS])
{
	bool node = !indexes[CPU] && !indexes[CALLS] && !indexes[MEMORY];
	struct profile_part parts[NR_KINDS];
	struct pod pod = { 0 };
	enum kind kind;
	int err = 0;

	for (kind = 0; kind < NR_KINDS && !err; kind++) {
		if (!split->parts[kind] || (!indexes[kind] && !node))
			continue;
		err = profile_part_make(split->parts[kind], indexes[kind], &parts[kind]);
		pod.parts[kind] = err ? NULL : &parts[kind];
	}
	if (!err)
		err = node ? node_write(daemon, &pod, split) : pod_write(daemon, &pod, split);
	for (kind = 0; kind < NR_KINDS; kind++)
		if (pod.parts[kind])
			profile_part_fini(pod.parts[kind]);
	return err;
}

static void one_write(struct daemon *daemon, struct split *split, const size_t indexes[NR_KINDS])
{
	struct write_result *result = split->result;
	int err = parts_write(daemon, split, indexes);

	if (err && !result->pods_failed++)
		result->pods_error = err;
	result->pods += !err;
	tree_prune(split->tree, &daemon->options->limits, 0, time_wall_ns() / NS_PER_SECOND,
		   &result->counts);
}

/* Finds the parts of the pod that has that part of that kind. True: an earlier kind has one. */
static bool find_others(const struct split *split, enum kind kind, size_t indexes[NR_KINDS])
{
	struct profile_part part;
	bool earlier = false;
	enum kind other;

	if (profile_part_make(split->parts[kind], indexes[kind], &part))
		return false;
	for (other = 0; other < NR_KINDS; other++) {
		if (other == kind || !split->parts[other])
			continue;
		indexes[other] = profile_parts_find(split->parts[other], part.namespace, part.pod);
		earlier |= other < kind && indexes[other];
	}
	profile_part_fini(&part);
	return earlier;
}

/* The node's set is written last: when it exists, the whole interval is written. */
static int pods_write(struct daemon *daemon, struct split *split)
{
	const size_t node[NR_KINDS] = { 0 };
	enum kind kind;
	size_t i;
	int err;

	for (kind = 0; kind < NR_KINDS; kind++) {
		for (i = 1; split->parts[kind] && i < profile_parts_count(split->parts[kind]);
		     i++) {
			size_t indexes[NR_KINDS] = { 0 };

			indexes[kind] = i;
			if (!find_others(split, kind, indexes))
				one_write(daemon, split, indexes);
		}
	}
	err = parts_write(daemon, split, node);
	tree_prune(split->tree, &daemon->options->limits, 0, time_wall_ns() / NS_PER_SECOND,
		   &split->result->counts);
	return err;
}

/* Writes the whole list, or nothing of it. */
static void list_give(const struct daemon *daemon, const struct buf *list)
{
	ssize_t n;

	if (daemon->writer.pods_fd < 0 || buf_error(list) || !list->len)
		return;
	n = write(daemon->writer.pods_fd, list->data, list->len);
	if (n != (ssize_t)list->len && ftruncate(daemon->writer.pods_fd, 0))
		return;
}

int split_write(struct daemon *daemon, const struct profiles *profiles, struct write_result *result)
{
	uint64_t now = time_wall_ns() / NS_PER_SECOND;
	struct buf list;
	const struct profile *of_kind[NR_KINDS] = { profiles->cpu, profiles->calls,
						    profiles->memory };
	struct split split = { .list = &list, .result = result, .seconds = profiles->seconds };
	enum kind kind;
	int err;

	buf_init(&list, LIST_BYTES);
	err = tree_open(&split.tree, daemon->store, now, &result->counts);
	for (kind = 0; kind < NR_KINDS && !err; kind++)
		if (of_kind[kind])
			err = profile_parts_new(&split.parts[kind], of_kind[kind],
						PROFILE_CUT_PODS);
	if (!err) {
		tree_prune(split.tree, &daemon->options->limits, tree_last_bytes(split.tree), now,
			   &result->counts);
		err = pods_write(daemon, &split);
		list_give(daemon, &list);
	}
	for (kind = 0; kind < NR_KINDS; kind++)
		profile_parts_free(split.parts[kind]);
	tree_close(split.tree);
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

/* Returns the number of pushed sets. */
static uint64_t list_push(struct daemon *daemon, const char *at, const char *end)
{
	const char *path, *namespace, *pod, *calls;
	uint64_t nr = 0;

	while ((path = list_next(&at, end)) && (namespace = list_next(&at, end)) &&
	       (pod = list_next(&at, end)) && (calls = list_next(&at, end))) {
		/* push_written() only reads these strings. */
		struct push_item item = { .path = (char *)(uintptr_t)path,
					  .namespace = (char *)(uintptr_t) namespace,
					  .pod = (char *)(uintptr_t)pod,
					  .start = daemon->writer.from_s,
					  .until = daemon->writer.until_s };

		push_written(daemon, &item, *calls);
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
