// SPDX-License-Identifier: Apache-2.0
#include "daemon/tree.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/vec.h"
#include "daemon/sets.h"

#define MAX_ENTRIES 1048576 /* also in folders of others */
#define NAME_KEEP 200 /* bytes of a name that is too long */
#define NAME_MAX_POD 253 /* RFC 1123, as Kubernetes has it */

struct folder {
	char *namespace, *pod; /* both NULL: the node's own */
	size_t nr; /* sets */
};

struct entry {
	struct set set; /* set.keep: not to be removed now */
	uint32_t folder;
	bool future, gone;
};

struct tree {
	struct store *root;
	struct folder *folders;
	size_t nr_folders, cap_folders;
	struct entry *entries; /* in the order in which they may go, then what was added */
	size_t nr, cap, max;
	uint64_t nr_sets, bytes;
	size_t nr_scanned;
};

/* FNV-1a. A user who makes two names collide only gets two pods of the same user in one folder. */
static uint32_t hash(const char *text)
{
	uint32_t value = 2166136261U;

	for (; *text; text++)
		value = (value ^ (uint8_t)*text) * 16777619U;
	return value;
}

/*
 * dots: the name is of a pod. Namespaces have no dots, so no namespace has the name of a file of
 * the store.
 */
static void part_make(char *dst, const char *name, bool dots)
{
	size_t len = strlen(name), i;
	bool changed = !len || len > NAME_MAX_POD;

	if (len > NAME_MAX_POD)
		len = NAME_KEEP;
	for (i = 0; i < len; i++) {
		if (isascii(name[i]) && (isalnum((unsigned char)name[i]) || name[i] == '-' ||
					 (name[i] == '.' && dots && i))) {
			dst[i] = name[i];
		} else {
			dst[i] = '_';
			changed = true;
		}
	}
	if (changed && i > NAME_KEEP)
		i = NAME_KEEP;
	dst[i] = 0;
	if (changed)
		snprintf(dst + i, TREE_PART_MAX - i, "_%08" PRIx32, hash(name));
}

void tree_name_make(struct tree_name *ret, const char *namespace, const char *pod)
{
	part_make(ret->namespace, namespace, false);
	part_make(ret->pod, pod, true);
}

/* Opens the store of a folder; the caller closes it. */
static int folder_store(const struct tree *tree, const struct folder *folder, struct store **ret)
{
	const char *const names[] = { folder->namespace, folder->pod };

	return store_open_below(ret, tree->root, names, folder->pod ? 2 : 0, false);
}

static int folder_add(struct tree *tree, const char *namespace, const char *pod)
{
	struct folder added = { 0 };

	if (vec_grow(tree->folders, tree->nr_folders + 1, tree->cap_folders, VEC_BOUNDED))
		return -ENOMEM;
	if (pod) {
		added.namespace = strdup(namespace);
		added.pod = strdup(pod);
		if (!added.namespace || !added.pod) {
			free(added.namespace);
			free(added.pod);
			return -ENOMEM;
		}
	}
	tree->folders[tree->nr_folders++] = added;
	return 0;
}

static int entry_add(struct tree *tree, const struct entry *entry)
{
	if (vec_grow(tree->entries, tree->nr + 1, tree->cap, VEC_BOUNDED))
		return -ENOMEM;
	tree->entries[tree->nr++] = *entry;
	tree->folders[entry->folder].nr++;
	tree->nr_sets++;
	tree->bytes += entry->set.bytes;
	return 0;
}

static int entry_compare(const void *a, const void *b);

/*
 * Keeps only the oldest half of max, which are removed first. The others still count in nr_sets and
 * bytes. All sets that are left out are newer than all that stay.
 */
static void entries_halve(struct tree *tree)
{
	qsort(tree->entries, tree->nr, sizeof(*tree->entries), entry_compare);
	if (tree->nr > tree->max / 2)
		tree->nr = tree->max / 2;
}

/* Adds the sets of the folder that was added last. */
static int folder_read(struct tree *tree, const struct store *store, uint64_t now_seconds)
{
	struct entry entry = { .folder = (uint32_t)tree->nr_folders - 1 };
	struct sets sets;
	size_t i;
	int err = sets_read(&sets, store_fd(store), now_seconds);

	for (i = 0; !err && i < sets.nr; i++) {
		if (tree->nr == tree->max)
			entries_halve(tree);
		entry.set = sets.sets[i];
		entry.future = entry.set.start > now_seconds + SETS_FUTURE_SECONDS;
		/* The newest set of the node is kept. */
		entry.set.keep = !entry.folder && i + 1 == sets.nr;
		err = entry_add(tree, &entry);
	}
	sets_fini(&sets);
	return err;
}

/* Counts a folder that cannot be read; the others are still read. */
static void unread_count(struct store_counts *counts, int err)
{
	counts->folders_unread++;
	counts->unread_error = err;
}

/* Was the folder removed meanwhile, or is it no folder? */
static bool is_no_folder(int err)
{
	return err == -ENOENT || err == -ENOTDIR || err == -ELOOP;
}

static int pod_sets_read(struct tree *tree, const struct store *store, const char *namespace,
			 const char *pod, uint64_t now_seconds)
{
	int err = folder_add(tree, namespace, pod);

	return err ? err : folder_read(tree, store, now_seconds);
}

/* Reads a folder below that of a namespace, if a daemon has made it. */
static int pod_read(struct tree *tree, const char *namespace, const char *pod, uint64_t now_seconds,
		    struct store_counts *counts)
{
	const char *const names[] = { namespace, pod };
	struct store *store;
	int err = store_open_below(&store, tree->root, names, 2, false);

	if (is_no_folder(err))
		return 0;
	if (!err) {
		store_clean(store, counts);
		if (store_is_ours(store))
			err = pod_sets_read(tree, store, namespace, pod, now_seconds);
		store_close(store);
	}
	if (!err || err == -ENOMEM)
		return err;
	unread_count(counts, err);
	return 0;
}

static bool may_be_folder(const struct dirent *entry)
{
	return entry->d_name[0] != '.' && (entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN);
}

/* The next entry; NULL at the end, or when the rest of the folder is counted as unread. */
static struct dirent *entry_next(struct tree *tree, DIR *dir, struct store_counts *counts)
{
	struct dirent *entry;
	int err;

	errno = 0;
	entry = readdir(dir);
	err = errno;
	if (entry && tree->nr_scanned++ < MAX_ENTRIES)
		return entry;
	if (entry || err)
		unread_count(counts, entry ? -E2BIG : -err);
	return NULL;
}

static int namespace_read(struct tree *tree, const char *namespace, uint64_t now_seconds,
			  struct store_counts *counts)
{
	struct dirent *entry;
	DIR *dir;
	int err = folder_list(&dir, store_fd(tree->root), namespace);

	if (err) {
		if (!is_no_folder(err))
			unread_count(counts, err);
		return 0;
	}
	while (!err && (entry = entry_next(tree, dir, counts))) {
		if (!may_be_folder(entry))
			continue;
		if (tree->nr_folders < TREE_MAX_FOLDERS)
			err = pod_read(tree, namespace, entry->d_name, now_seconds, counts);
		else
			unread_count(counts, -E2BIG);
	}
	closedir(dir);
	return err;
}

static int number_compare(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

/*
 * Sets of a clock that was ahead are removed first. At equal times the node's own set is the last.
 */
static int entry_compare(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	int order = number_compare(y->future, x->future);

	if (!order)
		order = number_compare(x->set.start, y->set.start);
	if (!order)
		order = number_compare(y->folder, x->folder);
	if (!order)
		order = number_compare(x->set.copy, y->set.copy);
	return order ? order : number_compare(x->set.seconds, y->set.seconds);
}

static int tree_read(struct tree *tree, uint64_t now_seconds, struct store_counts *counts)
{
	struct dirent *entry;
	DIR *dir;
	int err = folder_list(&dir, store_fd(tree->root), ".");

	if (err)
		return err;
	store_clean(tree->root, counts);
	err = folder_add(tree, NULL, NULL);
	if (!err)
		err = folder_read(tree, tree->root, now_seconds);
	while (!err && (entry = entry_next(tree, dir, counts)))
		if (may_be_folder(entry))
			err = namespace_read(tree, entry->d_name, now_seconds, counts);
	closedir(dir);
	if (err || !tree->nr)
		return err;
	/* Sets that were found later may be newer than those that were left out. */
	if (tree->nr < tree->nr_sets)
		entries_halve(tree);
	else
		qsort(tree->entries, tree->nr, sizeof(*tree->entries), entry_compare);
	return 0;
}

int tree_open(struct tree **ret, struct store *root, uint64_t now_seconds,
	      struct store_counts *counts)
{
	return tree_open_max(ret, root, SETS_MAX_FILES, now_seconds, counts);
}

int tree_open_max(struct tree **ret, struct store *root, size_t max_sets, uint64_t now_seconds,
		  struct store_counts *counts)
{
	struct tree *tree = calloc(1, sizeof(*tree));
	int err;

	if (!tree)
		return -ENOMEM;
	tree->root = root;
	tree->max = max_sets;
	err = tree_read(tree, now_seconds, counts);
	if (err) {
		tree_close(tree);
		return err;
	}
	*ret = tree;
	return 0;
}

void tree_close(struct tree *tree)
{
	size_t i;

	if (!tree)
		return;
	for (i = 0; i < tree->nr_folders; i++) {
		free(tree->folders[i].namespace);
		free(tree->folders[i].pod);
	}
	free(tree->folders);
	free(tree->entries);
	free(tree);
}

void tree_repair(struct tree *tree, uint64_t now_seconds, struct store_counts *counts)
{
	struct store *store;
	size_t i;
	int err;

	for (i = 0; i < tree->nr_folders; i++) {
		err = folder_store(tree, &tree->folders[i], &store);
		if (err) {
			if (!is_no_folder(err))
				unread_count(counts, err);
			continue;
		}
		store_repair(store, now_seconds, counts);
		store_close(store);
	}
}

/* The newest other set of the same folder, or NULL. */
static const struct set *newest_besides(const struct tree *tree, const struct entry *entry)
{
	size_t i;

	for (i = tree->nr; i--;)
		if (tree->entries[i].folder == entry->folder && !tree->entries[i].gone &&
		    &tree->entries[i] != entry)
			return &tree->entries[i].set;
	return NULL;
}

/* Removes a folder without sets, unless other files are in it. */
static void folder_remove(const struct tree *tree, const struct folder *folder)
{
	char path[2 * TREE_PART_MAX + 2];

	if (!folder->pod)
		return;
	snprintf(path, sizeof(path), "%s/%s", folder->namespace, folder->pod);
	if (!unlinkat(store_fd(tree->root), path, AT_REMOVEDIR))
		unlinkat(store_fd(tree->root), folder->namespace, AT_REMOVEDIR);
}

static int entry_remove(struct tree *tree, struct entry *entry, struct store_counts *counts)
{
	struct folder *folder = &tree->folders[entry->folder];
	struct store *store;
	int err = folder_store(tree, folder, &store);

	if (!err) {
		err = store_remove(store, &entry->set,
				   folder->nr > 1 && store_leads_to(store, &entry->set)
					   ? newest_besides(tree, entry)
					   : NULL);
		store_close(store);
	}
	if (err && err != -ENOENT)
		return err;
	entry->gone = true;
	tree->nr_sets--;
	tree->bytes -= entry->set.bytes;
	counts->removed_sets++;
	counts->removed_bytes += entry->set.bytes;
	if (!--folder->nr)
		folder_remove(tree, folder);
	return 0;
}

void tree_prune(struct tree *tree, const struct store_limits *limits, uint64_t reserve,
		uint64_t now_seconds, struct store_counts *counts)
{
	struct entry *entry;
	bool fits;
	size_t i;
	int err;

	counts->remove_error = 0;
	for (i = 0; i < tree->nr; i++) {
		entry = &tree->entries[i];
		if (entry->gone || entry->set.keep)
			continue;
		fits = tree->bytes + reserve <= limits->bytes &&
		       !set_is_too_old(&entry->set, now_seconds, limits->age_seconds);
		if (fits && !entry->future) /* the entries after it are within the limits, too */
			break;
		err = fits ? 0 : entry_remove(tree, entry, counts);
		if (err && !counts->remove_error)
			counts->remove_error = err;
	}
	counts->sets = tree->nr_sets;
	counts->bytes = tree->bytes;
}

uint64_t tree_last_bytes(const struct tree *tree)
{
	const struct entry *last = NULL;
	uint64_t bytes = 0;
	size_t i;

	for (i = tree->nr; i-- && !last;)
		if (!tree->entries[i].folder)
			last = &tree->entries[i];
	for (i = 0; last && i < tree->nr; i++)
		if (tree->entries[i].set.start == last->set.start)
			bytes += tree->entries[i].set.bytes;
	return bytes;
}

static int folder_find(struct tree *tree, const struct tree_name *name, uint32_t *ret)
{
	size_t i;
	int err;

	*ret = 0;
	for (i = 1; name && i < tree->nr_folders; i++) {
		*ret = (uint32_t)i;
		if (!strcmp(tree->folders[i].pod, name->pod) &&
		    !strcmp(tree->folders[i].namespace, name->namespace))
			return 0;
	}
	if (!name)
		return 0;
	err = folder_add(tree, name->namespace, name->pod);
	*ret = (uint32_t)tree->nr_folders - 1;
	return err;
}

int tree_add(struct tree *tree, const struct tree_name *name, const struct store_set *set)
{
	char file[STORE_NAME_MAX + 16];
	struct entry entry = { 0 };
	struct store_name parsed;
	size_t i;
	int err = folder_find(tree, name, &entry.folder);

	if (err)
		return err;
	store_file_name(file, set->name, STORE_PPROF);
	if (!store_name_parse(&parsed, file))
		return -EINVAL;
	/* The new set is the newest of the node, so older ones need not be kept. */
	for (i = 0; !entry.folder && i < tree->nr; i++)
		if (!tree->entries[i].folder)
			tree->entries[i].set.keep = false;
	entry.set = (struct set){ .start = parsed.start,
				  .seconds = parsed.seconds,
				  .copy = parsed.copy,
				  .bytes = set->bytes,
				  .files = set->files,
				  .keep = true };
	return entry_add(tree, &entry);
}
