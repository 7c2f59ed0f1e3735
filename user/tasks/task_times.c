// SPDX-License-Identifier: Apache-2.0
#include "tasks/task_times.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "ray/calls.h"
#include "tasks/task_calls.h"

#define PREFIX_LEN (sizeof(TITLE_PREFIX) - 1)

/*
 * Names that differ in numbers that functions may have are separate here, and joined in the list.
 */
struct name {
	UT_hash_handle hh;
	uint64_t nr, total_ns, longest_ns;
	uint32_t longest_pid;
	bool longest_runs;
	bool several; /* there are several titles */
	uint64_t *kept; /* durations: the first TASK_TIMES_KEPT, then a random sample of all */
	char *title; /* title of the longest call; before its end, the first title */
	char group[];
};

struct task_times {
	struct task_calls *calls;
	struct name *names;
	uint64_t random;
	/* Calls without room; the changes that were dropped are counted in calls. */
	uint64_t nr_left_out;
};

/* xorshift: the choice of calls need not be secret. */
static uint64_t random_below(struct task_times *times, uint64_t limit)
{
	times->random ^= times->random << 13;
	times->random ^= times->random >> 7;
	times->random ^= times->random << 17;
	return times->random % limit;
}

static struct name *name_get(struct task_times *times, const char *title)
{
	char group[TITLE_MAX + 1];
	struct name *name;
	size_t len;

	task_group_text(group, sizeof(group), title, TASK_NUMBERS_APART);
	HASH_FIND_STR(times->names, group, name);
	if (name || HASH_COUNT(times->names) >= TASK_TIMES_MAX_NAMES)
		return name;
	len = strlen(group);
	name = calloc(1, sizeof(*name) + len + 1);
	if (!name)
		return NULL;
	memcpy(name->group, group, len);
	name->title = strdup(title);
	if (!name->title) {
		free(name);
		return NULL;
	}
	HASH_ADD_STR(times->names, group, name);
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
	if (name->nr > 1 && strcmp(name->title, call->title) != 0)
		name->several = true;
	if (ns < name->longest_ns || title_keep(&name->title, call->title, SIZE_MAX))
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
		free(name->title);
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

/* A duration, and the number of calls that it stands for. */
struct kept {
	uint64_t ns;
	double calls;
};

static int compare_ns(const void *a, const void *b)
{
	const struct kept *x = a, *y = b;

	return x->ns < y->ns ? -1 : x->ns > y->ns;
}

static int compare_total(const void *a, const void *b)
{
	const struct task_time *x = a, *y = b;

	if (x->total_ns != y->total_ns)
		return x->total_ns < y->total_ns ? 1 : -1;
	return strcmp(x->name, y->name);
}

/* The lower one of two in the middle: of a long and a short call, the short one. */
static uint64_t median(struct kept *kept, size_t nr, uint64_t nr_calls)
{
	double before = 0;
	size_t i;

	qsort(kept, nr, sizeof(*kept), compare_ns);
	for (i = 0; i + 1 < nr; i++) {
		before += kept[i].calls;
		if (before > (double)(nr_calls - 1) / 2)
			break;
	}
	return kept[i].ns;
}

static size_t kept_nr(const struct name *name)
{
	return name->nr < TASK_TIMES_KEPT ? (size_t)name->nr : TASK_TIMES_KEPT;
}

/* Joins a group. */
static struct task_time joined(const struct task_member *members, struct name *const *names,
			       struct kept *kept)
{
	struct task_time time = { .numbers = members->numbers };
	const struct name *name;
	size_t i, k, nr = 0;

	for (i = 0; i < members->nr; i++) {
		name = names[members[i].index];
		if (name->several && time.numbers == TASK_NUMBERS_NONE)
			time.numbers = TASK_NUMBERS_APART;
		time.nr += name->nr;
		time.total_ns += name->total_ns;
		for (k = 0; k < kept_nr(name); k++)
			kept[nr++] = (struct kept){ name->kept[k],
						    (double)name->nr / (double)kept_nr(name) };
		if (time.name && name->longest_ns < time.longest_ns)
			continue;
		time.name = name->title + PREFIX_LEN;
		time.longest_ns = name->longest_ns;
		time.longest_pid = name->longest_pid;
		time.longest_runs = name->longest_runs;
	}
	time.median_ns = median(kept, nr, time.nr);
	return time;
}

struct task_time *task_times_list(const struct task_times *times, size_t *ret_nr)
{
	size_t cap = HASH_COUNT(times->names) + 1, nr = 0, nr_kept = 0, i;
	struct task_time *list = calloc(cap, sizeof(*list));
	struct task_member *members = calloc(cap, sizeof(*members));
	struct name **names = calloc(cap, sizeof(struct name *)), *name;
	struct kept *kept = NULL;

	*ret_nr = 0;
	for (name = names && members ? times->names : NULL; name; name = name->hh.next) {
		if (!name->nr)
			continue;
		names[nr] = name;
		members[nr] = (struct task_member){ .name = name->title + PREFIX_LEN, .index = nr };
		nr++;
		nr_kept += kept_nr(name);
	}
	kept = calloc(nr_kept + 1, sizeof(*kept));
	if (list && names && members && kept) {
		task_groups_find(members, nr);
		for (i = 0; i < nr; i += members[i].nr)
			list[(*ret_nr)++] = joined(&members[i], names, kept);
		qsort(list, *ret_nr, sizeof(*list), compare_total);
	} else {
		free(list);
		list = NULL;
	}
	free(members);
	free(names);
	free(kept);
	return list;
}

uint64_t task_times_nr_left_out(const struct task_times *times)
{
	return times->nr_left_out + task_calls_nr_left_out(times->calls);
}
