// SPDX-License-Identifier: Apache-2.0
#include "threads/task_stacks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/cleanup.h"
#include "base/hash_seed.h"
#include "base/map.h"
#include "base/strtab.h"
#include "base/text.h"
#include "base/time.h"
#include "base/vec.h"
#include "kernel/remote.h"
#include "kernel/walk.h"
#include "proc/processes.h"
#include "python/async_objects.h"
#include "python/awaits.h"
#include "python/code_read.h"
#include "threads/reading_async.h"
#include "threads/task_wait.h"

#define LEARN_NS (2 * NS_PER_SECOND) /* between two reads of the mappings of a process */
#define LEARN_SHARE 100 /* of the time may go into these reads */
#define MAX_DEPTH 64 /* tasks that await each other, one above the other */
#define MAX_LEAVES (1U << 20) /* in one snapshot */
#define MAX_KEPT_FRAMES (1U << 18) /* of all stacks between two flushes: 3 MiB */
#define MAX_PLACES (1U << 16) /* different places in the source */
#define SPARE_VISITS 4096
#define PAUSE_VISITS 64
#define AHEAD_PAGES 4 /* that are read where one page is missing */
#define AHEAD_LARGE 8
#define PATIENCE_MS 2000 /* for reads while there is no CPU for them */
#define LARGE_READS 15 /* before the next try to keep a list of pages */

enum { ON_PATH = 1, VISITED = 2 };

/* A stack of a task in one pass over the memory. */
struct leaf {
	uint64_t va; /* of the task */
	struct task_stack *stack;
	double share; /* of the time of the task; the rest is below other tasks that await it */
};

struct pass {
	struct leaf *leaves;
	size_t nr, cap;
	uint64_t nr_tasks;
	bool complete; /* the thread of each loop is known */
	bool clean; /* no loop ran meanwhile */
	bool torn;
};

/* The tasks of one Python while they are walked. */
struct walk {
	struct task_stacks *to;
	struct pass *pass;
	struct reading_async *a;
	uint32_t *children,
		*first; /* the tasks that task i awaits: from first[i] on, up to first[i + 1] */
	uint32_t *nr_awaiters; /* by task */
	uint8_t *marks; /* by task */
	struct map places; /* indices in place_frames by code and instruction */
	struct task_stack_frame *place_frames;
	size_t nr_places, cap_places;
	struct task_stack_frame frames[TASK_STACKS_MAX_FRAMES];
	size_t nr_frames;
	size_t visits_left;
	bool cut; /* some awaited task was not visited */
	int err;
};

int task_stacks_init(struct task_stacks *stacks)
{
	*stacks = (struct task_stacks){ .seed = hash_seed() };
	hash_table_init(&stacks->table, TASK_STACKS_MAX, struct task_stack, hash);
	return strtab_new(&stacks->strings, TASK_STACKS_BYTES);
}

void task_stacks_fini(struct task_stacks *stacks)
{
	struct task_stack *stack;

	hash_table_each(&stacks->table, stack)
		free(stack->frames);
	hash_table_clear(&stacks->table);
	strtab_free(stacks->strings);
	stacks->strings = NULL;
}

int task_stacks_clear(struct task_stacks *stacks)
{
	const struct task_stacks_counts counts = stacks->counts;
	int err;

	task_stacks_fini(stacks);
	err = task_stacks_init(stacks);
	stacks->counts = counts;
	return err;
}

/* The stack with these frames, in a loop of that thread. NULL: no memory. */
static struct task_stack *stack_get(struct task_stacks *to, const struct bpfprof_task_state *thread,
				    const struct task_stack_frame *frames, size_t nr,
				    const char *wait, bool parked)
{
	const uint64_t rest[] = {
		thread->task.pid, thread->task.start_ns,
		thread->task.tid, XXH3_64bits(wait, strlen(wait)),
		parked,		  XXH3_64bits_withSeed(frames, nr * sizeof(*frames), to->seed)
	};
	uint64_t hash = XXH3_64bits_withSeed(rest, sizeof(rest), to->seed);
	struct task_stack *stack = hash_table_find(&to->table, &hash);

	if (stack)
		return stack;
	/* A stack without frames is for all those that found no place, and few. */
	if (nr &&
	    (to->table.nr >= TASK_STACKS_MAX * 7 / 8 || to->nr_frames + nr > MAX_KEPT_FRAMES)) {
		to->counts.cut++;
		return stack_get(to, thread, NULL, 0, "other stacks", false);
	}
	stack = hash_table_add(&to->table, &hash);
	if (!stack)
		return NULL;
	stack->thread = thread->task;
	memcpy(stack->comm, thread->comm, sizeof(stack->comm));
	memcpy(stack->leader_comm, thread->leader_comm, sizeof(stack->leader_comm));
	stack->wait = wait;
	stack->parked = parked;
	stack->frames = nr ? calloc(nr, sizeof(*frames)) : NULL;
	if (stack->frames) {
		memcpy(stack->frames, frames, nr * sizeof(*frames));
		stack->nr_frames = nr;
		to->nr_frames += nr;
	}
	return stack;
}

static void leaf_add(struct walk *w, const struct python_async_task *task, const char *wait,
		     bool parked, double share)
{
	const struct bpfprof_task_state *thread = reading_async_thread(w->a, task->loop);
	struct pass *pass = w->pass;
	struct task_stack *stack;

	if (!thread || w->err)
		return;
	stack = stack_get(w->to, thread, w->frames, w->nr_frames, wait, parked);
	w->err = stack ? vec_grow(pass->leaves, pass->nr + 1, pass->cap, MAX_LEAVES) : -ENOMEM;
	if (!w->err)
		pass->leaves[pass->nr++] =
			(struct leaf){ .va = task->va, .stack = stack, .share = share };
}

static struct task_stack_frame place_read(struct walk *w, const struct python_chain_frame *at)
{
	struct strtab *strings = w->to->strings;
	char mark[PYTHON_MAX_TYPE_NAME + 3];
	const struct python_code *code;

	if (at->lasti == PYTHON_CHAIN_NO_FRAME) {
		python_awaits_name(&w->a->python->heap, at, mark, sizeof(mark));
		return (struct task_stack_frame){ .name = strtab_add(strings, mark) };
	}
	code = python_code_cache_get(w->a->python->codes, at->code, NULL);
	if (!code)
		return (struct task_stack_frame){ .name = strtab_add(strings, "[python]") };
	return (struct task_stack_frame){ .name = strtab_add(strings, code->name),
					  .file = strtab_add(strings, code->file),
					  .line = python_code_line(code, at->lasti) };
}

/* The place in the source of a frame. */
static struct task_stack_frame place_of(struct walk *w, const struct python_chain_frame *at)
{
	const uint64_t key[] = { at->code, at->lasti };
	uint64_t hash = XXH3_64bits_withSeed(key, sizeof(key), w->to->seed);
	struct task_stack_frame frame;
	uint32_t index;
	bool known = map_find(&w->places, hash, &index);

	frame = known ? w->place_frames[index] : place_read(w, at);
	w->a->python->heap.counts.nr_bad += !frame.file && at->lasti != PYTHON_CHAIN_NO_FRAME;
	if (!known && !vec_grow(w->place_frames, w->nr_places + 1, w->cap_places, MAX_PLACES) &&
	    !map_set(&w->places, hash, (uint32_t)w->nr_places))
		w->place_frames[w->nr_places++] = frame;
	return frame;
}

/* Appends the frames of the task, the outermost first. */
static void frames_push(struct walk *w)
{
	const struct python_chain *chain = &w->a->reading->chain;
	bool cut = chain->stop > PYTHON_STOP_COMPLETE;

	for (uint32_t i = chain->nr_frames; i--;) {
		if (w->nr_frames == TASK_STACKS_MAX_FRAMES) {
			cut = true;
			break;
		}
		w->frames[w->nr_frames++] = place_of(w, &chain->frames[i]);
	}
	w->to->counts.cut += cut;
}

/* A future that is done: the task continues when its turn comes. */
static bool is_done(struct python_heap *heap, uint64_t future)
{
	const struct python_heap_layout *l = &heap->objects;
	uint32_t state;

	return l->future_state && python_is_a(heap, future, "_asyncio.Future") &&
	       !python_heap_read(heap, future + l->object_size + l->future_state, &state,
				 sizeof(state)) &&
	       state;
}

static const char *wait_of(struct walk *w, const struct python_async_task *task)
{
	struct task_wait wait;

	if (task->is_running)
		return "running";
	if (task->waiter && is_done(&w->a->python->heap, task->waiter))
		return "turn";
	reading_async_wait(w->a, task, &wait, false);
	if (!strcmp(wait.kind, "tasks") || !strcmp(wait.kind, "gather"))
		return "task";
	return wait.kind;
}

/*
 * Has a task that no task awaits nothing to do? So it is if it waits for the next item of a queue in the function
 * that it runs, and if it serves connections, which have tasks of their own.
 */
static bool is_parked(const struct walk *w, const char *wait)
{
	const struct task_stack_frame *leaf = w->nr_frames ? &w->frames[w->nr_frames - 1] : NULL;
	const char *name = leaf ? strtab_get(w->to->strings, leaf->name) : "", *dot;

	dot = strrchr(name, '.');
	name = dot ? dot + 1 : name;
	if (!strcmp(wait, "queue"))
		return w->nr_frames == 2 && !strcmp(name, "get");
	return !strcmp(wait, "future") && !strcmp(name, "serve_forever") &&
	       text_ends(strtab_get(w->to->strings, leaf->file), "asyncio/base_events.py");
}

/* Reads that failed, so far. */
static uint64_t nr_unread(const struct walk *w)
{
	const struct python_heap_counts *counts = &w->a->python->heap.counts;

	return counts->nr_unreadable + counts->nr_bad;
}

/*
 * Does the chain of a suspended task not end at the future that it waits for? Then they are of different moments. The
 * chain ends before that at a coroutine of another compiler than Cython whose type does not describe what it awaits.
 */
static bool is_torn(const struct walk *w, const struct python_async_task *task, uint64_t end)
{
	struct python_heap *heap = &w->a->python->heap;
	const struct python_type *type;

	if (task->is_running || !task->waiter || end == task->waiter ||
	    !python_is_a(heap, task->waiter, "_asyncio.Future"))
		return false;
	return !end || python_heap_type(heap, end, &type) || !strstr(type->name, "coroutine");
}

/* Does a task with this reason to wait only wait for the tasks that it awaits? */
static bool is_passed_on(const char *wait)
{
	return !strcmp(wait, "task") || !strcmp(wait, "future");
}

/* Adds the stacks of the task and of those that it awaits: for so much of their time. */
static void task_walk(struct walk *w, uint32_t number, double share, unsigned int depth)
{
	const struct python_async_task *task = &w->a->tasks.tasks[number];
	uint64_t unread = nr_unread(w);
	size_t frames = w->nr_frames, nr = 0;
	const char *wait;
	uint64_t end;
	uint32_t i;

	w->marks[number] |= ON_PATH | VISITED;
	reading_async_chain(w->a, task, &end);
	frames_push(w);
	wait = wait_of(w, task);
	if (nr_unread(w) != unread || is_torn(w, task, end)) { /* the chain may go on */
		wait = "unread";
		w->to->counts.unread++;
	}
	for (i = w->first[number]; i < w->first[number + 1]; i++)
		nr += !(w->marks[w->children[i]] & ON_PATH);
	if (depth == MAX_DEPTH || !w->visits_left) {
		w->to->counts.cut += nr != 0;
		w->cut |= nr != 0;
		nr = 0;
	}
	if (!nr || !is_passed_on(wait))
		leaf_add(w, task, wait, !depth && !nr && is_parked(w, wait), share);
	for (i = w->first[number]; nr && i < w->first[number + 1] && !w->err; i++) {
		if (w->marks[w->children[i]] & ON_PATH)
			continue;
		w->visits_left -= w->visits_left > 0;
		if (w->visits_left % PAUSE_VISITS == 0 && !reading_async_pause(w->a)) {
			w->to->counts.over += nr;
			w->cut = true;
			break;
		}
		task_walk(w, w->children[i], share / w->nr_awaiters[w->children[i]], depth + 1);
	}
	w->nr_frames = frames;
	w->marks[number] &= (uint8_t)~ON_PATH;
}

/* Makes the lists of awaited tasks. */
static void children_list(struct walk *w)
{
	const struct python_async_tasks *tasks = &w->a->tasks;
	size_t i;

	for (i = 0; i < tasks->nr_edges; i++) {
		w->first[tasks->edges[i].awaiter + 2]++;
		w->nr_awaiters[tasks->edges[i].task]++;
	}
	for (i = 2; i < tasks->nr + 2; i++)
		w->first[i] += w->first[i - 1];
	for (i = 0; i < tasks->nr_edges; i++)
		w->children[w->first[tasks->edges[i].awaiter + 1]++] = tasks->edges[i].task;
}

/* Walks all tasks, from those that no task awaits. */
static void roots_walk(struct walk *w)
{
	size_t nr = w->a->tasks.nr;
	uint32_t i;

	for (i = 0; i < nr && !w->err; i++) {
		if (i % 64 == 63 && !reading_async_pause(w->a)) {
			w->to->counts.over += nr - i;
			w->cut = true;
			break;
		}
		if (!w->nr_awaiters[i])
			task_walk(w, i, 1, 0);
	}
	/* Tasks that await each other in a circle have no root. */
	for (i = 0; i < nr && !w->err && !w->cut; i++)
		if (!w->marks[i])
			task_walk(w, i, 1, 0);
}

/* Adds the stacks of the tasks of one Python to the pass. 0 or -ENOMEM. */
static int python_walk(struct task_stacks *to, struct pass *pass, struct reading_async *a,
		       struct task_watch *watch)
{
	const struct bpfprof_task_state *thread;
	struct walk *w = calloc(1, sizeof(*w));
	size_t i;
	int err;

	if (!w)
		return -ENOMEM;
	w->to = to;
	w->pass = pass;
	w->a = a;
	w->visits_left = 4 * a->tasks.nr + SPARE_VISITS;
	w->marks = calloc(a->tasks.nr + 1, sizeof(*w->marks));
	w->nr_awaiters = calloc(a->tasks.nr + 1, sizeof(*w->nr_awaiters));
	w->first = calloc(a->tasks.nr + 3, sizeof(*w->first));
	w->children = calloc(a->tasks.nr_edges + 1, sizeof(*w->children));
	map_init(&w->places, MAX_PLACES);
	w->err = w->marks && w->nr_awaiters && w->first && w->children ? 0 : -ENOMEM;
	for (i = 0; i < a->tasks.nr_loops; i++) {
		thread = reading_async_thread(a, (uint32_t)i);
		pass->complete &= thread != NULL;
		if (thread && watch->nr_tids < TASK_STACKS_MAX_LOOPS)
			watch->tids[watch->nr_tids++] = thread->reader_tid;
		else
			pass->complete = false;
	}
	if (!w->err) {
		children_list(w);
		roots_walk(w);
	}
	err = w->err == -E2BIG ? 0 : w->err;
	map_fini(&w->places);
	free(w->place_frames);
	free(w->marks);
	free(w->first);
	free(w->nr_awaiters);
	free(w->children);
	free(w);
	return err;
}

void task_watch_fini(struct task_watch *watch)
{
	free(watch->pages);
	watch->pages = NULL;
	watch->nr_pages = 0;
}

/* Drops all memory that was read, and reads what was needed the last time. */
static void pages_begin(struct remote *remote, const struct task_watch *watch)
{
	remote_forget(remote);
	remote_ahead(remote, watch->nr_large ? AHEAD_LARGE : AHEAD_PAGES);
	for (size_t i = 0; i < watch->nr_pages; i++)
		remote_want(remote, watch->pages[i], 1);
	remote_fetch(remote);
}

/* Notes which pages the read needed: if there are not so many that it dropped some of them in between. */
static void pages_end(const struct remote *remote, struct task_watch *watch, uint64_t before)
{
	size_t nr = remote_used(remote, NULL, 0);

	task_watch_fini(watch);
	if (watch->nr_large)
		watch->nr_large--;
	else if (remote_counts(remote)->nr_pages - before >= TASK_STACKS_MAX_PAGES)
		watch->nr_large = LARGE_READS;
	else if (nr)
		watch->pages = calloc(nr, sizeof(*watch->pages));
	if (watch->pages)
		watch->nr_pages = remote_used(remote, watch->pages, nr);
}

/* Did the thread of some loop run between the two reads of the states? */
static bool has_run(const struct task_watch *watch, const struct tasks *before,
		    const struct tasks *after)
{
	const struct bpfprof_task_state *x, *y;

	for (size_t i = 0; i < before->nr; i++) {
		x = &before->states[i];
		for (size_t k = 0; k < watch->nr_tids; k++) {
			if (watch->tids[k] != x->reader_tid)
				continue;
			y = tasks_find(after, x->task.tid, i);
			if (!y || x->flags & BPFPROF_TASK_ON_CPU ||
			    y->flags & BPFPROF_TASK_ON_CPU || x->nr_switches != y->nr_switches)
				return true;
		}
	}
	return !watch->nr_tids;
}

/* The states of the threads of the loops, or of all threads. 0 or -errno. */
static int states_read(struct tasks *ret, struct reading *reading, const struct task_watch *watch,
		       bool all)
{
	const struct tasks_choice choice = { .kernel_pid = watch->kernel_pid,
					     .tids = watch->tids,
					     .nr = watch->nr_tids };

	tasks_fini(ret);
	return tasks_read(ret, &reading->reader->session, watch->pid,
			  all || !watch->nr_tids ? NULL : &choice);
}

/* Adds the stacks of all tasks of all Pythons. 0 or -ENOMEM. */
static int pythons_walk(struct task_stacks *to, struct reading *reading, struct pass *pass,
			struct task_watch *watch)
{
	struct reading_async a;
	int err = 0;

	reading_pythons_begin(reading);
	for (uint32_t i = 0; i < reading->nr_pythons && !err; i++) {
		err = reading_async_open(&a, reading, &reading->pythons[i]);
		watch->has_loop |= !err && a.tasks.nr_loops;
		pass->torn |= a.tasks.torn;
		pass->nr_tasks += a.tasks.nr;
		to->counts.over += a.tasks.nr_over;
		to->counts.undescribed += a.tasks.undescribed;
		if (!err)
			err = python_walk(to, pass, &a, watch);
		reading_async_close(&a);
		if (err == -ENOTSUP)
			err = 0;
	}
	reading_pythons_end(reading);
	return err;
}

/*
 * Reads the stacks of all tasks once. All memory is of one moment if no loop ran until its last page was read. 0 or
 * -ENOMEM.
 */
static int pass_run(struct task_stacks *to, struct reading *reading, struct pass *pass,
		    struct task_watch *watch)
{
	uint64_t before = remote_counts(reading->remote)->nr_pages, nr_passes;
	struct tasks after = { 0 };
	int err, gone;

	*pass = (struct pass){ .complete = true };
	pages_begin(reading->remote, watch);
	nr_passes = remote_counts(reading->remote)->nr_passes;
	gone = states_read(&after, reading, watch, false);
	watch->nr_tids = 0;
	watch->has_loop = false;
	err = pythons_walk(to, reading, pass, watch);
	pages_end(reading->remote, watch, before);
	if (!err && !gone && remote_counts(reading->remote)->nr_passes != nr_passes)
		gone = states_read(&after, reading, watch, false);
	pass->clean = !gone && !has_run(watch, &reading->tasks, &after);
	if (!pass->complete)
		watch->nr_tids = 0;
	tasks_fini(&after);
	return err;
}

static int leaf_compare(const void *a, const void *b)
{
	const struct leaf *x = a, *y = b;

	return x->va != y->va ? (x->va > y->va) - (x->va < y->va)
			      : (x->stack > y->stack) - (x->stack < y->stack);
}

/* Tasks that did not have the same stack twice get a stack without frames. */
static void leaves_confirm(struct task_stacks *to, struct pass *pass, struct pass *again)
{
	const struct bpfprof_task_state none = { 0 };
	struct bpfprof_task_state thread;
	struct task_stack *moved;
	struct leaf *leaf;

	if (again->nr)
		qsort(again->leaves, again->nr, sizeof(*again->leaves), leaf_compare);
	for (leaf = pass->leaves; leaf < pass->leaves + pass->nr; leaf++) {
		if (again->nr &&
		    bsearch(leaf, again->leaves, again->nr, sizeof(*leaf), leaf_compare))
			continue;
		to->counts.moved++;
		thread = none;
		thread.task = leaf->stack->thread;
		memcpy(thread.comm, leaf->stack->comm, sizeof(thread.comm));
		memcpy(thread.leader_comm, leaf->stack->leader_comm, sizeof(thread.leader_comm));
		moved = stack_get(to, &thread, NULL, 0, "moved", false);
		if (moved)
			leaf->stack = moved;
	}
}

/* Learns where the process has its Pythons, from time to time. 0 or -errno. */
static int mappings_learn(struct reading *reading, struct task_watch *watch)
{
	struct walker *walker = &reading->reader->walker;
	const struct bpfprof_task_id *task = &reading->tasks.states[0].task;
	uint64_t start_ns = time_monotonic_ns(), cost_ns;
	struct process *process = processes_find(walker->processes, task->pid);
	int err = 0;

	watch->kernel_pid = task->pid;
	if (!process || process->start_ns != task->start_ns || !process->mappings_known ||
	    start_ns >= watch->learn_ns) {
		if (process && process->mappings_known && process->start_ns == task->start_ns &&
		    process->exec_id == task->exec_id)
			err = walker_refresh(walker, process, start_ns);
		else
			err = walker_learn(walker, watch->pid, start_ns, NULL);
		cost_ns = (time_monotonic_ns() - start_ns) * LEARN_SHARE;
		watch->learn_ns = start_ns + (cost_ns > LEARN_NS ? cost_ns : LEARN_NS);
		process = processes_find(walker->processes, task->pid);
	}
	reading->process = process;
	return process ? 0 : err ?: -ESRCH;
}

/* A second pass follows a first one during which some loop ran. 0 or -errno. */
static int snapshot_read(struct task_stacks *to, struct reading *reading, struct task_watch *watch,
			 struct pass *pass)
{
	struct pass again = { 0 }, better;
	int err = pass_run(to, reading, pass, watch);

	if (!err && !pass->complete) { /* a loop runs in another thread */
		free(pass->leaves);
		*pass = (struct pass){ 0 };
		err = states_read(&reading->tasks, reading, watch, true);
		if (!err)
			err = pass_run(to, reading, pass, watch);
	}
	if (err || !watch->has_loop)
		return err;
	if (!pass->clean) {
		err = states_read(&reading->tasks, reading, watch, false);
		if (!err)
			err = pass_run(to, reading, &again, watch);
		if (!err && again.clean) {
			better = again;
			again = *pass;
			*pass = better;
		} else if (!err) {
			leaves_confirm(to, pass, &again);
		}
	}
	free(again.leaves);
	to->counts.snapshots++;
	to->counts.tasks += pass->nr_tasks;
	to->counts.torn += pass->torn;
	return err == -ESRCH ? 0 : err;
}

static void times_add(const struct pass *pass, uint64_t ns)
{
	for (size_t i = 0; i < pass->nr; i++) {
		pass->leaves[i].stack->ns += (double)ns * pass->leaves[i].share;
		pass->leaves[i].stack->count++;
	}
}

static int reading_begin(struct task_stacks *stacks, struct reading *reading,
			 struct task_watch *watch)
{
	uint32_t tid;
	int err = reading_child_need(reading->reader, THREAD_OWNER_TASKS);

	if (!err)
		err = states_read(&reading->tasks, reading, watch, false);
	/* The threads of the loops have ended, or are about to. */
	if (watch->nr_tids && (err == -ESRCH || (!err && !reading_memory_tid(&reading->tasks)))) {
		watch->nr_tids = 0;
		err = states_read(&reading->tasks, reading, watch, true);
	}
	if (!err)
		err = mappings_learn(reading, watch);
	if (err)
		return err;
	tid = reading_memory_tid(&reading->tasks);
	if (!tid)
		return -ESRCH;
	stacks->counts.failed += !reading->process->mappings_known;
	remote_child_patience(reading->reader->child, PATIENCE_MS);
	err = remote_new(&reading->remote, reading->reader->child, tid);
	if (!err)
		remote_limit(reading->remote, 0, reading->request->max_pages);
	return err;
}

int task_stacks_read(struct task_stacks *stacks, struct thread_reader *reader,
		     struct task_watch *watch, uint64_t max_ns)
{
	__cleanup(free_mem) struct reading *reading = calloc(1, sizeof(*reading));
	const struct thread_request request = { .owner = THREAD_OWNER_TASKS,
						.pid = watch->pid,
						.max_pages = 2 * TASK_STACKS_MAX_PAGES,
						.tasks = true };
	struct thread_read_counts counts = { .nr_rounds = 1 };
	struct process_dump process = { .pid = watch->pid };
	struct dump dump = { .strings = stacks->strings };
	uint64_t now_ns = time_monotonic_ns(), ns = now_ns - watch->last_ns;
	struct pass pass = { 0 };
	int err;

	if (!reading)
		return -ENOMEM;
	reading->reader = reader;
	reading->request = &request;
	reading->strings = stacks->strings;
	reading->dump = &process;
	reading->all = &dump;
	reading->counts = &counts;
	err = reading_begin(stacks, reading, watch);
	if (!err)
		err = snapshot_read(stacks, reading, watch, &pass);
	if (!err) {
		if (ns > max_ns && watch->has_loop)
			stacks->counts.late_ns += ns - max_ns;
		times_add(&pass, ns > max_ns ? max_ns : ns);
		watch->last_ns = now_ns;
	}
	free(pass.leaves);
	remote_free(reading->remote);
	reading_pythons_fini(reading);
	tasks_fini(&reading->tasks);
	return err;
}
