// SPDX-License-Identifier: Apache-2.0
#include "profile/jit_names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "proc/images.h"
#include "proc/origins.h"
#include "profile/stats.h"
#include "symbol/perfmap.h"
#include "bpfprof.h"

#define MAX_BYTES (2ULL * PERFMAP_MAX_BYTES) /* of all maps together */

static void map_read(struct jit_names *names, const char *path, const struct elf_source *source,
			 struct perfmap_query *queries, size_t nr)
{
	int err;

	names->bytes += source->size < PERFMAP_MAX_BYTES ? source->size : PERFMAP_MAX_BYTES;
	if (names->bytes > MAX_BYTES) {
		stats_add(names->reasons, "perfmap_too_big", 1);
		source->close(source->arg);
		return;
	}
	err = perfmap_resolve(source, names->strings, queries, nr);
	if (err)
		stats_add(names->reasons, err > 0 ? "perfmap_cut" : "perfmap_unreadable", 1);
	if (err > 0 && names->cut_map)
		snprintf(names->cut_map, JIT_NAMES_PATH_BYTES, "%s", path);
}

static const char *refusal_reason(int err)
{
	switch (err) {
	case -EPERM:
	case -ELOOP:
		return "perfmap_refused";
	case -EKEYEXPIRED:
		return "perfmap_stale";
	case -EXDEV:
		return "perfmap_not_visible";
	case -ESRCH:
	case -ESTALE:
		return "perfmap_gone";
	case -EACCES:
	case -E2BIG:
	case -EBUSY:
	case -EIO:
	case -ETIMEDOUT:
		return "perfmap_unreadable";
	default: /* the process wrote no map */
		return NULL;
	}
}

/*
 * Names the queries that have no name yet from the map with that number. 0 or -ENOMEM; -EXDEV, -ESRCH,
 * -ESTALE: no map of the process can be read.
 */
static int map_query(struct jit_names *names, uint32_t pid, uint32_t number, uint64_t since_ns,
		       struct perfmap_query *queries, size_t nr)
{
	__cleanup(free_mem) struct perfmap_query *open = calloc(nr, sizeof(*open));
	struct elf_source source;
	char path[JIT_NAMES_PATH_BYTES];
	size_t i, nr_open = 0;
	int err;

	if (!open)
		return -ENOMEM;
	for (i = 0; i < nr; i++)
		if (!queries[i].name)
			open[nr_open++].va = queries[i].va;
	if (!nr_open || !number)
		return 0;
	snprintf(path, sizeof(path), "/tmp/perf-%u.map", number);
	err = images_open_owned(names->images, pid, path, since_ns, &source);
	if (!err)
		map_read(names, path, &source, open, nr_open);
	else if (refusal_reason(err))
		stats_add(names->reasons, refusal_reason(err), 1);
	for (i = nr_open = 0; i < nr; i++)
		if (!queries[i].name)
			queries[i] = open[nr_open++];
	return err == -EXDEV || err == -ESRCH || err == -ESTALE ? err : 0;
}

/*
 * A process writes its own number, as its pid namespace has it, to its own /tmp. The names of code that
 * it inherited by fork stand in the maps of its ancestors.
 */
int jit_names_find(struct jit_names *names, uint32_t pid, uint64_t start_ns,
		   struct perfmap_query *queries, size_t nr)
{
	const struct origin *origin = origins_find(images_origins(names->images), pid);
	struct bpfprof_origin told;
	int err, i;

	if (!origin || (start_ns && origin->start_ns != start_ns)) {
		stats_add(names->reasons, refusal_reason(-ESRCH), 1);
		return 0;
	}
	told = origin->told;
	err = map_query(names, pid, origin->pod_pid, origin->since_ns, queries, nr);
	for (i = 0; i < BPFPROF_ANCESTORS && !err; i++)
		err = map_query(names, pid, told.ancestors[i].pod_pid, told.ancestors[i].start_ns,
				queries, nr);
	return err == -ENOMEM ? err : 0;
}
