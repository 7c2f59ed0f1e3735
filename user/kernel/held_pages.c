// SPDX-License-Identifier: Apache-2.0
#include "kernel/held_pages.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/deadline.h"
#include "base/hash_seed.h"
#include "kernel/iterate.h"
#include "kernel/session.h"
#include "bpfprof.skel.h"

#define PAGE_BYTES 4096.0
#define LOOKS_A_READ 1024
#define OLD_DEADLINE_MS 250
#define HASHES 4294967296.0 /* 2^32 */

struct held_pages {
	struct session *session;
	struct bpfprof_page_control *control; /* the value of the map */
	struct bpf_link *allocated, *freed;
	int looks_fd; /* link of the iterator */
};

void page_levels_fill(struct bpfprof_page_control *control, uint64_t sample_bytes)
{
	double bytes, p, rate = (double)sample_bytes;
	uint32_t level, order;

	for (level = 0; level < BPFPROF_PAGE_LEVELS; level++, rate *= 2)
		for (order = 0; order < BPFPROF_PAGE_ORDERS; order++) {
			bytes = PAGE_BYTES * (double)(1U << order);
			p = -expm1(-bytes / rate);
			control->levels[level].threshold[order] = (uint64_t)(p * HASHES + 0.5);
			control->levels[level].bytes[order] = (uint64_t)(bytes / p + 0.5);
		}
}

int held_pages_new(struct held_pages **ret, struct session *session, uint64_t sample_bytes)
{
	const struct bpfprof_bpf *skel = session->skel;
	struct held_pages *held = calloc(1, sizeof(*held));
	void *control;
	int err;

	if (!held)
		return -ENOMEM;
	held->session = session;
	held->looks_fd = iterate_link_map(bpf_program__fd(skel->progs.page_looks),
					  bpf_map__fd(skel->maps.held_pages));
	control = mmap(NULL, sizeof(*held->control), PROT_READ | PROT_WRITE, MAP_SHARED,
		       bpf_map__fd(skel->maps.page_control), 0);
	err = held->looks_fd < 0 ? held->looks_fd : control == MAP_FAILED ? -errno : 0;
	if (control != MAP_FAILED)
		held->control = control;
	if (err) {
		held_pages_free(held);
		return err;
	}
	held->control->seed = hash_seed();
	page_levels_fill(held->control, sample_bytes);
	*ret = held;
	return 0;
}

void held_pages_free(struct held_pages *held)
{
	if (!held)
		return;
	bpf_link__destroy(held->allocated);
	bpf_link__destroy(held->freed);
	if (held->control)
		munmap(held->control, sizeof(*held->control));
	if (held->looks_fd >= 0)
		close(held->looks_fd);
	free(held);
}

int held_pages_start(struct held_pages *held)
{
	const struct bpfprof_bpf *skel = held->session->skel;

	/* In this order, no page of the map is freed unseen. */
	held->freed = bpf_program__attach(skel->progs.page_freed);
	if (!held->freed)
		return -errno;
	held->allocated = bpf_program__attach(skel->progs.page_allocated);
	return held->allocated ? 0 : -errno;
}

bool held_pages_are_many(const struct held_pages *held)
{
	return __atomic_load_n(&held->control->level, __ATOMIC_RELAXED) != held->control->kept;
}

uint64_t held_pages_nr(const struct held_pages *held)
{
	return __atomic_load_n(&held->control->nr_held, __ATOMIC_RELAXED);
}

void held_pages_drop(struct held_pages *held, uint64_t page)
{
	if (!bpf_map_delete_elem(bpf_map__fd(held->session->skel->maps.held_pages), &page))
		__atomic_fetch_sub(&held->control->nr_held, 1, __ATOMIC_RELAXED);
}

/* Reports the page, or drops it. */
static void look_take(struct held_pages *held, const struct bpfprof_page_level *level,
		      const struct bpfprof_page_look *look, held_page_fn fn, void *arg)
{
	uint32_t order = look->order < BPFPROF_PAGE_ORDERS ? look->order : 0;
	struct held_page page = { .page = look->page,
				  .ts_ns = look->ts_ns,
				  .pid = look->pid,
				  .anon = look->use == PAGE_USE_ANON,
				  .copy = look->flags & BPFPROF_PAGE_COPY,
				  .bytes = level->bytes[order] };

	bool split = look->flags & BPFPROF_PAGE_SPLIT;

	/* Page cache may stay for ever, and would take all the room. */
	if (page_hash(held->control->seed, look->page) >= level->threshold[order] ||
	    (split ? !look->nr_left : look->use == PAGE_USE_OTHER || look->use == PAGE_USE_FILE)) {
		held_pages_drop(held, look->page);
		return;
	}
	page.pages = (page.bytes + (2048ULL << order)) / (4096ULL << order);
	if (split) {
		page.anon = true;
		page.bytes = page.bytes / (1U << order) * look->nr_left;
		page.pages = look->nr_left;
	}
	fn(arg, &page);
}

static int looks_read(struct held_pages *held, const struct bpfprof_page_level *level, int fd,
		      held_page_fn fn, void *arg)
{
	struct bpfprof_page_look looks[LOOKS_A_READ];
	size_t have = 0, i;
	ssize_t n;

	for (;;) {
		n = read(fd, (char *)looks + have, sizeof(looks) - have);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		have += (size_t)n;
		for (i = 0; i < have / sizeof(looks[0]); i++)
			look_take(held, level, &looks[i], fn, arg);
		have %= sizeof(looks[0]);
		memmove(looks, &looks[i], have);
	}
}

int held_pages_look(struct held_pages *held, held_page_fn fn, void *arg)
{
	struct bpfprof_page_control *control = held->control;
	uint32_t level = __atomic_load_n(&control->level, __ATOMIC_RELAXED);
	__cleanup(close_fd) int fd = bpf_iter_create(held->looks_fd);
	int err;

	if (fd < 0)
		return fd;
	err = looks_read(held, &control->levels[level % BPFPROF_PAGE_LEVELS], fd, fn, arg);
	if (!err) /* now all pages are of this level */
		__atomic_store_n(&control->kept, level, __ATOMIC_RELAXED);
	return err;
}

struct old_job {
	int prog_fd;
	uint32_t pid;
};

static long old_run(void *arg)
{
	const struct old_job *job = arg;
	__cleanup(close_fd) int fd = iterate_open(job->prog_fd, job->pid);
	char none;

	if (fd < 0)
		return fd;
	return read(fd, &none, 1) < 0 ? -errno : 0; /* one read runs the iterator to its end */
}

int held_pages_old(struct held_pages *held, struct deadline_runner *runner, uint32_t pid)
{
	struct old_job job = {
		.prog_fd = bpf_program__fd(held->session->skel->progs.old_mappings_read),
		.pid = pid,
	};

	/* Reading mappings waits for a lock of the process. */
	return (int)deadline_run(runner, deadline_process(pid), old_run, NULL, &job, sizeof(job),
				 OLD_DEADLINE_MS);
}

uint64_t held_pages_old_freed(const struct held_pages *held, uint32_t pid)
{
	uint64_t bytes;

	return bpf_map_lookup_elem(bpf_map__fd(held->session->skel->maps.old_freed), &pid, &bytes)
		       ? 0
		       : bytes;
}

void held_pages_forget(struct held_pages *held, uint32_t pid)
{
	bpf_map_delete_elem(bpf_map__fd(held->session->skel->maps.old_freed), &pid);
}

uint64_t held_pages_sample_bytes(const struct held_pages *held)
{
	return held->control->levels[held->control->kept % BPFPROF_PAGE_LEVELS].bytes[0];
}

uint64_t held_pages_count(const struct held_pages *held, enum bpfprof_page_counter counter)
{
	return __atomic_load_n(&held->control->count[counter], __ATOMIC_RELAXED);
}
