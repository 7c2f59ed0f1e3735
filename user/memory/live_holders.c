// SPDX-License-Identifier: Apache-2.0
#include "memory/live_holders.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/strtab.h"
#include "base/time.h"
#include "capture/sampler.h"
#include "memory/holders.h"
#include "memory/monitor.h"
#include "proc/cgroup_limits.h"
#include "profile/aggregate.h"
#include "profile/profile.h"
#include "profile/stats.h"
#include "profile/symbolize.h"

#define STEP_NS (60 * NS_PER_SECOND / LIVE_STEPS)
#define NAMES_BYTES (1U << 20)
#define NAME_SHARE 100 /* the part of the time that names take */
#define NAME_SAVED_NS NS_PER_SECOND
#define MAX_NEW 512 /* stacks that are named at once */
#define MAX_LIMITS 16 /* processes whose limits are read */
#define MAY_CHANGE (1U << 31) /* of a name that has Python code without one */
#define TAKEN UINT32_MAX
#define NO_NAME "[no name yet]"
#define MORE "[more functions]"

int live_holders_init(struct live_holders *live, struct memory_monitor *monitor)
{
	*live = (struct live_holders){ .monitor = monitor };
	live->list = calloc(LIVE_HOLDERS_MAX, sizeof(*live->list));
	if (!live->list || strtab_new(&live->names, NAMES_BYTES))
		return -ENOMEM;
	strtab_add(live->names, NO_NAME);
	strtab_add(live->names, MORE);
	return 0;
}

void live_holders_fini(struct live_holders *live)
{
	strtab_free(live->names);
	free(live->list);
	free(live->of_stack);
	*live = (struct live_holders){ 0 };
}

static uint32_t name_add(struct live_holders *live, const char *text)
{
	uint32_t id = strtab_add(live->names, text);

	return id < LIVE_HOLDERS_MAX ? id : strtab_add(live->names, MORE);
}

static void bytes_add(struct live_holders *live, uint32_t name, int64_t bytes)
{
	struct live_holder *holder = &live->list[name];

	holder->name = name;
	holder->bytes += bytes;
	if (name >= live->nr)
		live->nr = name + 1;
}

/* A name of Python code that is not known yet arrives later, under another number. */
static bool is_passing(const struct aggregate_view *view, uint32_t stack)
{
	uint32_t at;

	stack_each(at, view->callers, stack)
		if (aggregate_frame_kind(view->frames[at]) == BPFPROF_FRAME_PYTHON &&
		    view->frames[at] & (BPFPROF_CODE_ID_RAW << BPFPROF_LASTI_BITS))
			return true;
	return false;
}

/* Some stacks of an aggregate, each as a sample. They share no callers here. */
struct stack_part {
	const struct aggregate_view *all;
	struct aggregate_sample samples[MAX_NEW];
	uint32_t of[MAX_NEW]; /* their numbers in the aggregate */
	uint32_t old[MAX_NEW]; /* the names so far */
	size_t nr, nr_stacks;
	uint64_t *frames;
	uint32_t *callers;
};

/* Copies a stack; its number. */
static uint32_t stack_copy(struct stack_part *part, uint32_t stack)
{
	uint32_t end = (uint32_t)(part->nr_stacks + stack_depth(part->all->callers, stack));
	uint32_t at, to = end;

	stack_each(at, part->all->callers, stack) {
		part->frames[--to] = part->all->frames[at];
		part->callers[to] = to - 1;
	}
	if (end == to)
		return 0;
	part->callers[to] = 0;
	part->nr_stacks = end;
	return end - 1;
}

static int part_fill(struct stack_part *part, struct live_holders *live)
{
	const struct memory_answer *answer = &live->monitor->last;
	const struct held_row *row;
	size_t i, nr_frames = 1; /* that of the empty stack */
	uint32_t *name;

	for (i = 0; i < answer->nr_rows && part->nr < MAX_NEW; i++) {
		row = &answer->rows[(live->next_row + i) % answer->nr_rows];
		if (row->at.stack >= part->all->nr_stacks)
			continue;
		name = &live->of_stack[row->at.stack];
		if (*name == TAKEN || (*name && !(*name & MAY_CHANGE)))
			continue;
		part->old[part->nr] = *name;
		*name = TAKEN;
		part->of[part->nr] = row->at.stack;
		part->samples[part->nr++].process = row->at.process;
		nr_frames += stack_depth(part->all->callers, row->at.stack);
	}
	live->next_row = answer->nr_rows ? (live->next_row + i) % answer->nr_rows : 0;
	for (i = 0; i < part->nr; i++)
		live->of_stack[part->of[i]] = part->old[i];
	part->nr_stacks = 1;
	part->frames = calloc(nr_frames, sizeof(*part->frames));
	part->callers = calloc(nr_frames, sizeof(*part->callers));
	if (!part->frames || !part->callers)
		return -ENOMEM;
	for (i = 0; i < part->nr; i++)
		part->samples[i].stack = stack_copy(part, part->of[i]);
	return 0;
}

static int part_name(struct stack_part *part, struct live_holders *live)
{
	struct sampler *sampler = live->monitor->sampler;
	const struct symbolize_options options = { .kallsyms = "/proc/kallsyms",
						   .codes = sampler->codes,
						   .runner = sampler->reader.runner,
						   .now_ns = time_monotonic_ns() };
	struct aggregate_view view = *part->all;
	struct stats_reasons files = { 0 };
	struct profile profile;
	struct holders holders;
	int hidden = 0, err;
	uint32_t name;
	size_t i;

	view.samples = part->samples;
	view.nr_samples = part->nr;
	view.nr_call_samples = 0;
	view.frames = part->frames;
	view.callers = part->callers;
	view.nr_stacks = part->nr_stacks;
	err = symbolize(&profile, &view, sampler->reader.images, &options, &files, &hidden);
	if (err)
		return err;
	err = holders_new(&holders, &profile);
	for (i = 0; i < part->nr && !err; i++) {
		name = name_add(live, strtab_get(holders.names,
						 holders_name(&holders, part->samples[i].stack)));
		if (is_passing(&view, part->samples[i].stack))
			name |= MAY_CHANGE;
		live->of_stack[part->of[i]] = name;
	}
	holders_fini(&holders);
	profile_fini(&profile);
	return err;
}

/* Names stacks that have none, if it is time for that. */
static int stacks_name(struct live_holders *live, const struct aggregate_view *view)
{
	__cleanup(free_mem) struct stack_part *part = NULL;
	uint64_t now_ns = time_monotonic_ns(), cpu_ns = time_thread_cpu_ns();
	int err;

	if (!budget_allows(&live->budget, NAME_SHARE, NAME_SAVED_NS, now_ns))
		return 0;
	part = calloc(1, sizeof(*part));
	if (!part)
		return -ENOMEM;
	part->all = view;
	err = part_fill(part, live);
	if (!err && part->nr)
		err = part_name(part, live);
	free(part->frames);
	free(part->callers);
	budget_spend(&live->budget, time_thread_cpu_ns() - cpu_ns);
	return err;
}

static int stacks_grow(struct live_holders *live, size_t nr)
{
	size_t cap = nr + nr / 2 + 1024;
	uint32_t *of_stack;

	if (nr <= live->cap_stacks)
		return 0;
	of_stack = reallocarray(live->of_stack, cap, sizeof(*of_stack));
	if (!of_stack)
		return -ENOMEM;
	memset(of_stack + live->cap_stacks, 0, (cap - live->cap_stacks) * sizeof(*of_stack));
	live->of_stack = of_stack;
	live->cap_stacks = cap;
	return 0;
}

static void accounts_add(struct live_holders *live)
{
	const struct memory_answer *answer = &live->monitor->last;
	struct memory_label labels[MEMORY_NR_LABELS];
	size_t i, k;

	live->total_bytes = answer->anon_bytes;
	live->swap_bytes = answer->swap_bytes;
	live->file_bytes = live->shared_bytes = 0;
	live->nr_processes = answer->nr_accounts;
	for (i = 0; i < answer->nr_accounts; i++) {
		live->file_bytes += answer->accounts[i].rss.file_bytes;
		live->shared_bytes += answer->accounts[i].rss.shared_bytes;
		memory_account_labels(&answer->accounts[i], labels);
		for (k = 0; k < MEMORY_NR_LABELS; k++)
			if (labels[k].bytes)
				bytes_add(live, name_add(live, labels[k].label), labels[k].bytes);
	}
}

/* Several processes may be in one group. The limits of the first processes are read. */
static void limits_read(struct live_holders *live)
{
	const struct memory_answer *answer = &live->monitor->last;
	const char *root = live->monitor->sampler->options->host_root ?: "";
	char last[CGROUP_DIR_MAX] = "";
	struct cgroup_limits limits;
	struct cgroup_memory memory;
	size_t i;

	live->nr_groups = 0;
	live->one_group = answer->nr_accounts && answer->nr_accounts <= MAX_LIMITS;
	live->limit_bytes = live->used_bytes = 0;
	for (i = 0; i < answer->nr_accounts && i < MAX_LIMITS; i++) {
		if (cgroup_limits_find(&limits, root, (pid_t)answer->accounts[i].own_pid))
			continue; /* it has ended */
		if (*limits.memory && !strcmp(limits.memory, last))
			continue;
		live->one_group &= !live->nr_groups;
		memcpy(last, limits.memory, sizeof(last));
		if (!*last || cgroup_memory_read(&memory, last) || !memory.max_bytes) {
			live->one_group = false;
			continue;
		}
		if (memory.used_bytes > memory.max_bytes)
			memory.used_bytes = memory.max_bytes;
		if (live->nr_groups++ &&
		    memory.max_bytes - memory.used_bytes >= live->limit_bytes - live->used_bytes)
			continue;
		live->limit_bytes = memory.max_bytes;
		live->used_bytes = memory.used_bytes;
	}
	live->one_group &= live->nr_groups == 1;
}

/* A step is over, or the first update has been made. */
static void step_end(struct live_holders *live, uint64_t now_ns)
{
	size_t at = live->nr_past++ % LIVE_STEPS, i;

	live->past_ns[at] = live->ns;
	live->past_total[at] = live->total_bytes;
	for (i = 0; i < live->nr; i++)
		live->list[i].past[at] = live->list[i].bytes;
	live->next_ns = now_ns + STEP_NS;
}

/* The oldest end of a step that is kept. */
static size_t oldest(const struct live_holders *live)
{
	return live->nr_past < LIVE_STEPS ? 0 : live->nr_past % LIVE_STEPS;
}

int live_holders_update(struct live_holders *live, uint64_t now_ns)
{
	const struct memory_answer *answer = &live->monitor->last;
	struct aggregate_view view;
	uint32_t name;
	size_t i;
	int err;

	aggregate_view_get(live->monitor->aggregate, &view);
	err = stacks_grow(live, view.nr_stacks);
	/* Without names, or with the ones so far, the figures are right, too. */
	if (!err && stacks_name(live, &view))
		log_debug("memory: no room for names");
	for (i = 0; i < live->nr; i++)
		live->list[i].bytes = 0;
	for (i = 0; i < answer->nr_rows && !err; i++) {
		name = answer->rows[i].at.stack < view.nr_stacks
			       ? live->of_stack[answer->rows[i].at.stack] & ~MAY_CHANGE
			       : 0;
		bytes_add(live, name ? name : strtab_add(live->names, NO_NAME),
			  (int64_t)answer->rows[i].bytes);
	}
	accounts_add(live);
	limits_read(live);
	live->ns = answer->ns;
	if (now_ns >= live->next_ns && answer->ns)
		step_end(live, now_ns);
	return err;
}

int64_t live_holder_before(const struct live_holders *live, const struct live_holder *holder)
{
	return live->nr_past ? holder->past[oldest(live)] : holder->bytes;
}

double live_holders_slope(const struct live_holders *live, uint64_t *ret_ns)
{
	size_t at = oldest(live);

	*ret_ns = live->nr_past ? live->ns - live->past_ns[at] : 0;
	if (!*ret_ns)
		return 0;
	return ((double)live->total_bytes - (double)live->past_total[at]) * 60e9 / (double)*ret_ns;
}
