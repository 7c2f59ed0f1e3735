// SPDX-License-Identifier: Apache-2.0
#include "profile/task_times.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "proc/calls.h"

#define PREFIX_LEN (sizeof(TITLE_PREFIX) - 1)

struct name {
	UT_hash_handle hh;
	char title[TITLE_MAX + 1];
	bool step; /* a call of the program's own */
	uint64_t nr, total_ns, longest_ns;
	uint32_t longest_pid;
	bool longest_runs;
	uint64_t *kept; /* durations: the first TASK_TIMES_KEPT, then each of all equally likely */
};

struct worker_key {
	uint64_t start_ns;
	uint32_t pid;
	uint32_t pad;
};

struct worker {
	UT_hash_handle hh;
	struct worker_key key;
	uint32_t own_pid;
	struct calls calls;
	struct name *last; /* the title that it had last */
	struct name *open; /* the call that it is in, if its begin was seen */
	uint64_t begin_ns;
	bool in_threads; /* its calls overlap: the one title of the process does not tell */
};

struct task_times {
	struct name *names;
	struct worker *workers;
	uint64_t random;
	uint64_t nr_left_out;
};

int task_times_new(struct task_times **ret)
{
	struct task_times *times = calloc(1, sizeof(*times));

	if (!times)
		return -ENOMEM;
	times->random = 0x9e3779b97f4a7c15ULL;
	*ret = times;
	return 0;
}

void task_times_free(struct task_times *times)
{
	struct worker *worker, *next_worker;
	struct name *name, *next_name;

	if (!times)
		return;
	HASH_ITER(hh, times->workers, worker, next_worker) {
		HASH_DEL(times->workers, worker);
		free(worker);
	}
	HASH_ITER(hh, times->names, name, next_name) {
		HASH_DEL(times->names, name);
		free(name->kept);
		free(name);
	}
	free(times);
}

/* xorshift: which calls are kept need not be secret. */
static uint64_t random_below(struct task_times *times, uint64_t limit)
{
	times->random ^= times->random << 13;
	times->random ^= times->random >> 7;
	times->random ^= times->random << 17;
	return times->random % limit;
}

static void name_add(struct task_times *times, struct name *name, const struct worker *worker,
		     uint64_t end_ns, bool runs)
{
	uint64_t ns = end_ns > worker->begin_ns ? end_ns - worker->begin_ns : 0, at;

	if (!name->kept)
		name->kept = malloc(TASK_TIMES_KEPT * sizeof(*name->kept));
	if (!name->kept) {
		times->nr_left_out++;
		return;
	}
	at = name->nr < TASK_TIMES_KEPT ? name->nr : random_below(times, name->nr + 1);
	if (at < TASK_TIMES_KEPT)
		name->kept[at] = ns;
	name->nr++;
	name->total_ns += ns;
	if (ns < name->longest_ns)
		return;
	name->longest_ns = ns;
	name->longest_pid = worker->own_pid;
	name->longest_runs = runs;
}

static void worker_end(struct task_times *times, struct worker *worker, uint64_t ts_ns, bool runs)
{
	if (worker->open)
		name_add(times, worker->open, worker, ts_ns, runs);
	worker->open = NULL;
}

static struct name *name_get(struct task_times *times, const char *title, bool *ret_new)
{
	struct name *name;

	HASH_FIND_STR(times->names, title, name);
	*ret_new = !name;
	if (name || HASH_COUNT(times->names) >= TASK_TIMES_MAX_NAMES)
		return name;
	name = calloc(1, sizeof(*name));
	if (!name)
		return NULL;
	strncpy(name->title, title, sizeof(name->title) - 1);
	name->step = !calls_is_idle(title) && calls_is_step(title);
	HASH_ADD_STR(times->names, title, name);
	return name;
}

static struct worker *worker_find(struct task_times *times, uint32_t pid, uint64_t start_ns)
{
	struct worker_key key = { .start_ns = start_ns, .pid = pid };
	struct worker *worker;

	HASH_FIND(hh, times->workers, &key, sizeof(key), worker);
	return worker;
}

static struct worker *worker_get(struct task_times *times, const struct task_change *change)
{
	struct worker *worker = worker_find(times, change->pid, change->start_ns);

	if (worker || HASH_COUNT(times->workers) >= TASK_TIMES_MAX_WORKERS)
		return worker;
	worker = calloc(1, sizeof(*worker));
	if (!worker)
		return NULL;
	worker->key.start_ns = change->start_ns;
	worker->key.pid = change->pid;
	worker->own_pid = change->own_pid;
	HASH_ADD(hh, times->workers, key, sizeof(worker->key), worker);
	return worker;
}

enum task_news task_times_see(struct task_times *times, const struct task_change *change)
{
	struct worker *worker = worker_get(times, change);
	bool is_new;
	struct name *name = name_get(times, change->title, &is_new);

	if (worker && !change->main_thread) {
		worker->in_threads = true;
		worker->open = NULL;
	}
	if (!worker || !name) {
		times->nr_left_out++;
		if (worker)
			worker_end(times, worker, change->ts_ns, false);
		return name ? TASK_TITLE_KNOWN : TASK_TITLE_USELESS;
	}
	/* The same again: a thread got a name, nothing else. */
	if (!worker->in_threads && (change->lost || worker->last != name)) {
		worker->last = name;
		if (change->lost) { /* whatever it was in has ended at a time that nobody knows */
			worker->open = NULL;
			calls_lose(&worker->calls);
			times->nr_left_out += change->lost;
		}
		calls_see(&worker->calls, change->title, false, change->old_comm);
		worker_end(times, worker, change->ts_ns, false);
		if (worker->calls.state == CALLS_CALL && name->step) {
			worker->open = name;
			worker->begin_ns = change->ts_ns;
		}
	}
	if (!is_new)
		return TASK_TITLE_KNOWN;
	return calls_is_idle(change->title) ? TASK_TITLE_USELESS : TASK_TITLE_NEW;
}

void task_times_exit(struct task_times *times, uint32_t pid, uint64_t start_ns, uint64_t ts_ns)
{
	struct worker *worker = worker_find(times, pid, start_ns);

	if (!worker)
		return;
	worker_end(times, worker, ts_ns, false);
	HASH_DEL(times->workers, worker);
	free(worker);
}

void task_times_close(struct task_times *times, uint64_t now_ns)
{
	struct worker *worker;

	for (worker = times->workers; worker; worker = worker->hh.next)
		worker_end(times, worker, now_ns, true);
}

static int compare_ns(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static int compare_total(const void *a, const void *b)
{
	const struct task_time *x = a, *y = b;

	if (x->total_ns != y->total_ns)
		return x->total_ns < y->total_ns ? 1 : -1;
	return strcmp(x->name, y->name);
}

/* The lower of two in the middle: of one long call and one short one the short one. */
static uint64_t median(uint64_t *kept, size_t nr)
{
	qsort(kept, nr, sizeof(*kept), compare_ns);
	return kept[(nr - 1) / 2];
}

struct task_time *task_times_list(const struct task_times *times, size_t *ret_nr)
{
	struct task_time *list = calloc(HASH_COUNT(times->names) + 1, sizeof(*list));
	struct name *name;
	size_t nr = 0;

	*ret_nr = 0;
	if (!list)
		return NULL;
	for (name = times->names; name; name = name->hh.next) {
		if (!name->nr)
			continue;
		list[nr++] = (struct task_time){
			.name = name->title + PREFIX_LEN,
			.nr = name->nr,
			.total_ns = name->total_ns,
			.median_ns =
				median(name->kept, name->nr < TASK_TIMES_KEPT ? (size_t)name->nr
									      : TASK_TIMES_KEPT),
			.longest_ns = name->longest_ns,
			.longest_pid = name->longest_pid,
			.longest_runs = name->longest_runs,
		};
	}
	qsort(list, nr, sizeof(*list), compare_total);
	*ret_nr = nr;
	return list;
}

uint64_t task_times_nr_left_out(const struct task_times *times)
{
	return times->nr_left_out;
}
