// SPDX-License-Identifier: Apache-2.0
#include "capture/workers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/hash_seed.h"
#include "base/log.h"
#include "base/process_map.h"
#include "base/text.h"
#include "capture/ray_roles.h"
#include "profile/aggregate.h"
#include "ray/worker_match.h"
#include "bpfprof.h"

#define NAME_BYTES (TITLE_MAX + 1)
#define CACHE_SLOTS 1024 /* a power of two */

struct verdict {
	uint64_t names; /* hash of the names; 0: the slot is free */
	int pattern; /* index of the pattern that matches; -1: none */
};

struct reported {
	struct hash_node node;
	struct process_key key;
};

struct workers {
	char *const *patterns;
	size_t nr;
	uint64_t seed; /* random, as targets choose the hashed names */
	struct verdict cache[CACHE_SLOTS];
	struct hash_table reported;
};

int workers_new(struct workers **ret, char *const *patterns, size_t nr)
{
	struct workers *workers = calloc(1, sizeof(*workers));

	if (!workers)
		return -ENOMEM;
	workers->patterns = patterns;
	workers->nr = nr;
	workers->seed = hash_seed();
	hash_table_init(&workers->reported, WORKERS_MAX_REPORTED, struct reported, key);
	*ret = workers;
	return 0;
}

void workers_free(struct workers *workers)
{
	if (!workers)
		return;
	hash_table_clear(&workers->reported);
	free(workers);
}

static int judge(struct workers *workers, const struct worker_names *names)
{
	uint64_t hash = XXH3_64bits_withSeed(names->comm, strlen(names->comm) + 1, workers->seed);
	struct verdict *verdict;

	if (names->title)
		hash = XXH3_64bits_withSeed(names->title, strlen(names->title), hash);
	if (names->script)
		hash = XXH3_64bits_withSeed(names->script, strlen(names->script), ~hash);
	hash |= 1;
	verdict = &workers->cache[hash >> 32 & (CACHE_SLOTS - 1)];
	if (verdict->names != hash) {
		verdict->names = hash;
		verdict->pattern = worker_match(workers->patterns, workers->nr, names);
	}
	return verdict->pattern;
}

/* True: the worker was not reported yet, and is remembered now. False also if there is no room. */
static bool is_first(struct workers *workers, const struct bpfprof_task_id *task)
{
	return !process_map_find(&workers->reported, task->pid, task->start_ns) &&
	       process_map_add(&workers->reported, task->pid, task->start_ns);
}

static void report_worker(uint32_t pid, const struct worker_names *names, const char *pattern)
{
	__cleanup(buf_fini) struct buf name = { .max = NAME_BYTES };

	text_add_shown(&name, worker_name(names));
	log_info("watching worker '%s' pid %u (matched '%s')", name.data ? name.data : "", pid,
		 pattern);
}

bool workers_want(struct workers *workers, const struct aggregate_input *input, bool report)
{
	char comm[BPFPROF_COMM_LEN + 1] = { 0 };
	struct worker_names names = { .title = input->title,
				      .comm = comm,
				      .script = ray_roles_script(input->role) };
	int pattern;

	memcpy(comm, input->sample->leader_comm, BPFPROF_COMM_LEN);
	pattern = judge(workers, &names);
	if (pattern < 0)
		return false;
	if (report && is_first(workers, &input->sample->task))
		report_worker(input->own_pid, &names, workers->patterns[pattern]);
	return true;
}
