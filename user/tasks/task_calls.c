// SPDX-License-Identifier: Apache-2.0
#include "tasks/task_calls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/process_map.h"
#include "kernel/session.h"
#include "ray/calls.h"

struct worker {
	struct hash_node node;
	struct process_key key;
	uint32_t own_pid;
	struct calls calls;
	char *title; /* last title, NULL: not known */
	bool open; /* the worker is in a call of that title */
	bool unclear; /* the worker may be in a call of that title */
	bool before; /* the call was open when the worker was first seen */
	bool chosen; /* the filters chose it when it took its title */
	uint64_t begin_ns;
	uint64_t polled_ns; /* time of task_calls_poll(), 0: never */
	bool in_threads; /* calls overlap, but the process has one title */
};

struct task_calls {
	struct hash_table workers;
	size_t title_bytes; /* of all workers' titles and classes */
	uint64_t nr_lost, nr_no_room, nr_in_threads;
	void (*call)(void *arg, const struct task_call *call);
	void *arg;
};

int task_change_read(struct task_change *ret, struct task_change_texts *texts,
		     const struct session *session, const struct bpfprof_title_event *event)
{
	const struct bpfprof_task_id *task = &event->task;
	int err = title_parse(texts->title, event->title, sizeof(event->title));

	if (err)
		return err;
	memcpy(texts->old_comm, event->old_comm, BPFPROF_COMM_LEN);
	texts->old_comm[BPFPROF_COMM_LEN] = 0;
	*ret = (struct task_change){
		.pid = task->pid,
		.own_pid = session_own_pid(session, task->pid, event->ns_context.agent_pid),
		.start_ns = task->start_ns,
		.ts_ns = event->rec.ts_ns,
		.main_thread = task->tid == task->pid,
		.lost = event->lost,
		.title = texts->title,
		.old_comm = texts->old_comm,
	};
	return 0;
}

int task_calls_new(struct task_calls **ret, size_t max_workers,
		   void (*call)(void *arg, const struct task_call *call), void *arg)
{
	struct task_calls *calls = calloc(1, sizeof(*calls));

	if (!calls)
		return -ENOMEM;
	hash_table_init(&calls->workers, max_workers, struct worker, key);
	calls->call = call;
	calls->arg = arg;
	*ret = calls;
	return 0;
}

static size_t titles_size(const struct worker *worker)
{
	return (worker->title ? strlen(worker->title) + 1 : 0) +
	       (worker->calls.class ? strlen(worker->calls.class) + 1 : 0);
}

/* Forgets the open call: it has ended, or is not known any more. */
static void worker_forget(struct worker *worker)
{
	worker->open = worker->unclear = worker->before = false;
}

/* Forgets the worker's state: its next change counts as its first. */
static void worker_begin_anew(struct task_calls *calls, struct worker *worker)
{
	calls->title_bytes -= titles_size(worker);
	worker_forget(worker);
	calls_fini(&worker->calls);
	free(worker->title);
	worker->title = NULL;
}

static void worker_remove(struct task_calls *calls, struct worker *worker)
{
	worker_begin_anew(calls, worker);
	hash_table_remove(&calls->workers, worker);
}

void task_calls_free(struct task_calls *calls)
{
	struct worker *worker;

	if (!calls)
		return;
	hash_table_each(&calls->workers, worker)
		worker_remove(calls, worker);
	free(calls);
}

static struct worker *worker_get(struct task_calls *calls, const struct task_change *change)
{
	struct worker *worker = process_map_find(&calls->workers, change->pid, change->start_ns);

	if (worker)
		return worker;
	worker = process_map_add(&calls->workers, change->pid, change->start_ns);
	if (worker)
		worker->own_pid = change->own_pid;
	return worker;
}

static void worker_report(const struct task_calls *calls, const struct worker *worker,
			  enum task_call_kind kind, uint64_t end_ns, bool runs)
{
	const struct task_call call = {
		.pid = worker->key.pid,
		.own_pid = worker->own_pid,
		.start_ns = worker->key.start_ns,
		.title = worker->title,
		.class = worker->calls.class ?: "",
		.kind = kind,
		.own = calls_is_step(worker->title),
		.before = worker->before,
		.runs = runs,
		.chosen = worker->chosen,
		.begin_ns = worker->begin_ns,
		.end_ns = end_ns > worker->begin_ns ? end_ns : worker->begin_ns,
	};

	calls->call(calls->arg, &call);
}

static void worker_end(const struct task_calls *calls, struct worker *worker, uint64_t end_ns,
		       bool runs)
{
	if (worker->open)
		worker_report(calls, worker, worker->calls.class ? TASK_CALL_ACTOR : TASK_CALL_TASK,
			      end_ns, runs);
	else if (worker->unclear)
		worker_report(calls, worker, TASK_CALL_UNCLEAR, end_ns, runs);
	worker_forget(worker);
}

/* The next title shows what the first one was: only a task is followed by the idle title. */
static void worker_clear_up(struct worker *worker, const char *next)
{
	worker->open |= worker->unclear && calls_is_idle(next);
	worker->unclear = false;
}

/* The call of the worker ended at an unknown time. */
static void worker_lose(struct task_calls *calls, struct worker *worker, uint32_t lost)
{
	worker_forget(worker);
	calls_lose(&worker->calls);
	calls->nr_lost += lost;
}

/* Sets the title of the worker. False: there is no room. */
static bool title_set(struct task_calls *calls, struct worker *worker,
		      const struct task_change *change, const char *old_comm)
{
	size_t had = titles_size(worker);
	int err;

	calls_see(&worker->calls, change->title, false, old_comm);
	err = title_keep(&worker->title, change->title, SIZE_MAX);
	worker->chosen = change->chosen;
	calls->title_bytes += titles_size(worker) - had;
	if (!err && calls->title_bytes <= TASK_CALLS_MAX_BYTES)
		return true;
	calls->nr_no_room++;
	worker_begin_anew(calls, worker);
	return false;
}

static void title_change(struct task_calls *calls, struct worker *worker,
			 const struct task_change *change)
{
	/* The poll came after this change, so it knew the change already. */
	if (change->ts_ns < worker->polled_ns) {
		worker_begin_anew(calls, worker);
		worker->polled_ns = 0;
	}
	/* The title is the same: only a thread got a name. */
	if (!change->lost && worker->title && !strcmp(worker->title, change->title))
		return;
	if (change->lost)
		worker_lose(calls, worker, change->lost);
	worker_clear_up(worker, change->title);
	worker_end(calls, worker, change->ts_ns, false);
	if (!title_set(calls, worker, change, change->old_comm))
		return;
	worker->open = worker->calls.state == CALLS_CALL;
	worker->begin_ns = change->ts_ns;
}

void task_calls_see(struct task_calls *calls, const struct task_change *change)
{
	struct worker *worker = worker_get(calls, change);

	if (!worker) {
		calls->nr_no_room++;
		return;
	}
	if (!change->main_thread && !worker->in_threads) {
		worker->in_threads = true;
		calls->nr_in_threads++;
		worker_forget(worker);
	}
	if (!worker->in_threads)
		title_change(calls, worker, change);
}

void task_calls_poll(struct task_calls *calls, const struct task_change *change, uint64_t begin_ns)
{
	struct worker *worker = worker_get(calls, change);

	if (!worker) {
		calls->nr_no_room++;
		return;
	}
	if (worker->title || worker->in_threads)
		return;
	/* Without an earlier name, a title without a method stays unclear. */
	if (!title_set(calls, worker, change, ""))
		return;
	worker->open = worker->calls.state == CALLS_CALL;
	worker->unclear = !worker->open && !calls_is_idle(change->title);
	worker->before = true;
	worker->begin_ns = begin_ns;
	worker->polled_ns = change->ts_ns;
	if (worker->unclear)
		calls_lose(&worker->calls);
}

bool task_calls_lose(struct task_calls *calls, uint32_t pid, uint64_t start_ns, uint32_t lost)
{
	struct worker *worker = lost ? process_map_find(&calls->workers, pid, start_ns) : NULL;

	if (worker)
		worker_lose(calls, worker, lost);
	return worker && worker->chosen;
}

void task_calls_exit(struct task_calls *calls, uint32_t pid, uint64_t start_ns, uint64_t ts_ns)
{
	struct worker *worker = process_map_find(&calls->workers, pid, start_ns);

	if (!worker)
		return;
	worker_end(calls, worker, ts_ns, false);
	worker_remove(calls, worker);
}

void task_calls_close(struct task_calls *calls, uint64_t now_ns)
{
	struct worker *worker;

	hash_table_each(&calls->workers, worker)
		worker_end(calls, worker, now_ns, true);
}

uint64_t task_calls_nr_left_out(const struct task_calls *calls)
{
	return calls->nr_lost + calls->nr_no_room;
}

uint64_t task_calls_nr_no_room(const struct task_calls *calls)
{
	return calls->nr_no_room;
}

uint64_t task_calls_nr_in_threads(const struct task_calls *calls)
{
	return calls->nr_in_threads;
}
