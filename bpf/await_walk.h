/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef BPFPROF_BPF_AWAIT_WALK_H
#define BPFPROF_BPF_AWAIT_WALK_H

/* The state of the walk of unwind_awaiters.h, and its limits. */

#include "unwind_python.h"

#define AWAIT_CANDIDATES 8 /* tasks that run at once in a process; a power of two */
#define AWAIT_STEPS 1024
#define AWAIT_RUNNING_STEPS 128 /* from the running tasks to the frames of their coroutines */
#define AWAIT_DICT_ENTRIES 32 /* of the dict of running tasks, the newest */
#define AWAIT_SOURCES 16 /* a power of two */
#define AWAIT_MAX_DEPTH 4 /* futures that wait for futures */
#define AWAIT_MAX_BASES 8 /* base classes of one class */
#define AWAIT_MAX_CALLBACKS 8 /* of one future, behind the first */
#define AWAIT_MAX_HELD 16 /* by one callback */
#define AWAIT_MAX_ATTRIBUTES 32 /* of a TaskGroup */
#define AWAIT_MAX_SET 64 /* places of a set of tasks */
#define AWAIT_MAX_STACK (1U << 20) /* bytes of the values of one frame */
#define AWAIT_TAG_INT 3 /* a small number in place of a reference (3.14+) */
#define BPFPROF_AWAIT_HIDDEN 1
#define AWAIT_NAME_WORDS 4

enum await_kind {
	AWAIT_OTHER, /* perhaps its base class is one of these */
	AWAIT_COROUTINE, /* suspended only where it awaits */
	AWAIT_GENERATOR, /* may be suspended at a plain yield, too */
	AWAIT_WRAPPER, /* its first word is the awaited object */
	AWAIT_PREFIXED, /* a type of Cython: its name goes on behind w->prefix */
	AWAIT_TASK, /* of _asyncio */
	AWAIT_FUTURE,
	AWAIT_FUNCTION,
	AWAIT_PARTIAL,
	AWAIT_METHOD, /* of a class that is written in Python */
	AWAIT_BUILTIN, /* function or method that is written in C */
	AWAIT_WAKEUP, /* up to 3.9: the same for tasks */
	AWAIT_GROUP,
	AWAIT_LIST,
	AWAIT_PYTHON, /* a task or future that is written in Python */
};

/* The walk holds an object in hand for one of these purposes. */
enum await_role {
	AWAIT_IS_CHAIN, /* part of a chain of coroutines */
	AWAIT_IS_RUNNING, /* part of that of a running task, down to its first frame */
	AWAIT_IS_CALLBACK,
	AWAIT_IS_ENTRY, /* a tuple whose first item is a callback */
	AWAIT_IS_LIST, /* of these */
	AWAIT_IS_CELL, /* of a closure; its contents are held */
	AWAIT_IS_HELD, /* by a callback */
	AWAIT_IS_WAKER, /* the object of a method in C */
	AWAIT_IS_GROUP, /* the object of a method in Python */
	AWAIT_IS_AWAITER, /* if it is a task, it awaits */
};

/* A row of pointers to objects. */
struct await_source {
	__u64 at; /* address of the next pointer */
	__u64 future; /* whose callbacks they are, or belong to */
	__u32 left;
	__u32 stride; /* bytes */
	__u32 role; /* enum await_role */
	__u32 depth;
};

struct await_walk {
	struct bpfprof_async a;
	__u64 tasks[AWAIT_CANDIDATES]; /* tasks that run in the process */
	__u64 frames[AWAIT_CANDIDATES]; /* their coroutines, then the outermost frames of these */
	__u64 task; /* the task whose awaiter is looked for */
	__u64 va; /* the object in hand */
	__u64 exact; /* its type */
	__u64 type; /* the class to look at next: exact or a base of it; 0: none yet */
	__u64 member; /* address of the field that exact describes next; 0: none */
	__u64 undescribed; /* a type whose fields were looked at: none is that of the awaited object */
	struct await_source source; /* of the object in hand */
	struct await_source sources[AWAIT_SOURCES];
	__u32 nr_sources;
	__u32 nr_bases;
	__u32 nr_members;
	__u32 prefix; /* bytes of the name of the type that are skipped */
	__u32 nr_candidates;
	__u32 nr_tasks; /* that await */
	__u32 nr; /* words */
	__u32 stop; /* enum bpfprof_await_stop */
	__u32 flags; /* BPFPROF_AWAIT_* */
	__u32 faulted; /* the present search could not read some object */
	__u32 cut; /* or left some out */
	__u32 python; /* or met a task that is written in Python */
	__u64 name[AWAIT_NAME_WORDS];
	__u32 nr_found; /* candidates whose frames were looked for */
	__u32 nr_framed; /* candidates that have frames */
	__u64 read[4];
	struct python_walk walk; /* of one frame */
	__u64 words[BPFPROF_MAX_AWAITERS + 1];
};

#endif
