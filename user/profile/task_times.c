// SPDX-License-Identifier: Apache-2.0
#include "profile/task_times.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "proc/calls.h"
#include "profile/task_calls.h"

#define PREFIX_LEN (sizeof(TITLE_PREFIX) - 1)

struct name {
	UT_hash_handle hh;
	uint64_t nr, total_ns, longest_ns;
	uint32_t longest_pid;
	bool longest_runs;
	uint64_t *kept; /* durations: the first TASK_TIMES_KEPT, then each of all equally likely */
	char title[];
};

struct task_times {
	struct task_calls *calls;
	struct name *names;
	uint64_t random;
	uint64_t nr_left_out; /* calls, beside the changes that calls left out */
};

/* xorshift: which calls are kept need not be secret. */
static uint64_t random_below(struct task_times *times, uint64_t limit)
{
	times->random ^= times->random << 13;
	times->random ^= times->random >> 7;
	times->random ^= times->random << 17;
	return times->random % limit;
}

static struct name *name_get(struct task_times *times, const char *title)
{
	struct name *name;
	size_t len;

	HASH_FIND_STR(times->names, title, name);
	if (name || HASH_COUNT(times->names) >= TASK_TIMES_MAX_NAMES)
		return name;
	len = strlen(title);
	name = calloc(1, sizeof(*name) + len + 1);
	if (!name)
		return NULL;
	memcpy(name->title, title, len);
	HASH_ADD_STR(times->names, title, name);
	return name;
}

static void name_add(struct task_times *times, struct name *name, const struct task_call *call)
{
	uint64_t ns = call->end_ns - call->begin_ns, at;

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
	name->longest_pid = call->own_pid;
	name->longest_runs = call->runs;
}

static void on_call(void *arg, const struct task_call *call)
{
	struct task_times *times = arg;
	struct name *name;

	if (!call->own)
		return;
	name = name_get(times, call->title);
	if (name)
		name_add(times, name, call);
	else
		times->nr_left_out++;
}

int task_times_new(struct task_times **ret)
{
	struct task_times *times = calloc(1, sizeof(*times));

	if (!times || task_calls_new(&times->calls, TASK_TIMES_MAX_WORKERS, on_call, times)) {
		free(times);
		return -ENOMEM;
	}
	times->random = 0x9e3779b97f4a7c15ULL;
	*ret = times;
	return 0;
}

void task_times_free(struct task_times *times)
{
	struct name *name, *next_name;

	if (!times)
		return;
	task_calls_free(times->calls);
	HASH_ITER(hh, times->names, name, next_name) {
		HASH_DEL(times->names, name);
		free(name->kept);
		free(name);
	}
	free(times);
}

bool task_times_see(struct task_times *times, const struct task_change *change)
{
	const struct name *name = name_get(times, change->title);

	task_calls_see(times->calls, change);
	return name && !calls_is_idle(change->title);
}

void task_times_lose(struct task_times *times, uint32_t pid, uint64_t start_ns, uint32_t lost)
{
	task_calls_lose(times->calls, pid, start_ns, lost);
}

void task_times_exit(struct task_times *times, uint32_t pid, uint64_t start_ns, uint64_t ts_ns)
{
	task_calls_exit(times->calls, pid, start_ns, ts_ns);
}

void task_times_close(struct task_times *times, uint64_t now_ns)
{
	task_calls_close(times->calls, now_ns);
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
	return times->nr_left_out + task_calls_nr_left_out(times->calls);
}
