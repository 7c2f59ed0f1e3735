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

/* Both profiles of an interval, cut into parts; calls is NULL without --gpu. */
struct split {
	struct profile_parts *cpu, *calls;
	const struct profile *memory; /* of all pods, in the set of the node; or NULL */
	struct tree *tree;
	struct buf *list;
	struct write_result *result;
};

/* The parts of one pod, or of the processes in no pod. One of them may be NULL. */
struct pair {
	const struct profile_part *cpu, *calls;
};

static int pod_write(struct daemon *daemon, const struct pair *pair, struct split *split)
{
	const struct profile_part *part = pair->cpu ? pair->cpu : pair->calls;
	struct profile idle = part->profile;
	const struct profiles profiles = { .cpu = pair->cpu ? &pair->cpu->profile : &idle,
					   .calls = pair->calls ? &pair->calls->profile : NULL };
	const char *names[2];
	struct tree_name name;
	struct store_set set;
	struct store *store;
	int err;

	/* A pod that has only made calls has no samples. */
	idle.nr_samples = idle.nr_calls = 0;
	idle.call_values = NULL;
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

static int node_write(struct daemon *daemon, const struct pair *pair, struct split *split)
{
	const struct profiles profiles = { .cpu = &pair->cpu->profile,
					   .calls = pair->calls ? &pair->calls->profile : NULL,
					   .memory = split->memory };
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

/* Both indexes 0: the processes in no pod. One index 0: the pod has no such part. */
static int pair_write(struct daemon *daemon, struct split *split, size_t cpu_index,
		      size_t calls_index)
{
	bool node = !cpu_index && !calls_index;
	struct profile_part cpu, calls;
	struct pair pair = { 0 };
	int err = 0;

	if (cpu_index || node) {
		err = profile_part_make(split->cpu, cpu_index, &cpu);
		pair.cpu = err ? NULL : &cpu;
	}
	if (!err && split->calls && (calls_index || node)) {
		err = profile_part_make(split->calls, calls_index, &calls);
		pair.calls = err ? NULL : &calls;
	}
	if (!err)
		err = node ? node_write(daemon, &pair, split) : pod_write(daemon, &pair, split);
	if (pair.cpu)
		profile_part_fini(&cpu);
	if (pair.calls)
		profile_part_fini(&calls);
	return err;
}

static void one_write(struct daemon *daemon, struct split *split, size_t cpu_index,
		      size_t calls_index)
{
	struct write_result *result = split->result;
	int err = pair_write(daemon, split, cpu_index, calls_index);

	if (err && !result->pods_failed++)
		result->pods_error = err;
	result->pods += !err;
	tree_prune(split->tree, &daemon->options->limits, 0, time_wall_ns() / NS_PER_SECOND,
		   &result->counts);
}

/* Does a pod that has made calls have no samples? */
static bool is_idle(const struct split *split, size_t calls_index)
{
	struct profile_part part;
	bool idle;

	if (profile_part_make(split->calls, calls_index, &part))
		return false;
	idle = !profile_parts_find(split->cpu, part.namespace, part.pod);
	profile_part_fini(&part);
	return idle;
}

/* The node's set is written last: when it exists, the whole interval is written. */
static int parts_write(struct daemon *daemon, struct split *split)
{
	struct profile_part part;
	size_t i, calls;
	int err;

	for (i = 1; i < profile_parts_count(split->cpu); i++) {
		calls = 0;
		if (split->calls && !profile_part_make(split->cpu, i, &part)) {
			calls = profile_parts_find(split->calls, part.namespace, part.pod);
			profile_part_fini(&part);
		}
		one_write(daemon, split, i, calls);
	}
	for (i = 1; split->calls && i < profile_parts_count(split->calls); i++)
		if (is_idle(split, i))
			one_write(daemon, split, 0, i);
	err = pair_write(daemon, split, 0, 0);
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
	struct split split = { .list = &list, .result = result, .memory = profiles->memory };
	int err;

	buf_init(&list, LIST_BYTES);
	err = tree_open(&split.tree, daemon->store, now, &result->counts);
	if (!err)
		err = profile_parts_new(&split.cpu, profiles->cpu, PROFILE_CUT_PODS);
	if (!err && profiles->calls)
		err = profile_parts_new(&split.calls, profiles->calls, PROFILE_CUT_PODS);
	if (!err) {
		tree_prune(split.tree, &daemon->options->limits, tree_last_bytes(split.tree), now,
			   &result->counts);
		err = parts_write(daemon, &split);
		list_give(daemon, &list);
	}
	profile_parts_free(split.cpu);
	profile_parts_free(split.calls);
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
