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

#define MAX_BYTES (2ULL * PERFMAP_MAX_BYTES) /* for all maps together */

enum problem {
	CUT,
	GONE,
	NOT_VISIBLE,
	REFUSED,
	STALE,
	TOO_BIG,
	UNREADABLE,
	NR_PROBLEMS,
};

/* One counter for each enum problem. */
const struct counter jit_names_counters[] = {
	[CUT] = { COUNTER_FILES, "perfmap_cut", 0,
		  .help = "maps that were read in part: the head and the end of a large one, or "
			  "what a tmpfs has not swapped out; a message names one" },
	[GONE] = { COUNTER_FILES, "perfmap_gone", 0,
		   .help = "processes with code of no file that stayed without names, as they "
			   "ended before their `/tmp` was read" },
	[NOT_VISIBLE] = { COUNTER_FILES, "perfmap_not_visible", 0,
			  .help = "processes whose `/tmp` is mounted for them only and is no tmpfs "
				  "or ramfs, or is mounted by themselves in a user namespace of "
				  "their own ([limits](limits.md#native-code))" },
	[REFUSED] = { COUNTER_FILES, "perfmap_refused", 0,
		      .help = "maps that belong to another user, or are a link, have a second "
			      "name, or are no plain file: the process's user or root must write "
			      "the map" },
	[STALE] = { COUNTER_FILES, "perfmap_stale", 0,
		    .help = "maps that are older than their process" },
	[TOO_BIG] = { COUNTER_FILES, "perfmap_too_big", 0,
		      .help = "maps that were too much together with the others" },
	[UNREADABLE] = { COUNTER_FILES, "perfmap_unreadable", 0,
			 .help = "maps of JIT code (`/tmp/perf-PID.map`) that could not be read" },
	[NR_PROBLEMS] = { 0 },
};

static void problem_count(struct jit_names *names, enum problem problem)
{
	if (problem != NR_PROBLEMS)
		stats_add(names->reasons, jit_names_counters[problem].name, 1);
}

static void map_read(struct jit_names *names, const char *path, const struct elf_source *source,
		     struct perfmap_query *queries, size_t nr)
{
	int err;

	names->bytes += source->size < PERFMAP_MAX_BYTES ? source->size : PERFMAP_MAX_BYTES;
	if (names->bytes > MAX_BYTES) {
		problem_count(names, TOO_BIG);
		source->close(source->arg);
		return;
	}
	err = perfmap_resolve(source, names->strings, queries, nr);
	if (err)
		problem_count(names, err > 0 ? CUT : UNREADABLE);
	if (err > 0 && names->cut_map)
		snprintf(names->cut_map, JIT_NAMES_PATH_BYTES, "%s", path);
}

static enum problem refusal(int err)
{
	switch (err) {
	case -EPERM:
	case -ELOOP:
		return REFUSED;
	case -EKEYEXPIRED:
		return STALE;
	case -EXDEV:
		return NOT_VISIBLE;
	case -ESRCH:
	case -ESTALE:
		return GONE;
	case -EACCES:
	case -E2BIG:
	case -EBUSY:
	case -EIO:
	case -ETIMEDOUT:
		return UNREADABLE;
	default: /* the process wrote no map */
		return NR_PROBLEMS;
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
	else
		problem_count(names, refusal(err));
	for (i = nr_open = 0; i < nr; i++)
		if (!queries[i].name)
			queries[i] = open[nr_open++];
	return err == -EXDEV || err == -ESRCH || err == -ESTALE ? err : 0;
}

/*
 * A process writes a map with its own pid, in its pid namespace, to its own /tmp. Names of code
 * that it inherited by fork are in the maps of its ancestors.
 */
int jit_names_find(struct jit_names *names, uint32_t pid, uint64_t start_ns,
		   struct perfmap_query *queries, size_t nr)
{
	const struct origin *origin = origins_find(images_origins(names->images), pid);
	struct bpfprof_origin facts;
	int err, i;

	if (!origin || (start_ns && origin->start_ns != start_ns)) {
		problem_count(names, GONE);
		return 0;
	}
	facts = origin->facts;
	err = map_query(names, pid, origin->pod_pid, origin->since_ns, queries, nr);
	for (i = 0; i < BPFPROF_ANCESTORS && !err; i++)
		err = map_query(names, pid, facts.ancestors[i].pod_pid, facts.ancestors[i].start_ns,
				queries, nr);
	return err == -ENOMEM ? err : 0;
}
