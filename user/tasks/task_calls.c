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
	bool seen; /* its title is known */
	uint64_t polled_ns; /* time of task_calls_poll(), 0: never */
};

struct task_calls {
	struct hash_table workers;
	struct calls_room room;
	uint64_t nr_lost, nr_no_room, nr_no_begin;
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
		.tid = task->tid,
		.sp = event->sp,
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
	calls->room.max = TASK_CALLS_MAX_BYTES;
	calls->call = call;
	calls->arg = arg;
	*ret = calls;
	return 0;
}

/* Forgets the worker's state: its next change counts as its first. */
static void worker_begin_anew(struct worker *worker)
{
	calls_fini(&worker->calls);
	worker->seen = false;
}

static void worker_remove(struct task_calls *calls, struct worker *worker)
{
	worker_begin_anew(worker);
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
	if (worker) {
		worker->own_pid = change->own_pid;
		worker->calls.room = &calls->room;
	}
	return worker;
}

static void call_report(const struct task_calls *calls, const struct worker *worker,
			const struct call *running, enum task_call_kind kind, uint64_t end_ns,
			bool runs)
{
	const struct task_call call = {
		.pid = worker->key.pid,
		.own_pid = worker->own_pid,
		.tid = running->tid,
		.start_ns = worker->key.start_ns,
		.title = running->title,
		.class = worker->calls.class ?: "",
		.kind = kind,
		.own = calls_is_step(running->title),
		.before = running->before,
		.runs = runs,
		.chosen = running->chosen,
		.begin_ns = running->begin_ns,
		.end_ns = end_ns > running->begin_ns ? end_ns : running->begin_ns,
	};

	calls->call(calls->arg, &call);
}

static enum task_call_kind kind_of(const struct worker *worker)
{
	return worker->calls.class ? TASK_CALL_ACTOR : TASK_CALL_TASK;
}

/* Ends all calls of the worker. */
static void worker_end(const struct task_calls *calls, struct worker *worker, uint64_t end_ns,
		       bool runs)
{
	const struct call *call;
	size_t i;

	for (i = 0; i < worker->calls.nr_running; i++) {
		call = &worker->calls.running[i];
		call_report(calls, worker, call,
			    call->unclear ? TASK_CALL_UNCLEAR : kind_of(worker), end_ns, runs);
	}
	calls_lose(&worker->calls);
}

/* The calls of the worker ended at an unknown time. */
static void worker_lose(struct task_calls *calls, struct worker *worker, uint32_t lost)
{
	calls_lose(&worker->calls);
	calls->nr_lost += lost;
}

/*
 * A worker that sets titles in other threads does not run calls in its main thread: nothing shows when
 * a call ends whose begin was not seen.
 */
static void polled_forget(struct worker *worker)
{
	struct calls *calls = &worker->calls;

	if (calls->nr_running && calls->running->before)
		calls_remove(calls, calls->running);
}

static struct calls_change calls_change_of(const struct task_change *change)
{
	return (struct calls_change){
		.ts_ns = change->ts_ns,
		.sp = change->sp,
		.tid = change->tid,
		.main_thread = change->main_thread,
		.title = change->title,
		.old_comm = change->old_comm,
	};
}

static void title_change(struct task_calls *calls, struct worker *worker,
			 const struct task_change *change)
{
	const struct calls_change to = calls_change_of(change);
	struct call *ended;
	bool known;
	int begun;

	/* The poll came after this change, so it knew the change already. */
	if (change->ts_ns < worker->polled_ns) {
		worker_begin_anew(worker);
		worker->polled_ns = 0;
	}
	if (!change->main_thread)
		polled_forget(worker);
	if (change->lost)
		worker_lose(calls, worker, change->lost);
	ended = calls_ended_by(&worker->calls, &to);
	if (!change->lost && !calls_is_change(&worker->calls, ended, &to))
		return;
	/* Only a task is followed by the idle title. */
	if (ended && (!ended->unclear || calls_is_idle(change->title)))
		call_report(calls, worker, ended, kind_of(worker), change->ts_ns, false);
	known = ended || change->main_thread;
	begun = calls_see(&worker->calls, ended, &to);
	worker->seen = true;
	if (begun > 0)
		worker->calls.running[worker->calls.nr_running - 1].chosen = change->chosen;
	calls->nr_no_room += begun < 0;
	calls->nr_no_begin += !begun && !known && change->chosen;
}

void task_calls_see(struct task_calls *calls, const struct task_change *change)
{
	struct worker *worker = worker_get(calls, change);

	if (worker)
		title_change(calls, worker, change);
	else
		calls->nr_no_room++;
}

void task_calls_poll(struct task_calls *calls, const struct task_change *change, uint64_t begin_ns)
{
	const struct calls_change to = calls_change_of(change);
	struct worker *worker = worker_get(calls, change);
	struct call *call = NULL;
	int begun;

	if (worker && worker->seen)
		return;
	/* Without an earlier name, a title without a method stays unclear. */
	begun = worker ? calls_see(&worker->calls, calls_ended_by(&worker->calls, &to), &to)
		       : -ENOSPC;
	if (begun > 0) {
		call = worker->calls.running;
	} else if (!begun && !calls_is_idle(change->title)) {
		calls_lose(&worker->calls);
		call = calls_add(&worker->calls, &to);
	}
	if (begun < 0) {
		calls->nr_no_room++;
		return;
	}
	worker->seen = true;
	worker->polled_ns = change->ts_ns;
	if (!call)
		return;
	call->before = true;
	call->unclear = !begun;
	call->chosen = change->chosen;
	call->begin_ns = begin_ns;
}

bool task_calls_lose(struct task_calls *calls, uint32_t pid, uint64_t start_ns, uint32_t lost)
{
	struct worker *worker = lost ? process_map_find(&calls->workers, pid, start_ns) : NULL;
	bool chosen = false;
	size_t i;

	if (!worker)
		return false;
	for (i = 0; i < worker->calls.nr_running; i++)
		chosen |= worker->calls.running[i].chosen;
	worker_lose(calls, worker, lost);
	return chosen;
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

uint64_t task_calls_nr_no_begin(const struct task_calls *calls)
{
	return calls->nr_no_begin;
}
