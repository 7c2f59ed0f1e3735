/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TASKS_TASK_CALLS_H
#define BPFPROF_TASKS_TASK_CALLS_H

/*
 * Room tasks: puts Ray calls on a time line, and says how long they took.
 *
 * This file: the begin and end of the calls of Ray workers, recognized by the changes of their titles
 * (ray/calls.h). Calls of one worker may overlap. Bounds: the workers at once that task_calls_new()
 * allows, CALLS_MAX calls in flight of each, and TASK_CALLS_MAX_BYTES of calls and titles; changes
 * beyond them are counted as left out.
 */

#include <stdbool.h>
#include <stdint.h>

#include "proc/title.h"
#include "bpfprof.h"

#define TASK_CALLS_MAX_BYTES (8U << 20)

struct session;
struct task_calls;

/* A worker has a new title. */
struct task_change {
	uint32_t pid; /* of the worker, as in samples */
	uint32_t own_pid; /* in our own pid namespace, 0: not known */
	uint64_t start_ns; /* of the process */
	uint64_t ts_ns; /* of the change, CLOCK_MONOTONIC */
	bool main_thread;
	uint32_t tid;
	uint64_t sp; /* as in struct calls_change */
	bool chosen; /* the caller wants a call that begins with this title */
	uint32_t lost; /* changes right before this one that were lost */
	const char *title; /* of proc/title.h */
	const char *old_comm; /* the name of the thread until then, with a NUL */
};

/* The texts of a change that an event reports. */
struct task_change_texts {
	char title[TITLE_MAX + 1], old_comm[BPFPROF_COMM_LEN + 1];
};

/* The change that an event of the stream reports, not chosen. -EINVAL: the title is none of Ray's. */
int task_change_read(struct task_change *ret, struct task_change_texts *texts,
		     const struct session *session, const struct bpfprof_title_event *event);

enum task_call_kind {
	TASK_CALL_INVALID = 0,
	TASK_CALL_TASK,
	TASK_CALL_ACTOR, /* a method, or a call with a name of its own */
	/* The title never had a method: a task that runs, or an actor that rests. */
	TASK_CALL_UNCLEAR,
};

struct task_call {
	uint32_t pid, own_pid;
	uint32_t tid; /* of the thread that set the title, in the namespace of pid */
	uint64_t start_ns; /* of the process */
	const char *title;
	const char *class; /* the title of the actor at rest, "": no actor */
	enum task_call_kind kind;
	bool own; /* a call of the program: no constructor, no call that Ray makes */
	bool before; /* it began before begin_ns, when it was first seen */
	bool runs; /* it has not ended: end_ns is now */
	bool chosen; /* as in the change that began it */
	uint64_t begin_ns, end_ns;
};

/* call() gets each call as it ends; borrowed. 0 or -ENOMEM. */
int task_calls_new(struct task_calls **ret, size_t max_workers,
		   void (*call)(void *arg, const struct task_call *call), void *arg);
void task_calls_free(struct task_calls *calls); /* NULL is fine */

/* A change of a title, in the order of the stream. */
void task_calls_see(struct task_calls *calls, const struct task_change *change);
/*
 * So many changes of a worker were lost after the last one: its calls have ended at an unknown time.
 * Returns whether one of them was chosen; false: no such worker.
 */
bool task_calls_lose(struct task_calls *calls, uint32_t pid, uint64_t start_ns, uint32_t lost);
/* The worker has exited, which ends its calls. */
void task_calls_exit(struct task_calls *calls, uint32_t pid, uint64_t start_ns, uint64_t ts_ns);
/*
 * The title of a worker as it was read at change->ts_ns: its call is taken to have begun at begin_ns.
 * Only before the first change of that worker.
 */
void task_calls_poll(struct task_calls *calls, const struct task_change *change, uint64_t begin_ns);
/* Ends all calls that run at now_ns. Call it once, before the counters below. */
void task_calls_close(struct task_calls *calls, uint64_t now_ns);

uint64_t task_calls_nr_left_out(const struct task_calls *calls); /* changes */
uint64_t
task_calls_nr_no_room(const struct task_calls *calls); /* of these: because of too many workers */
/* Calls that ended, but whose begin was not seen: of workers whose calls overlap. */
uint64_t task_calls_nr_no_begin(const struct task_calls *calls);

#endif
