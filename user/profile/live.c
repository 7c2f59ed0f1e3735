// SPDX-License-Identifier: Apache-2.0
#include "profile/live.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/sorted.h"
#include "base/strtab.h"
#include "proc/title.h"
#include "profile/aggregate.h"
#include "profile/frame_names.h"
#include "profile/idle.h"
#include "profile/idle_names.h"
#include "profile/live_rows.h"
#include "profile/profile.h"

#define MAX_TEXT_BYTES (4U << 20)
#define ALL_VIEWS ((1U << LIVE_NR_VIEWS) - 1)
#define MAX_TEXTS (2 * LIVE_MAX_ROWS) /* with more texts, those of evicted rows are dropped */
#define NO_STACK "[no stack]"
#define NO_NAME "[no name]"

/* Is a thread that sleeps with this stack idle? */
enum verdict { VERDICT_UNKNOWN, VERDICT_NOT_IDLE, VERDICT_IDLE };

struct live {
	bool fold_idle; /* idle threads are one row */
	struct live_rows rows;
	struct live_process *processes;
	size_t nr_processes;
	struct strtab *texts;
	struct frame_names names;
	struct live_use now, ever;
	struct live_counters counters;
};

int live_new(struct live **ret)
{
	struct live *live = calloc(1, sizeof(*live));

	if (!live)
		return -ENOMEM;
	live_rows_init(&live->rows);
	live->processes = calloc(LIVE_MAX_PROCESSES, sizeof(*live->processes));
	if (!live->processes || frame_names_init(&live->names) ||
	    strtab_new(&live->texts, MAX_TEXT_BYTES)) {
		live_free(live);
		return -ENOMEM;
	}
	*ret = live;
	return 0;
}

void live_free(struct live *live)
{
	if (!live)
		return;
	strtab_free(live->texts);
	live_rows_fini(&live->rows);
	frame_names_fini(&live->names);
	free(live->processes);
	free(live);
}

void live_idle(struct live *live)
{
	live->fold_idle = true;
}

void live_named(struct live *live, uint64_t frame, const struct live_name *name)
{
	struct frame_name found = { .function = strtab_add(live->texts, name->function),
				    .line = strtab_add(live->texts, name->line),
				    .passing = name->passing ? live->counters.nr_intervals : 0 };

	frame_names_add(&live->names, frame, &found);
	if (!name->passing && found.function == found.line && name->start < name->end)
		frame_names_add_range(&live->names, name->start, name->end, found.function);
}

/* Functions for processes. */

/*
 * Evicts the half of the processes that have not run for the longest time. Their rows and all names
 * are dropped, too: frames of code without a file are numbered by process.
 */
static void processes_evict(struct live *live)
{
	static const struct live_process none;
	uint64_t *last = malloc(live->nr_processes * sizeof(*last));
	uint64_t median;
	size_t i;

	if (!last)
		return;
	for (i = 0; i < live->nr_processes; i++)
		last[i] = live->processes[i].last;
	qsort(last, live->nr_processes, sizeof(*last), sorted_by_u64);
	median = last[live->nr_processes / 2];
	free(last);
	for (i = 0; i < live->nr_processes; i++) {
		/* Processes of this interval stay: their samples are being counted. */
		if (live->processes[i].last > median ||
		    live->processes[i].last == live->counters.nr_intervals)
			continue;
		live->processes[i] = none;
		live->counters.processes_evicted++;
	}
	live_rows_drop_orphans(&live->rows, live->processes);
	frame_names_forget(&live->names);
}

static int64_t process_find(const struct live *live, const struct aggregate_process *key,
			    int64_t *ret_free)
{
	size_t i;

	*ret_free = live->nr_processes < LIVE_MAX_PROCESSES ? (int64_t)live->nr_processes : -1;
	for (i = 0; i < live->nr_processes; i++) {
		if (!live->processes[i].kernel_pid)
			*ret_free = (int64_t)i;
		else if (live->processes[i].kernel_pid == key->pid &&
			 live->processes[i].start_ns == key->start_ns)
			return (int64_t)i;
	}
	return -1;
}

static void pod_fill(struct live_process *process, const struct aggregate_view *view,
		     const struct aggregate_container *container)
{
	uint32_t name = container->name ? container->name : container->id;

	if (container->pod)
		snprintf(process->pod, sizeof(process->pod), "%s/%s",
			 strtab_get(view->strings, container->namespace),
			 strtab_get(view->strings, container->pod));
	else
		snprintf(process->pod, sizeof(process->pod), "%s", strtab_get(view->strings, name));
}

/* The index of the process, or -1 if there is no room. */
static int64_t process_get(struct live *live, const struct aggregate_view *view,
			   const struct aggregate_process *from)
{
	struct live_process *process;
	int64_t at, place;

	at = process_find(live, from, &place);
	if (at < 0 && place < 0) {
		processes_evict(live);
		at = process_find(live, from, &place);
	}
	if (at < 0)
		at = place;
	if (at < 0)
		return -1;
	if ((size_t)at == live->nr_processes)
		live->nr_processes++;
	process = &live->processes[at];
	process->kernel_pid = from->pid;
	process->pid = from->agent_pid;
	process->start_ns = from->start_ns;
	if (from->title)
		title_cut(process->comm, sizeof(process->comm), view->titles + from->title,
			  strlen(view->titles + from->title));
	else
		snprintf(process->comm, sizeof(process->comm), "%.*s", BPFPROF_COMM_LEN - 1,
			 from->comm);
	if (from->container)
		pod_fill(process, view, &view->containers[from->container - 1]);
	process->last = live->counters.nr_intervals;
	return at;
}

/* Drops the texts of evicted rows. */
static void texts_renew(struct live *live)
{
	struct strtab *texts;
	size_t i;

	frame_names_forget(&live->names);
	if (strtab_new(&texts, MAX_TEXT_BYTES))
		return;
	for (i = 0; i < live->rows.nr; i++)
		live->rows.list[i].text =
			strtab_add(texts, strtab_get(live->texts, live->rows.list[i].text));
	strtab_free(live->texts);
	live->texts = texts;
	live_rows_reindex(&live->rows);
}

/* Functions that count. */

/* The views that show a frame of each kind if a stack has these frames. */
static void stack_views(const uint64_t *frames, size_t nr, uint32_t views[16])
{
	bool python = false, native = false;
	size_t i;

	for (i = 0; i < nr; i++) {
		python |= aggregate_frame_kind(frames[i]) == BPFPROF_FRAME_PYTHON;
		native |= aggregate_frame_kind(frames[i]) == BPFPROF_FRAME_NATIVE ||
			  aggregate_frame_kind(frames[i]) == BPFPROF_FRAME_NATIVE_VA;
	}
	memset(views, 0, 16 * sizeof(*views));
	for (i = 0; i < LIVE_NR_VIEWS; i++) {
		views[BPFPROF_FRAME_PYTHON] |= 1U << i;
		if (!python || i & LIVE_NATIVE)
			views[BPFPROF_FRAME_NATIVE] |= 1U << i;
		if ((!python && !native) || i & LIVE_KERNEL)
			views[BPFPROF_FRAME_KERNEL] |= 1U << i;
	}
	views[BPFPROF_FRAME_NATIVE_VA] = views[BPFPROF_FRAME_NATIVE];
	views[BPFPROF_FRAME_LABEL] = ALL_VIEWS;
}

/* Counts a text that is a row of functions and of lines, in all views. */
static void text_count(struct live *live, uint32_t process, const char *text, uint32_t leaf_views,
		       uint64_t ns)
{
	const struct live_amount amount = { .views = ALL_VIEWS,
					    .leaf_views = leaf_views,
					    .ns = ns };

	live_rows_count(&live->rows, process, strtab_add(live->texts, text),
			LIVE_FUNCTION | LIVE_LINE, &amount);
}

static void frame_count(struct live *live, uint32_t process, uint64_t frame,
			const struct live_amount *amount)
{
	struct frame_name name;

	if (!frame_names_find(&live->names, frame, live->counters.nr_intervals, &name))
		name.function = name.line = strtab_add(live->texts, NO_NAME);
	/* Python frames always have two rows, so that a frame without a line gets no row of its own. */
	if (name.function == name.line && aggregate_frame_kind(frame) != BPFPROF_FRAME_PYTHON) {
		live_rows_count(&live->rows, process, name.line, LIVE_FUNCTION | LIVE_LINE, amount);
		return;
	}
	live_rows_count(&live->rows, process, name.function, LIVE_FUNCTION, amount);
	live_rows_count(&live->rows, process, name.line, LIVE_LINE, amount);
}

static void stack_count(struct live *live, uint32_t process, const uint64_t *frames, size_t nr,
			uint64_t ns, const struct strtab *labels)
{
	uint32_t views[16], leaf = ALL_VIEWS;
	struct live_amount amount = { .ns = ns };
	size_t i;

	stack_views(frames, nr, views);
	live->rows.sample++;
	for (i = 0; i < nr; i++) {
		amount.views = views[aggregate_frame_kind(frames[i])];
		amount.leaf_views = amount.views & leaf;
		if (!amount.views)
			continue;
		if (aggregate_frame_kind(frames[i]) == BPFPROF_FRAME_LABEL)
			text_count(live, process,
				   strtab_get(labels, (uint32_t)(frames[i] & BPFPROF_FRAME_MASK)),
				   leaf, ns);
		else
			frame_count(live, process, frames[i], &amount);
		leaf &= ~amount.views;
	}
	amount.views = amount.leaf_views = leaf;
	if (leaf)
		live_rows_count(&live->rows, process, strtab_add(live->texts, NO_STACK),
				LIVE_FUNCTION | LIVE_LINE, &amount);
}

static enum location_kind location_kind_of(uint64_t frame)
{
	switch (aggregate_frame_kind(frame)) {
	case BPFPROF_FRAME_KERNEL:
		return LOCATION_KERNEL;
	case BPFPROF_FRAME_PYTHON:
		return LOCATION_PYTHON;
	case BPFPROF_FRAME_NATIVE:
	case BPFPROF_FRAME_NATIVE_VA:
		return LOCATION_NATIVE;
	default:
		return LOCATION_CALL;
	}
}

/* Is a helper thread that sleeps with this stack idle? */
static bool stack_is_idle(struct live *live, const uint64_t *frames, size_t nr)
{
	__cleanup(free_mem) struct idle_frame *named = NULL;
	struct frame_name name;
	size_t i;

	named = calloc(nr + 1, sizeof(*named));
	for (i = 0; named && i < nr; i++) {
		named[i].kind = location_kind_of(frames[i]);
		named[i].text = "";
		if (named[i].kind != LOCATION_CALL &&
		    frame_names_find(&live->names, frames[i], live->counters.nr_intervals, &name))
			named[i].text = strtab_get(live->texts, name.function);
	}
	return named && idle_frames_are_known(named, nr);
}

/* Is the thread idle? verdict: that of its stack, computed on first use. */
static bool is_idle(struct live *live, const struct aggregate_sample *sample, enum verdict *verdict,
		    const uint64_t *frames, size_t nr)
{
	if (!live->fold_idle || sample->sleeper != PROFILE_HELPER_SLEEPS)
		return false;
	if (*verdict == VERDICT_UNKNOWN)
		*verdict = stack_is_idle(live, frames, nr) ? VERDICT_IDLE : VERDICT_NOT_IDLE;
	return *verdict == VERDICT_IDLE;
}

static void use_add(struct live_use *use, const struct aggregate_sample *sample, bool runs)
{
	if (runs)
		use->cpu_ns += sample->value_ns;
	use->samples += sample->count;
	use->ns += sample->value_ns;
	if (sample->gil == PROFILE_GIL_HELD)
		use->gil_ns += sample->value_ns;
}

/*
 * Renumbers the processes in NATIVE_VA frames from the view's numbers to those of live. processes:
 * index per process of the view, -1 = none.
 */
static void frames_translate(uint64_t *frames, size_t nr, const int64_t *processes,
			     size_t nr_processes)
{
	uint64_t process;
	size_t i;

	for (i = 0; i < nr; i++) {
		if (aggregate_frame_kind(frames[i]) != BPFPROF_FRAME_NATIVE_VA)
			continue;
		process = (frames[i] & BPFPROF_FRAME_MASK) >> AGGREGATE_VA_BITS;
		process = process && process <= nr_processes && processes[process - 1] >= 0
				  ? (uint64_t)processes[process - 1] + 1
				  : 0;
		frames[i] = (uint64_t)BPFPROF_FRAME_NATIVE_VA << BPFPROF_FRAME_SHIFT |
			    process << AGGREGATE_VA_BITS | (frames[i] & AGGREGATE_VA_MASK);
	}
}

/*
 * A frame without a name, and index + 1 of the process that the frame belongs to, or that runs this
 * Python code; 0: any process.
 */
struct unknown {
	uint64_t frame;
	uint32_t process;
};

static int compare_frame(const void *a, const void *b)
{
	const struct unknown *x = a, *y = b;

	return sorted_order(x->frame, y->frame);
}

/* Sorts by kind, then by process, then by frame. */
static int compare_group(const void *a, const void *b)
{
	const struct unknown *x = a, *y = b;
	uint32_t kinds[] = { aggregate_frame_kind(x->frame), aggregate_frame_kind(y->frame) };

	if (kinds[0] != kinds[1])
		return kinds[0] < kinds[1] ? -1 : 1;
	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	return compare_frame(a, b);
}

static uint32_t frame_process(uint64_t frame, uint32_t runs)
{
	switch (aggregate_frame_kind(frame)) {
	case BPFPROF_FRAME_NATIVE_VA:
		return (uint32_t)((frame & BPFPROF_FRAME_MASK) >> AGGREGATE_VA_BITS);
	case BPFPROF_FRAME_PYTHON:
		return runs;
	default:
		return 0;
	}
}

/* Finds the frames without a name, once each, group by group. */
static size_t unknown_find(struct live *live, const struct aggregate_view *view,
			   const uint64_t *frames, uint32_t *runs, struct unknown *unknown)
{
	struct frame_name name;
	size_t i, nr = 0, nr_distinct = 0;

	for (i = view->nr_stacks; i-- > 1;) {
		if (runs[i]) /* callers have smaller numbers */
			runs[view->callers[i]] = runs[i];
		if (aggregate_frame_kind(frames[i]) != BPFPROF_FRAME_MARKER &&
		    aggregate_frame_kind(frames[i]) != BPFPROF_FRAME_LABEL &&
		    !frame_names_find(&live->names, frames[i], live->counters.nr_intervals, &name))
			unknown[nr++] =
				(struct unknown){ frames[i], frame_process(frames[i], runs[i]) };
	}
	qsort(unknown, nr, sizeof(*unknown), compare_frame);
	for (i = 0; i < nr; i++)
		if (!nr_distinct || unknown[i].frame != unknown[nr_distinct - 1].frame)
			unknown[nr_distinct++] = unknown[i];
	qsort(unknown, nr_distinct, sizeof(*unknown), compare_group);
	return nr_distinct;
}

/*
 * Names every frame that has no name yet. frames: those of the view, renumbered; processes: see
 * frames_translate().
 */
static int frames_name(struct live *live, const struct aggregate_view *view, const uint64_t *frames,
		       const int64_t *processes, const struct live_names *symbolizer)
{
	__cleanup(free_mem) struct unknown *unknown =
		malloc((view->nr_stacks + 1) * sizeof(*unknown));
	__cleanup(free_mem) uint64_t *group = malloc((view->nr_stacks + 1) * sizeof(*group));
	__cleanup(free_mem) uint32_t *runs = calloc(view->nr_stacks + 1, sizeof(*runs));
	size_t nr, i, end, n;
	uint32_t process;

	if (!unknown || !group || !runs)
		return -ENOMEM;
	for (i = 0; i < view->nr_samples; i++)
		runs[view->samples[i].stack] = (uint32_t)(processes[view->samples[i].process] + 1);
	nr = unknown_find(live, view, frames, runs, unknown);
	for (i = 0; i < nr; i = end) {
		process = unknown[i].process;
		for (end = i, n = 0; end < nr && unknown[end].process == process &&
				     aggregate_frame_kind(unknown[end].frame) ==
					     aggregate_frame_kind(unknown[i].frame);
		     end++)
			group[n++] = unknown[end].frame;
		symbolizer->name(symbolizer->arg, live, group, n,
				 process ? live->processes[process - 1].pid : 0);
	}
	return 0;
}

static void interval_begin(struct live *live)
{
	size_t i;

	/* This is not done in the middle of an interval: all its frames must stay known. */
	if (strtab_nr_lost(live->texts))
		live_rows_evict(&live->rows);
	if (strtab_nr_lost(live->texts) || strtab_count(live->texts) > MAX_TEXTS)
		texts_renew(live);
	else
		frame_names_make_room(&live->names);
	live->counters.nr_intervals++;
	live->now = (struct live_use){ 0 };
	for (i = 0; i < live->rows.nr; i++)
		live->rows.list[i].now = (struct live_counts){ 0 };
	for (i = 0; i < live->nr_processes; i++)
		live->processes[i].now = (struct live_use){ 0 };
}

static void counters_add(struct live *live, const struct aggregate_view *view)
{
	size_t i;

	for (i = 0; i < BPFPROF_NR_STOPS; i++)
		live->counters.stops[i] += view->counts.stops[i];
	for (i = 0; i < PYTHON_NR_STOPS; i++)
		live->counters.python_stops[i] += view->counts.python_stops[i];
	for (i = PYTHON_MERGED + 1; i < PYTHON_NR_UNMERGED; i++)
		live->counters.unmerged += view->counts.unmerged[i];
	live->counters.table_full += view->nr_table_full;
	live->counters.samples_lost += view->nr_lost;
}

/* verdicts: one per stack of the view. stack: room for as many frames. */
static void samples_count(struct live *live, const struct aggregate_view *view,
			  enum verdict *verdicts, const uint64_t *frames, const int64_t *processes,
			  uint64_t *stack)
{
	const struct aggregate_sample *sample;
	size_t i, nr;
	uint32_t at;
	bool runs;

	for (i = 0; i < view->nr_samples; i++) {
		sample = &view->samples[i];
		if (!sample->count && !sample->value_ns)
			continue;
		if (processes[sample->process] < 0) {
			live->counters.samples_lost += sample->count;
			continue;
		}
		nr = 0;
		stack_each(at, view->callers, sample->stack)
			stack[nr++] = frames[at];
		/* A wait has a reason as its leaf, or is sleep. */
		runs = sample->sleeper == PROFILE_FIRST_RUNS ||
		       (sample->sleeper == PROFILE_NOT_ASLEEP && nr &&
			aggregate_frame_kind(stack[0]) != BPFPROF_FRAME_LABEL);
		use_add(&live->now, sample, runs);
		use_add(&live->ever, sample, runs);
		use_add(&live->processes[processes[sample->process]].now, sample, runs);
		use_add(&live->processes[processes[sample->process]].ever, sample, runs);
		if (is_idle(live, sample, &verdicts[sample->stack], stack, nr)) {
			live->rows.sample++;
			text_count(live, (uint32_t)processes[sample->process], IDLE_FRAME,
				   ALL_VIEWS, sample->value_ns);
			continue;
		}
		stack_count(live, (uint32_t)processes[sample->process], stack, nr, sample->value_ns,
			    view->labels);
	}
}

int live_feed(struct live *live, const struct aggregate_view *view,
	      const struct live_names *symbolizer)
{
	__cleanup(free_mem) uint64_t *frames = malloc((view->nr_stacks + 1) * sizeof(*frames));
	__cleanup(free_mem) int64_t *processes =
		malloc((view->nr_processes + 1) * sizeof(*processes));
	__cleanup(free_mem) enum verdict *verdicts = calloc(view->nr_stacks + 1, sizeof(*verdicts));
	__cleanup(free_mem) uint64_t *stack = malloc((view->nr_stacks + 1) * sizeof(*stack));
	size_t i;
	int err;

	if (!frames || !processes || !verdicts || !stack)
		return -ENOMEM;
	interval_begin(live);
	counters_add(live, view);
	for (i = 0; i < view->nr_processes; i++)
		processes[i] = process_get(live, view, &view->processes[i]);
	if (view->nr_stacks)
		memcpy(frames, view->frames, view->nr_stacks * sizeof(*frames));
	frames_translate(frames, view->nr_stacks, processes, view->nr_processes);
	err = frames_name(live, view, frames, processes, symbolizer);
	if (!err)
		samples_count(live, view, verdicts, frames, processes, stack);
	live->counters.rows_evicted = live->rows.nr_evicted;
	return err;
}

void live_reset(struct live *live)
{
	size_t i;

	live_rows_clear(&live->rows);
	live->now = live->ever = (struct live_use){ 0 };
	for (i = 0; i < live->nr_processes; i++)
		live->processes[i].now = live->processes[i].ever = (struct live_use){ 0 };
}

const struct live_row *live_rows(const struct live *live, size_t *ret_nr)
{
	*ret_nr = live->rows.nr;
	return live->rows.list;
}

const char *live_text(const struct live *live, uint32_t text)
{
	return strtab_get(live->texts, text);
}

const struct live_process *live_processes(const struct live *live, size_t *ret_nr)
{
	*ret_nr = live->nr_processes;
	return live->processes;
}

void live_use_get(const struct live *live, uint32_t process, struct live_use *ret_now,
		  struct live_use *ret_ever)
{
	static const struct live_use none;
	bool there = process < live->nr_processes;

	if (process == LIVE_ALL) {
		*ret_now = live->now;
		*ret_ever = live->ever;
		return;
	}
	*ret_now = there ? live->processes[process].now : none;
	*ret_ever = there ? live->processes[process].ever : none;
}

const struct live_counters *live_counters(const struct live *live)
{
	return &live->counters;
}
