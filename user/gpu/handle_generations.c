// SPDX-License-Identifier: Apache-2.0
#include "gpu/handle_generations.h"

#include <errno.h>
#include <stdlib.h>

#include "base/process_map.h"
#include "profile/stats.h"

/* The number of ends that a process has. */
struct process_share {
	struct hash_node node;
	struct process_key key;
	uint32_t nr;
};

/* The ends of a handle's generations (the key has no function), or those of a counted key. */
struct ended {
	struct hash_node node;
	struct bpfprof_gpu_key key;
	struct handle_generations_end *ends; /* a handle has times here, another key has calls */
	uint32_t nr, cap;
};

struct handle_generations {
	struct hash_table all, shares;
	size_t nr;
	unsigned int share;
	uint64_t lost;
};

static struct bpfprof_gpu_key handle_key(uint32_t pid, uint64_t start_ns, uint64_t handle)
{
	return (struct bpfprof_gpu_key){ .start_ns = start_ns, .pid = pid, .handle = handle };
}

static struct ended *find(const struct handle_generations *generations,
			  const struct bpfprof_gpu_key *key)
{
	return hash_table_find(&generations->all, key);
}

/* Returns the entry with room for one more end. NULL: there is no room, which is counted. */
static struct ended *room(struct handle_generations *generations, const struct bpfprof_gpu_key *key)
{
	uint32_t most = HANDLE_GENERATIONS_MAX / generations->share;
	struct process_share *share = NULL;
	struct ended *ended = NULL;
	struct handle_generations_end *tmp;
	uint32_t cap;

	if (generations->nr < most)
		share = process_map_get(&generations->shares, key->pid, key->start_ns);
	if (share && share->nr < most / HANDLE_GENERATIONS_OF_ONE)
		ended = hash_table_get(&generations->all, key);
	if (ended && ended->nr == ended->cap) {
		cap = ended->cap ? 2 * ended->cap : 1;
		tmp = reallocarray(ended->ends, cap, sizeof(*tmp));
		if (tmp) {
			ended->ends = tmp;
			ended->cap = cap;
		}
	}
	if (!ended || ended->nr == ended->cap || ended->nr >= HANDLE_GENERATION_MAX) {
		generations->lost++;
		return NULL;
	}
	share->nr++;
	generations->nr++;
	return ended;
}

uint32_t handle_generations_end(struct handle_generations *generations, uint32_t pid,
				uint64_t start_ns, uint64_t handle, uint64_t ts_ns)
{
	const struct bpfprof_gpu_key key = handle_key(pid, start_ns, handle);
	struct ended *ended = room(generations, &key);

	if (!ended)
		return 0;
	ended->ends[ended->nr].calls = ts_ns;
	ended->ends[ended->nr].generation = ended->nr + 1;
	return ++ended->nr;
}

uint32_t handle_generations_key_end(struct handle_generations *generations,
				    const struct bpfprof_gpu_key *key, uint64_t calls)
{
	const struct bpfprof_gpu_key handle = handle_key(key->pid, key->start_ns, key->handle);
	const struct ended *of = find(generations, &handle);
	struct ended *ended = of && key->function ? room(generations, key) : NULL;

	if (!ended)
		return 0;
	ended->ends[ended->nr++] =
		(struct handle_generations_end){ .calls = calls, .generation = of->nr };
	return of->nr;
}

uint32_t handle_generations_at(const struct handle_generations *generations, uint32_t pid,
			       uint64_t start_ns, uint64_t handle, uint64_t ts_ns)
{
	const struct bpfprof_gpu_key key = handle_key(pid, start_ns, handle);
	const struct ended *ended = find(generations, &key);
	uint32_t i;

	for (i = 0; ended && i < ended->nr; i++)
		if (ts_ns < ended->ends[i].calls)
			return ended->ends[i].generation;
	return 0;
}

const struct handle_generations_end *
handle_generations_ends(const struct handle_generations *generations,
			const struct bpfprof_gpu_key *key, size_t *ret_nr)
{
	const struct ended *ended = find(generations, key);

	*ret_nr = ended ? ended->nr : 0;
	return ended ? ended->ends : NULL;
}

size_t handle_generations_nr(const struct handle_generations *generations)
{
	return generations->nr;
}

static void ended_free(struct handle_generations *generations, struct ended *ended)
{
	generations->nr -= ended->nr;
	free(ended->ends);
	hash_table_remove(&generations->all, ended);
}

void handle_generations_forget(struct handle_generations *generations,
			       bool (*over)(const void *arg, uint32_t pid, uint64_t start_ns),
			       const void *arg)
{
	struct process_share *share;
	struct ended *ended;

	hash_table_each(&generations->all, ended)
		if (over(arg, ended->key.pid, ended->key.start_ns))
			ended_free(generations, ended);
	hash_table_each(&generations->shares, share)
		if (over(arg, share->key.pid, share->key.start_ns))
			hash_table_remove(&generations->shares, share);
}

#define AT(field) offsetof(struct handle_generations, field)

const struct counter handle_generations_counters[] = {
	{ COUNTER_GPU, "kernel_handles_reused_no_room", AT(lost),
	  .help = "reused handles of kernels over the limit" },
	{ 0 },
};

void handle_generations_lost(const struct handle_generations *generations,
			     struct stats_reasons *dst)
{
	stats_add_rows(dst, handle_generations_counters, generations, true);
}

int handle_generations_new(struct handle_generations **ret)
{
	struct handle_generations *generations = calloc(1, sizeof(*generations));

	if (!generations)
		return -ENOMEM;
	generations->share = 1;
	hash_table_init(&generations->all, HANDLE_GENERATIONS_MAX, struct ended, key);
	hash_table_init(&generations->shares, HANDLE_GENERATIONS_MAX, struct process_share, key);
	*ret = generations;
	return 0;
}

void handle_generations_bound(struct handle_generations *generations, unsigned int share)
{
	generations->share = share;
}

static bool always(const void *arg, uint32_t pid, uint64_t start_ns)
{
	(void)arg;
	(void)pid;
	(void)start_ns;
	return true;
}

void handle_generations_free(struct handle_generations *generations)
{
	if (!generations)
		return;
	handle_generations_forget(generations, always, NULL);
	free(generations);
}
