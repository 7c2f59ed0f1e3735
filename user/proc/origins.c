// SPDX-License-Identifier: Apache-2.0
#include "proc/origins.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/time.h"

struct origins {
	struct hash_table by_pid; /* the oldest record comes first */
};

int origins_new(struct origins **ret)
{
	struct origins *origins = calloc(1, sizeof(*origins));

	if (!origins)
		return -ENOMEM;
	hash_table_init(&origins->by_pid, ORIGINS_MAX, struct origin, pid);
	*ret = origins;
	return 0;
}

static void origin_remove(struct origins *origins, struct origin *origin)
{
	free(origin->root);
	hash_table_remove(&origins->by_pid, origin);
}

void origins_free(struct origins *origins)
{
	struct origin *origin;

	if (!origins)
		return;
	hash_table_each(&origins->by_pid, origin)
		origin_remove(origins, origin);
	free(origins);
}

void origins_set(struct origins *origins, const struct origin *from)
{
	struct origin *old = hash_table_find(&origins->by_pid, &from->pid), *origin;
	struct origin copy = *from;

	copy.root = from->root ? strdup(from->root) : NULL;
	if (old) {
		if (!from->facts.ancestors[0].pod_pid && old->start_ns == from->start_ns &&
		    old->exec_id == from->exec_id)
			memcpy(copy.facts.ancestors, old->facts.ancestors,
			       sizeof(copy.facts.ancestors));
		origin_remove(origins, old);
	}
	if (origins->by_pid.nr == ORIGINS_MAX)
		origin_remove(origins, (void *)origins->by_pid.oldest);
	origin = hash_table_add(&origins->by_pid, &copy.pid);
	if (!origin) {
		free(copy.root);
		return;
	}
	copy.node = origin->node;
	*origin = copy;
}

void origins_fork(struct origins *origins, uint32_t parent, const struct origin *ids)
{
	const struct origin *from = origins_find(origins, parent);
	struct origin child;

	if (!from)
		return;
	child = *ids;
	child.mnt_ns = from->mnt_ns;
	child.facts = from->facts;
	child.root = from->root;
	memmove(child.facts.ancestors + 1, from->facts.ancestors,
		(BPFPROF_ANCESTORS - 1) * sizeof(*child.facts.ancestors));
	child.facts.ancestors[0] =
		(struct bpfprof_ancestor){ .start_ns = from->start_ns, .pod_pid = from->pod_pid };
	origins_set(origins, &child);
}

const struct origin *origins_find(const struct origins *origins, uint32_t pid)
{
	return hash_table_find(&origins->by_pid, &pid);
}

bool origin_is_here(const struct origin *origin)
{
	return origin->facts.flags & BPFPROF_ORIGIN_OUR_ROOT;
}

bool origin_mounts_are_trusted(const struct origin *origin)
{
	return origin->facts.flags & BPFPROF_ORIGIN_OUR_USERS;
}

uint64_t origin_boot_ns(uint64_t monotonic_ns)
{
	struct timespec boot;
	uint64_t now_ns = time_monotonic_ns();

	clock_gettime(CLOCK_BOOTTIME, &boot);
	return (uint64_t)boot.tv_sec * NS_PER_SECOND + (uint64_t)boot.tv_nsec -
	       (now_ns - monotonic_ns);
}

int64_t origin_real_seconds(uint64_t boot_ns)
{
	struct timespec real, boot;

	clock_gettime(CLOCK_REALTIME, &real);
	clock_gettime(CLOCK_BOOTTIME, &boot);
	return real.tv_sec - (int64_t)((uint64_t)boot.tv_sec - boot_ns / NS_PER_SECOND);
}
