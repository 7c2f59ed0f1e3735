/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_RAY_CALLS_H
#define BPFPROF_RAY_CALLS_H

/*
 * The calls of one Ray worker, recognized by the changes of its title (Ray 2.60,
 * python/ray/_raylet.pyx). While a method of an actor runs, the title is `ray::Class.method` or, with
 * .options(name=), `ray::NAME`; between two methods it is `ray::Class`. For a task it is `ray::task`
 * and then `ray::IDLE`. A title without a method can be a call or rest: `ray::Class` is rest once a
 * call of that class was seen. A title that is cut at TITLE_MAX counts as it is.
 */

#include <stdbool.h>

#include "proc/title.h"

enum calls_state {
	CALLS_UNKNOWN = 0, /* before the first change, or after lost changes */
	CALLS_REST,
	CALLS_CALL,
};

/* All zero to begin with; calls_fini() frees its memory and leaves it all zero. */
struct calls {
	enum calls_state state;
	char *class; /* the title of the actor at rest; NULL: not known */
};

void calls_fini(struct calls *calls);

/* Changes of the title were lost. */
void calls_lose(struct calls *calls);

/*
 * The worker has a new title (of proc/title.h); wanted: a filter chooses it. old_comm (with a NUL) is
 * the name that the thread had until now: the beginning of the old title, unless the program set
 * another name. Afterwards the old call has ended, and state says whether a new one has begun.
 */
void calls_see(struct calls *calls, const char *title, bool wanted, const char *old_comm);

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
