// SPDX-License-Identifier: Apache-2.0
#include "container/containers.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/deadline.h"
#include "base/hash_table.h"
#include "container/finder.h"

#define SPACES_MAX (4 * CONTAINERS_MAX)
#define RETRY_FIRST_NS (1ULL * 1000000000)
#define RETRY_MAX_NS (64ULL * 1000000000)
#define NR_TEXTS (10 + RANKS_NR)

/* One container with its strings, in one block. */
struct entry {
	struct entry *next;
	struct container pub;
	size_t nr_spaces; /* mount namespaces that refer to it */
	uint64_t used_ns;
	size_t bytes; /* bytes of text */
	char text[];
};

/* The facts about one mount namespace. */
struct space {
	struct hash_node node;
	uint64_t mnt_ns;
	uint64_t used_ns;
	struct entry *entry; /* NULL: the namespace is that of the node, or not known */
	uint64_t retry_ns; /* time of the next search; 0: everything is known */
	uint64_t delay_ns; /* time from one search to the next */
	/*
	 * The process that was read. confirmed: another process has the same root, so the pid was
	 * not reused.
	 */
	uint32_t pid;
	bool confirmed;
	bool has_root;
	dev_t root_dev;
	uint64_t root_hash;
};

struct containers {
	struct finder *finder;
	struct hash_table spaces;
	struct entry *entries;
	size_t nr_entries;
	struct containers_stats stats;
};

int containers_new(struct containers **ret, struct deadline_runner *runner, const char *proc,
		   const char *host_root)
{
	struct containers *containers = calloc(1, sizeof(*containers));

	if (!containers)
		return -ENOMEM;
	hash_table_init(&containers->spaces, SPACES_MAX, struct space, mnt_ns);
	if (finder_new(&containers->finder, runner, proc, host_root, &containers->stats)) {
		free(containers);
		return -ENOMEM;
	}
	*ret = containers;
	return 0;
}

static void space_free(struct containers *containers, struct space *space)
{
	if (space->entry)
		space->entry->nr_spaces--;
	hash_table_remove(&containers->spaces, space);
}

void containers_free(struct containers *containers)
{
	struct space *space;
	struct entry *entry;

	if (!containers)
		return;
	hash_table_each(&containers->spaces, space)
		space_free(containers, space);
	while ((entry = containers->entries)) {
		containers->entries = entry->next;
		free(entry);
	}
	finder_free(containers->finder);
	free(containers);
}

/* Lists the strings, in the order of texts_of(). */
static void finding_texts(const char *texts[NR_TEXTS], const struct finding *finding)
{
	const struct oci_config *config = &finding->config;
	const char *const all[NR_TEXTS - RANKS_NR] = {
		finding->id,	       config->name,	config->pod,	     config->namespace,
		config->pod_uid,       config->image,	config->ray_cluster, config->ray_group,
		config->ray_node_type, finding->rootfs,
	};
	size_t i;

	memcpy(texts, all, sizeof(all));
	for (i = 0; i < RANKS_NR; i++)
		texts[NR_TEXTS - RANKS_NR + i] = config->ranks[i];
}

static void entry_point(struct entry *entry)
{
	struct container *pub = &entry->pub;
	const char **const all[NR_TEXTS - RANKS_NR] = {
		&pub->id,    &pub->name,	&pub->pod,	 &pub->namespace,     &pub->pod_uid,
		&pub->image, &pub->ray_cluster, &pub->ray_group, &pub->ray_node_type, &pub->rootfs,
	};
	const char *at = entry->text;
	size_t i;

	for (i = 0; i < NR_TEXTS; i++) {
		*(i < NR_TEXTS - RANKS_NR ? all[i] : &pub->ranks[i - (NR_TEXTS - RANKS_NR)]) = at;
		at += strlen(at) + 1;
	}
}

static struct entry *entry_new(const struct finding *finding)
{
	const char *texts[NR_TEXTS];
	struct entry *entry;
	size_t bytes = 0, i;

	finding_texts(texts, finding);
	for (i = 0; i < NR_TEXTS; i++)
		bytes += strlen(texts[i]) + 1;
	entry = calloc(1, sizeof(*entry) + bytes);
	if (!entry)
		return NULL;
	for (i = 0; i < NR_TEXTS; i++) {
		memcpy(entry->text + entry->bytes, texts[i], strlen(texts[i]) + 1);
		entry->bytes += strlen(texts[i]) + 1;
	}
	entry->pub.source = finding->source;
	entry_point(entry);
	return entry;
}

/* The entry of a finding; the mount namespaces of one container share it. NULL: no room. */
static struct entry *entry_get(struct containers *containers, const struct finding *finding)
{
	struct entry *entry = entry_new(finding), *other;

	if (!entry) {
		containers->stats.no_memory++;
		return NULL;
	}
	for (other = containers->entries; other; other = other->next) {
		if (other->pub.source != entry->pub.source || other->bytes != entry->bytes ||
		    memcmp(other->text, entry->text, entry->bytes))
			continue;
		free(entry);
		return other;
	}
	if (containers->nr_entries == CONTAINERS_MAX) {
		containers->stats.full++;
		free(entry);
		return NULL;
	}
	entry->next = containers->entries;
	containers->entries = entry;
	containers->nr_entries++;
	return entry;
}

static uint64_t hash_text(const char *text)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
	return hash;
}

static bool space_is_at(const struct space *space, const struct placement *placement)
{
	return space->root_dev == placement->root_dev &&
	       space->root_hash == hash_text(placement->root);
}

static struct space *space_find(struct containers *containers, uint64_t mnt_ns)
{
	return mnt_ns ? hash_table_find(&containers->spaces, &mnt_ns) : NULL;
}

/* NULL: no room or memory. The next call searches again. */
static struct space *space_add(struct containers *containers, uint64_t mnt_ns)
{
	struct space *space;

	if (containers->spaces.nr >= SPACES_MAX) {
		containers->stats.full++;
		return NULL;
	}
	space = hash_table_add(&containers->spaces, &mnt_ns);
	containers->stats.no_memory += !space;
	return space;
}

/* Sets the time of the next search, if there is one: the delay doubles. */
static void space_wait(struct space *space, bool again, uint64_t now_ns)
{
	space->delay_ns = space->delay_ns ? 2 * space->delay_ns : RETRY_FIRST_NS;
	if (space->delay_ns > RETRY_MAX_NS)
		space->delay_ns = RETRY_MAX_NS;
	space->retry_ns = again ? now_ns + space->delay_ns : 0;
}

static void space_set(struct space *space, struct entry *entry, const struct finding *finding,
		      const struct placement *placement, uint32_t pid, uint64_t now_ns)
{
	if (entry)
		entry->nr_spaces++;
	if (space->entry)
		space->entry->nr_spaces--;
	space->entry = entry;
	space->pid = pid;
	space->confirmed = false;
	space->has_root = placement->has_root;
	space->root_dev = placement->root_dev;
	space->root_hash = hash_text(placement->root);
	space_wait(space, finding->more_later || (!entry && !finding->of_node), now_ns);
}

/*
 * Do the facts of the namespace hold for this process? The next process of the namespace is read,
 * too: the pid of the first one may have been reused before it was read.
 */
static bool space_holds(struct containers *containers, struct space *space, uint32_t pid,
			uint64_t now_ns)
{
	const struct placement *placement;

	if (space->retry_ns && now_ns >= space->retry_ns)
		return false;
	if (space->confirmed || space->pid == pid)
		return true;
	placement = finder_scan(containers->finder, pid);
	if (!placement)
		return true; /* the process has exited and proves nothing */
	/* A process with a root of its own (chroot) shows nothing about the namespace. */
	if (!placement->has_root || !space->has_root)
		return true;
	space->confirmed = space_is_at(space, placement);
	return space->confirmed;
}

static const struct container *use(struct entry *entry, uint64_t now_ns)
{
	if (!entry)
		return NULL;
	entry->used_ns = now_ns;
	return &entry->pub;
}

/*
 * Is the finding for the same container or an unknown one, but from a worse source? This happens in
 * a sandbox.
 */
static bool says_less(const struct finding *finding, const struct container *known)
{
	if (finding->id[0] && strcmp(finding->id, known->id))
		return false;
	return !finding->source || finding->source > known->source;
}

static const struct container *learn(struct containers *containers, struct space *space,
				     uint32_t pid, uint64_t mnt_ns, uint64_t now_ns)
{
	const struct placement *placement = finder_scan(containers->finder, pid);
	const struct finding *finding;
	struct entry *entry = NULL;

	if (!placement)
		return use(space ? space->entry : NULL, now_ns);
	finding = finder_find(containers->finder);
	if (space && space->entry && says_less(finding, &space->entry->pub)) {
		space->confirmed = true;
		space_wait(space, space->entry->pub.source != CONTAINER_FROM_BUNDLE, now_ns);
		return use(space->entry, now_ns);
	}
	if (finding->source)
		entry = entry_get(containers, finding);
	if (!space && mnt_ns && finding->whole_space)
		space = space_add(containers, mnt_ns);
	if (space && finding->whole_space) {
		space_set(space, entry, finding, placement, pid, now_ns);
		space->used_ns = now_ns;
	}
	return use(entry, now_ns);
}

const struct container *containers_of(struct containers *containers, uint32_t pid, uint64_t mnt_ns,
				      uint64_t now_ns)
{
	struct space *space = space_find(containers, mnt_ns);

	if (space) {
		space->used_ns = now_ns;
		if (space_holds(containers, space, pid, now_ns))
			return use(space->entry, now_ns);
	}
	return learn(containers, space, pid, mnt_ns, now_ns);
}

bool containers_is_of_node(struct containers *containers, uint32_t pid)
{
	const struct placement *placement = finder_scan(containers->finder, pid);

	return placement && !placement->cut && finder_find(containers->finder)->of_node;
}

void containers_expire(struct containers *containers, uint64_t now_ns)
{
	uint64_t keep_ns = CONTAINERS_KEEP_NS;
	struct space *space;
	struct entry **at = &containers->entries, *entry;

	/* The table is nearly full: only the containers of the last minute stay. */
	if (containers->nr_entries > CONTAINERS_MAX - CONTAINERS_MAX / 8 ||
	    containers->spaces.nr > SPACES_MAX - SPACES_MAX / 8)
		keep_ns /= 10;
	hash_table_each(&containers->spaces, space)
		if (now_ns - space->used_ns > keep_ns)
			space_free(containers, space);
	while ((entry = *at)) {
		if (entry->nr_spaces || now_ns - entry->used_ns <= keep_ns) {
			at = &entry->next;
			continue;
		}
		*at = entry->next;
		containers->nr_entries--;
		free(entry);
	}
}

void containers_each(const struct containers *containers,
		     void (*see)(void *arg, const struct container *container), void *arg)
{
	const struct entry *entry;

	for (entry = containers->entries; entry; entry = entry->next)
		see(arg, &entry->pub);
}

size_t containers_count(const struct containers *containers)
{
	return containers->nr_entries;
}

const struct containers_stats *containers_stats(const struct containers *containers)
{
	return &containers->stats;
}
