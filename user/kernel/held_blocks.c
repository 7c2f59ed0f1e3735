// SPDX-License-Identifier: Apache-2.0
#include "kernel/held_blocks.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "kernel/session.h"
#include "bpfprof.skel.h"

#define BLOCKS_A_READ 4096

struct held_blocks {
	const struct session *session;
	struct bpfprof_alloc_control *control; /* the value of the map */
	uint64_t nr_dropped; /* blocks that were not wanted any more */
	struct bpfprof_block_key keys[BLOCKS_A_READ];
	struct bpfprof_block blocks[BLOCKS_A_READ];
};

int held_blocks_new(struct held_blocks **ret, struct session *session, uint64_t sample_bytes)
{
	struct held_blocks *held = calloc(1, sizeof(*held));
	void *control;

	if (!held)
		return -ENOMEM;
	held->session = session;
	control = mmap(NULL, sizeof(*held->control), PROT_READ | PROT_WRITE, MAP_SHARED,
		       bpf_map__fd(session->skel->maps.alloc_control), 0);
	if (control == MAP_FAILED) {
		int err = -errno;

		free(held);
		return err;
	}
	held->control = control;
	held->control->bytes = sample_bytes;
	*ret = held;
	return 0;
}

void held_blocks_free(struct held_blocks *held)
{
	if (!held)
		return;
	munmap(held->control, sizeof(*held->control));
	free(held);
}

int held_blocks_each(struct held_blocks *held, held_block_fn fn, void *arg)
{
	int fd = bpf_map__fd(held->session->skel->maps.held_blocks), err;
	uint32_t place, nr, i, total = 0;
	bool first = true;

	/* Blocks may be added meanwhile, so the number that is read has a limit. */
	do {
		nr = BLOCKS_A_READ;
		err = bpf_map_lookup_batch(fd, first ? NULL : &place, &place, held->keys,
					   held->blocks, &nr, NULL);
		err = err ? -errno : 0;
		if (err && err != -ENOENT)
			return err;
		first = false;
		total += nr;
		for (i = 0; i < nr; i++)
			if (!fn(arg, held->keys[i].pid, &held->blocks[i]) &&
			    !bpf_map_delete_elem(fd, &held->keys[i])) {
				held->nr_dropped++;
				__atomic_fetch_sub(&held->control->held_bytes,
						   held->blocks[i].bytes, __ATOMIC_RELAXED);
			}
	} while (!err && total < 2 * BPFPROF_MAX_HELD_BLOCKS);
	return 0;
}

bool held_blocks_are_many(const struct held_blocks *held)
{
	return held_blocks_count(held, ALLOC_COUNT_SAMPLED) - held->nr_dropped >
		       held_blocks_count(held, ALLOC_COUNT_FREED) +
			       held_blocks_count(held, ALLOC_COUNT_REPLACED) +
			       BPFPROF_HELD_BLOCKS_HIGH &&
	       held->control->bytes < BPFPROF_MAX_ALLOC_RATE;
}

uint64_t held_blocks_rate(const struct held_blocks *held)
{
	return held->control->bytes;
}

void held_blocks_double(struct held_blocks *held)
{
	__atomic_store_n(&held->control->bytes, 2 * held->control->bytes, __ATOMIC_RELAXED);
}

uint64_t held_blocks_bytes(const struct held_blocks *held)
{
	return __atomic_load_n(&held->control->held_bytes, __ATOMIC_RELAXED);
}

struct bpfprof_alloc_cost held_blocks_cost(const struct held_blocks *held, uint32_t pid)
{
	struct bpfprof_alloc_cost sum = { 0 };
	__cleanup(free_mem) struct bpfprof_alloc_cost *costs =
		calloc(held->session->nr_cpus, sizeof(*costs));
	uint32_t cpu;

	if (!costs ||
	    bpf_map_lookup_elem(bpf_map__fd(held->session->skel->maps.alloc_costs), &pid, costs))
		return sum;
	for (cpu = 0; cpu < held->session->nr_cpus; cpu++) {
		sum.calls += costs[cpu].calls;
		sum.returns += costs[cpu].returns;
		sum.stack_ns += costs[cpu].stack_ns;
	}
	return sum;
}

uint64_t held_blocks_last_id(const struct held_blocks *held)
{
	return __atomic_load_n(&held->control->last_id, __ATOMIC_RELAXED);
}

uint64_t held_blocks_count(const struct held_blocks *held, enum bpfprof_alloc_counter counter)
{
	return __atomic_load_n(&held->control->count[counter], __ATOMIC_RELAXED);
}
