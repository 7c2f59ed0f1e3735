/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TASKS_TASK_CALLS_H
#define BPFPROF_TASKS_TASK_CALLS_H

/*
 * Room tasks: puts Ray calls on a time line, and says how long they took.
 *
 * The calls of Ray workers, when they began and ended, told from how the workers' titles change
 * (ray/calls.h). A worker whose methods run in threads of their own has calls that overlap, of
 * which its one title does not tell: nothing is told of it from then on. Bounded:
 * as many workers at once as task_calls_new() says, and TASK_CALLS_MAX_BYTES of their titles; changes
 * of more are counted as left out.
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
	uint32_t pid; /* by which the worker is known in samples */
	uint32_t own_pid; /* told of its calls; 0: not known */
	uint64_t start_ns; /* of the process */
	uint64_t ts_ns; /* of the change, CLOCK_MONOTONIC */
	bool main_thread;
	bool chosen; /* whoever made task_calls wants to hear of a call that begins with it */
	uint32_t lost; /* changes before this one that were not told */
	const char *title; /* of proc/title.h */
	const char *old_comm; /* what the thread was named until then, with a NUL */
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
	/* A title without method, all the time: a task that runs, or an actor that rests. */
	TASK_CALL_UNCLEAR,
};

struct task_call {
	uint32_t pid, own_pid;
	uint64_t start_ns; /* of the process */
	const char *title;
	const char *class; /* the title of the actor at rest; "": of none */
	enum task_call_kind kind;
	bool own; /* one of the program's: no constructor, nor what Ray calls */
	bool before; /* it ran already when it was first seen, which is what begin_ns is */
	bool runs; /* it had not ended: end_ns is now */
	bool chosen; /* of the change that it began with */
	uint64_t begin_ns, end_ns;
};

/* call(): of each, as it ends; borrowed. 0 or -ENOMEM. */
int task_calls_new(struct task_calls **ret, size_t max_workers,
		   void (*call)(void *arg, const struct task_call *call), void *arg);
void task_calls_free(struct task_calls *calls); /* NULL is fine */

/* What the stream tells, in its order. */
void task_calls_see(struct task_calls *calls, const struct task_change *change);
/*
 * So many changes of a worker were lost after the last one: what it was in has ended, nobody knows when.
 * Whether that one was chosen; false: no such worker.
 */
bool task_calls_lose(struct task_calls *calls, uint32_t pid, uint64_t start_ns, uint32_t lost);
/* The worker has ended, and with it the call that it was in. */
void task_calls_exit(struct task_calls *calls, uint32_t pid, uint64_t start_ns, uint64_t ts_ns);
/*
 * This is the title of a worker at change->ts_ns, and it may have been for long: what it is in
 * began at begin_ns, as far as it is told. Only before the first change of that worker.
 */
void task_calls_poll(struct task_calls *calls, const struct task_change *change, uint64_t begin_ns);
/* All that runs has run until now_ns. To be called once, before the next. */
void task_calls_close(struct task_calls *calls, uint64_t now_ns);

uint64_t task_calls_nr_left_out(const struct task_calls *calls); /* changes, */
uint64_t task_calls_nr_no_room(const struct task_calls *calls); /* of these: too many workers */
uint64_t task_calls_nr_in_threads(const struct task_calls *calls); /* workers */

#endif
