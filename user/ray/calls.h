/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_RAY_CALLS_H
#define BPFPROF_RAY_CALLS_H

/*
 * The calls of one Ray worker, told from how its title changes (Ray 2.60, python/ray/_raylet.pyx):
 * `ray::Class.method` or, with .options(name=), `ray::NAME` as long as an actor's method runs,
 * `ray::Class` between two; `ray::task` and `ray::IDLE` of a task. A title without a method is a
 * call or rest, as is known of the worker by then: `ray::Class` is rest once a call of the class
 * was seen. Titles that are cut at TITLE_MAX count for what is left of them.
 */

#include <stdbool.h>

#include "proc/title.h"

enum calls_state {
	CALLS_UNKNOWN = 0, /* before the first change that was seen, or after lost ones */
	CALLS_REST,
	CALLS_CALL,
};

/* All zero to begin with; calls_fini() frees what it comes to hold, and it is all zero again. */
struct calls {
	enum calls_state state;
	char *class; /* the title of an actor at rest; NULL: not known */
};

void calls_fini(struct calls *calls);

/* Changes were lost. */
void calls_lose(struct calls *calls);

/*
 * The title is this one from now on (of proc/title.h); wanted: it was asked for. old_comm (with a NUL)
 * was the name of the thread until then: the beginning of the title before, unless the program gave
 * itself another. Afterwards state says whether a call has begun; what ran before has ended.
 */
void calls_see(struct calls *calls, const char *title, bool wanted, const char *old_comm);

bool calls_is_idle(const char *title); /* of a worker between two tasks, that is no actor */

/*
 * Is the call with this title one of the program's own? Not an actor's constructor, nor what
 * Ray calls in it, as by actor.__ray_ready__.remote().
 */
bool calls_is_step(const char *title);

#endif
