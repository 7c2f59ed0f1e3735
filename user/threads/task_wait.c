// SPDX-License-Identifier: Apache-2.0
#include "threads/task_wait.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strtab.h"
#include "base/text.h"
#include "python/async_objects.h"
#include "python/chain.h"
#include "python/code_read.h"
#include "python/heap.h"
#include "python/locals.h"
#include "threads/thread_dump.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define TEXT_BYTES 512
#define REPR_CHARS 32
#define MAX_CELLS 16 /* of a closure */

/* Functions of asyncio in which tasks wait; a name is the last part of the qualified one. */
static const struct place {
	const char *file, *function;
	const char *kind, *words;
	const char *
		variable; /* with the number of seconds, or of a socket; or "self" with it inside */
} places[] = {
	{ "asyncio/tasks.py", "sleep", "timer", "a timer", "delay" },
	{ "asyncio/tasks.py", "wait_for", "task", "a task or future, with a time limit", NULL },
	{ "asyncio/tasks.py", "_wait", "tasks", "some of several tasks (wait)", NULL },
	{ "asyncio/tasks.py", "_cancel_and_wait", "task", "a task that it cancelled", NULL },
	{ "asyncio/taskgroups.py", "__aexit__", "tasks", "the tasks of its group", NULL },
	{ "asyncio/taskgroups.py", "_aexit", "tasks", "the tasks of its group", NULL },
	{ "asyncio/queues.py", "get", "queue", "an item of a queue", NULL },
	{ "asyncio/queues.py", "put", "queue", "room in a queue", NULL },
	{ "asyncio/locks.py", "acquire", "lock", "a lock or semaphore", NULL },
	{ "asyncio/locks.py", "wait", "event", "an event or condition", NULL },
	{ "asyncio/locks.py", "_block", "event", "a barrier", NULL },
	{ "asyncio/locks.py", "_wait", "event", "a barrier", NULL },
	{ "asyncio/streams.py", "_wait_for_data", "socket", "data from a stream", "self" },
	{ "asyncio/streams.py", "_drain_helper", "socket", "room in a stream", "self" },
	{ "asyncio/selector_events.py", "sock_recv", "socket", "data from a socket", "fd" },
	{ "asyncio/selector_events.py", "sock_recv_into", "socket", "data from a socket", "fd" },
	{ "asyncio/selector_events.py", "sock_recvfrom", "socket", "data from a socket", "fd" },
	{ "asyncio/selector_events.py", "sock_sendall", "socket", "room in a socket", "fd" },
	{ "asyncio/selector_events.py", "sock_sendto", "socket", "room in a socket", "fd" },
	{ "asyncio/selector_events.py", "sock_accept", "socket", "a connection to a socket", "fd" },
	{ "asyncio/selector_events.py", "sock_connect", "socket", "a connection to be made", "fd" },
	{ "asyncio/base_subprocess.py", "_wait", "process", "a child process", NULL },
};

bool task_wait_is_future(struct python_heap *heap, uint64_t va)
{
	return python_is_a(heap, va, "_asyncio.Future") ||
	       python_attribute(heap, va, "_asyncio_future_blocking") ||
	       python_attribute(heap, va, "_callbacks");
}

static const struct place *place_find(const struct python_code *code)
{
	const char *dot = strrchr(code->name, '.'), *name = dot ? dot + 1 : code->name;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(places); i++)
		if (!strcmp(name, places[i].function) && text_ends(code->file, places[i].file))
			return &places[i];
	return NULL;
}

/* A variable of the innermost frame: its value, and its text in room. 0: there is none. */
static uint64_t variable_find(const struct task_wait_view *view, const char *name,
			      char room[REPR_CHARS * 4])
{
	const struct python_chain_frame *frame = &view->chain->frames[0];
	struct python_locals locals = { 0 };
	uint64_t va = 0;
	size_t i;

	if (python_locals_read(&locals, view->heap, frame->code, frame->frame_va, REPR_CHARS))
		return 0;
	for (i = 0; i < locals.nr && !va; i++) {
		if (strcmp(locals.locals[i].name, name))
			continue;
		va = locals.locals[i].va;
		snprintf(room, REPR_CHARS * 4, "%s", locals.locals[i].repr);
	}
	python_locals_fini(&locals);
	return va;
}

/* A stream has a transport, and that of asyncio's own loops the number of its socket. */
static int64_t stream_file(struct python_heap *heap, uint64_t stream)
{
	uint64_t transport = python_attribute(heap, stream, "_transport"), number;
	int64_t file;

	number = transport ? python_attribute(heap, transport, "_sock_fd") : 0;
	return number && !python_heap_int(heap, number, &file) ? file : -1;
}

static void details_read(const struct task_wait_view *view, const struct place *place,
			 struct task_wait *ret)
{
	char repr[REPR_CHARS * 4], *end;
	uint64_t va = variable_find(view, place->variable, repr);
	double number;

	if (!va)
		return;
	if (!strcmp(place->variable, "self")) {
		ret->file = stream_file(view->heap, va);
		return;
	}
	number = strtod(repr, &end);
	/* A text that fills the room may have lost digits. */
	if (*end || end == repr || !isfinite(number) || number < 0 ||
	    strlen(repr) == sizeof(repr) - 1)
		return;
	if (!strcmp(place->kind, "timer"))
		ret->seconds = number;
	else if (number <= INT32_MAX)
		ret->file = (int64_t)number;
}

static bool wait_by_place(const struct task_wait_view *view, struct task_wait *ret)
{
	const struct python_code *code;
	const struct place *place;
	char text[TEXT_BYTES];

	if (!view->chain->nr_frames || view->chain->frames[0].lasti == PYTHON_CHAIN_NO_FRAME)
		return false;
	code = python_code_cache_get(view->codes, view->chain->frames[0].code, NULL);
	place = code ? place_find(code) : NULL;
	if (!place)
		return false;
	ret->kind = place->kind;
	if (view->details && place->variable)
		details_read(view, place, ret);
	if (ret->seconds >= 0)
		snprintf(text, sizeof(text), "%s of %g s", place->words, ret->seconds);
	else if (ret->file >= 0)
		snprintf(text, sizeof(text), "%s (file %lld)", place->words, (long long)ret->file);
	else
		snprintf(text, sizeof(text), "%s", place->words);
	ret->text = strtab_add(view->strings, text);
	return true;
}

static void wait_for_gather(const struct task_wait_view *view, struct task_wait *ret)
{
	uint64_t children, nr = 0;
	char text[TEXT_BYTES];

	children = view->details ? python_attribute(view->heap, view->waiter, "_children") : 0;
	if (!children || python_heap_u64(view->heap, children + view->heap->objects.list_size, &nr))
		nr = 0;
	if (nr)
		snprintf(text, sizeof(text), "%llu tasks (gather)", (unsigned long long)nr);
	else
		snprintf(text, sizeof(text), "several tasks (gather)");
	ret->kind = "gather";
	ret->text = strtab_add(view->strings, text);
}

/*
 * Does the future stand for one of concurrent.futures: a call in another thread or process? Then a callback
 * of it holds the other one, to cancel that.
 */
static bool is_chained(struct python_heap *heap, uint64_t future)
{
	const struct python_heap_layout *l = &heap->objects;
	uint64_t callback, cells, nr, cell, value;

	if (!python_is_a(heap, future, "_asyncio.Future") ||
	    python_heap_u64(heap, future + l->object_size + 8, &callback) ||
	    !python_is_a(heap, callback, "function") ||
	    python_heap_u64(heap, callback + l->function_closure, &cells) || !cells ||
	    !python_is_a(heap, cells, "tuple") || python_heap_u64(heap, cells + l->tuple_size, &nr))
		return false;
	for (uint64_t i = 0; i < nr && i < MAX_CELLS; i++)
		if (!python_heap_u64(heap, cells + l->tuple_items + i * 8, &cell) &&
		    !python_heap_u64(heap, cell + l->cell_value, &value) && value &&
		    python_attribute(heap, value, "_waiters") &&
		    python_attribute(heap, value, "_done_callbacks"))
			return true;
	return false;
}

static void wait_set(const struct task_wait_view *view, struct task_wait *ret, const char *kind,
		     const char *text)
{
	ret->kind = kind;
	ret->text = strtab_add(view->strings, text);
}

void task_wait_find(const struct task_wait_view *view, struct task_wait *ret)
{
	char text[TEXT_BYTES];

	if (!view->waiter) {
		wait_set(view, ret, "turn", "its turn in the loop");
	} else if (view->task) {
		snprintf(text, sizeof(text), "Task '%s'", view->task);
		wait_set(view, ret, "task", view->details ? text : "a task");
		if (view->details)
			ret->task = strtab_add(view->strings, view->task);
	} else if (python_is_a(view->heap, view->waiter, "_GatheringFuture")) {
		wait_for_gather(view, ret);
	} else if (is_chained(view->heap, view->waiter)) {
		wait_set(view, ret, "executor", "a call in another thread or process");
	} else if (!wait_by_place(view, ret)) {
		wait_set(view, ret, "future", "a future");
	}
}
