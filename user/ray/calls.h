/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_RAY_CALLS_H
#define BPFPROF_RAY_CALLS_H

/*
 * The calls of one Ray worker, recognized by the changes of its title (Ray 2.60,
 * python/ray/_raylet.pyx). While a method of an actor runs, the title is `ray::Class.method` or, with
 * .options(name=), `ray::NAME`; between two methods it is `ray::Class`. For a task it is `ray::task`
 * and then `ray::IDLE`. A title without a method can be a call or rest: `ray::Class` is rest once a
 * call of that class was seen. A name may have a dot, too: once the title of the class was seen at rest, it stays
 * until the worker is idle. A title that is cut at TITLE_MAX counts as it is.
 *
 * Calls of an actor may overlap, but the same stack that sets the title of a call sets the title at
 * its end. A thread of a pool has one stack. The calls of an asyncio actor run in one thread, each in a
 * fiber: a stack of its own, 256 KiB apart from others in Ray 2.60, where the stack pointers at begin
 * and end of a call differ by 192 bytes. So a change ends the call of its thread that began nearest to
 * its stack pointer, at most CALLS_STACK_BYTES away. Ray has no fibers in the main thread, so there
 * each change ends the call.
 *
 * Bounds: a worker has at most CALLS_MAX calls in flight, and 1/CALLS_ROOM_SHARE of the bytes of the struct
 * calls_room that all workers share.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proc/title.h"

#define CALLS_MAX 1024
#define CALLS_ROOM_SHARE 32
#define CALLS_STACK_BYTES (32U << 10)

enum calls_state {
	CALLS_UNKNOWN = 0, /* before the first change, or after lost changes */
	CALLS_REST,
	CALLS_CALL,
};

/* A thread sets the title. */
struct calls_change {
	uint64_t ts_ns;
	uint64_t sp; /* the thread's stack pointer in user space; of no use in the main thread */
	uint32_t tid;
	bool main_thread;
	bool wanted; /* a filter chooses the title */
	const char *title; /* of proc/title.h */
	/*
	 * The name that the thread had until now, with a NUL: the beginning of the thread's last
	 * title, unless the program set another name.
	 */
	const char *old_comm;
};

/* A call in flight. */
struct call {
	uint64_t sp, begin_ns; /* of the change that began it */
	uint32_t tid;
	bool main_thread;
	bool chosen, before, unclear; /* for the caller; false to begin with */
	char *title;
};

/* Bytes of titles and calls in flight, of all workers that share it. */
struct calls_room {
	size_t bytes, max;
};

/* All zero but the room to begin with; calls_fini() frees its memory and leaves it like that. */
struct calls {
	struct calls_room *room;
	enum calls_state state; /* of the main thread */
	char *rest; /* the main thread's title if no call of it is in flight; NULL: not known */
	char *class; /* the title of the actor at rest; NULL: not known */
	bool class_rested; /* that title was seen at rest: it is certain */
	size_t bytes; /* of room */
	struct call *running; /* in the order of their begin */
	size_t nr_running, cap_running;
};

void calls_fini(struct calls *calls);

/* Changes of the title were lost: no call in flight is known any more. */
void calls_lose(struct calls *calls);

/* The call that a change ends, until calls are added or removed; NULL: none in flight. */
struct call *calls_ended_by(const struct calls *calls, const struct calls_change *change);
/* False: the title is the same, only a thread got a name. ended: of calls_ended_by(). */
bool calls_is_change(const struct calls *calls, const struct call *ended,
		     const struct calls_change *change);
/*
 * Removes the call that a change ends (of calls_ended_by()), and adds the one that it begins. 1: a call has begun, it is the
 * last one of running; 0: rest; -ENOSPC: no room, the call that may have begun is not known.
 */
int calls_see(struct calls *calls, struct call *ended, const struct calls_change *change);
/* Adds a call with that title. NULL: no room. */
struct call *calls_add(struct calls *calls, const struct calls_change *change);
void calls_remove(struct calls *calls, struct call *call);

/*
 * The method in a title: the part behind the last dot outside of brackets, such as `submit` in
 * `ray::MapWorker(Map(a.b)).submit`; or NULL.
 */
const char *calls_method(const char *title);

bool calls_is_idle(const char *title); /* of a worker between two tasks; no actor */

/*
 * Is the call with this title one of the program's own? The constructor of an actor is none, and
 * neither are calls that Ray makes, as by actor.__ray_ready__.remote().
 */
bool calls_is_step(const char *title);

#endif
