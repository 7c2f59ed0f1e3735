// SPDX-License-Identifier: Apache-2.0
#include "ray/calls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

#define PREFIX_LEN (sizeof(TITLE_PREFIX) - 1)
#define IDLE TITLE_PREFIX "IDLE"
#define COMM_MAX 15
#define CUT_LEN 3 /* "..." */

const char *calls_method(const char *title)
{
	size_t len = strlen(title), depth = 0, i;
	const char *method = NULL;

	if (len == TITLE_MAX)
		len -= CUT_LEN;
	for (i = PREFIX_LEN; i < len; i++) {
		if (title[i] == '(')
			depth++;
		else if (title[i] == ')')
			depth -= depth > 0;
		else if (title[i] == '.' && !depth && i > PREFIX_LEN && i + 1 < len)
			method = title + i + 1;
	}
	return method;
}

bool calls_is_idle(const char *title)
{
	return !strncmp(title, IDLE, sizeof(IDLE) - 1) &&
	       (!title[sizeof(IDLE) - 1] || title[sizeof(IDLE) - 1] == '_');
}

/*
 * Does the rest of a call begin with this title? The earlier state is not known, but the thread's
 * name was comm.
 */
static bool begins_rest(const struct calls_change *change)
{
	size_t len = strnlen(change->title, COMM_MAX);
	const char *comm = change->old_comm;

	/*
	 * Between calls the thread's name is that of a title; within a call it may have another
	 * one.
	 */
	if (strncmp(comm, TITLE_PREFIX, PREFIX_LEN))
		return true;
	if (strncmp(comm, change->title, len))
		return false;
	/* Two fibers of a thread may rest one after the other. */
	return len == COMM_MAX || comm[len] == '.' || (!change->main_thread && !comm[len]);
}

/* Parses a title without a method. state: of the stack that set it. */
static bool begins_call(const struct calls *calls, const struct calls_change *change,
			enum calls_state state)
{
	if (calls_is_idle(change->old_comm)) /* an idle worker begins a task */
		return true;
	if (calls->class)
		return strcmp(calls->class, change->title) != 0;
	/* The title may be a class or a call. If a filter matches it, it is a call. */
	if (!change->wanted || state == CALLS_CALL)
		return false;
	return state == CALLS_REST || !begins_rest(change);
}

/* Takes bytes of the room. */
static bool room_take(struct calls *calls, size_t bytes)
{
	if (bytes > calls->room->max - calls->room->bytes ||
	    bytes > calls->room->max / CALLS_ROOM_SHARE - calls->bytes)
		return false;
	calls->room->bytes += bytes;
	calls->bytes += bytes;
	return true;
}

static void room_give(struct calls *calls, size_t bytes)
{
	calls->room->bytes -= bytes;
	calls->bytes -= bytes;
}

/* Frees a title, and gives its room back. */
static void text_free(struct calls *calls, char **text)
{
	if (*text)
		room_give(calls, strlen(*text) + 1);
	free(*text);
	*text = NULL;
}

/* *text, NULL or a title, becomes a copy of len bytes of title. False: no room, *text is NULL. */
static bool text_keep(struct calls *calls, char **text, const char *title, size_t len)
{
	len = strnlen(title, len);
	if (*text && strlen(*text) == len && !memcmp(*text, title, len))
		return true;
	text_free(calls, text);
	if (!room_take(calls, len + 1))
		return false;
	if (!title_keep(text, title, len))
		return true;
	room_give(calls, len + 1);
	return false;
}

void calls_remove(struct calls *calls, struct call *call)
{
	size_t behind = (size_t)(calls->running + --calls->nr_running - call);

	text_free(calls, &call->title);
	room_give(calls, sizeof(*call));
	memmove(call, call + 1, behind * sizeof(*call));
}

void calls_lose(struct calls *calls)
{
	while (calls->nr_running)
		calls_remove(calls, &calls->running[calls->nr_running - 1]);
	calls->state = CALLS_UNKNOWN;
}

void calls_fini(struct calls *calls)
{
	calls_lose(calls);
	text_free(calls, &calls->class);
	text_free(calls, &calls->rest);
	free(calls->running);
	*calls = (struct calls){ .room = calls->room };
}

struct call *calls_add(struct calls *calls, const struct calls_change *change)
{
	struct call call = { .sp = change->sp,
			     .begin_ns = change->ts_ns,
			     .tid = change->tid,
			     .main_thread = change->main_thread };

	if (!room_take(calls, sizeof(call)))
		return NULL;
	if (vec_grow(calls->running, calls->nr_running + 1, calls->cap_running, CALLS_MAX) ||
	    !text_keep(calls, &call.title, change->title, SIZE_MAX)) {
		room_give(calls, sizeof(call));
		return NULL;
	}
	calls->running[calls->nr_running] = call;
	return &calls->running[calls->nr_running++];
}

struct call *calls_ended_by(const struct calls *calls, const struct calls_change *change)
{
	uint64_t nearest = CALLS_STACK_BYTES, away;
	struct call *found = NULL, *call;

	for (size_t i = 0; i < calls->nr_running; i++) {
		call = &calls->running[i];
		if (call->main_thread || change->main_thread) {
			if (call->main_thread && change->main_thread)
				return call;
			continue;
		}
		away = call->sp > change->sp ? call->sp - change->sp : change->sp - call->sp;
		if (call->tid != change->tid || away > nearest)
			continue;
		nearest = away;
		found = call;
	}
	return found;
}

bool calls_is_change(const struct calls *calls, const struct call *ended,
		     const struct calls_change *change)
{
	const char *title = ended ? ended->title : change->main_thread ? calls->rest : NULL;

	return !title || strcmp(title, change->title) != 0;
}

/* The state of the stack that made a change, by its new title. */
static enum calls_state state_of(struct calls *calls, const struct calls_change *change,
				 enum calls_state before)
{
	const char *method = calls_method(change->title);

	if (calls_is_idle(change->title)) {
		text_free(calls, &calls->class);
		calls->class_rested = false;
		return CALLS_REST;
	}
	if (!method && !begins_call(calls, change, before)) {
		calls->class_rested |= calls->class && !strcmp(calls->class, change->title);
		return CALLS_REST;
	}
	if (method && !calls->class_rested)
		text_keep(calls, &calls->class, change->title,
			  (size_t)(method - change->title) - 1);
	return CALLS_CALL;
}

int calls_see(struct calls *calls, struct call *ended, const struct calls_change *change)
{
	enum calls_state state = change->main_thread ? calls->state
				 : ended	     ? CALLS_CALL
						     : CALLS_UNKNOWN;

	if (ended)
		calls_remove(calls, ended);
	state = state_of(calls, change, state);
	if (change->main_thread) {
		text_free(calls, &calls->rest);
		calls->state = state;
	}
	if (state == CALLS_CALL) {
		/* Without its class, a method would look like a task. */
		if (!calls->class && calls_method(change->title))
			return -ENOSPC;
		return calls_add(calls, change) ? 1 : -ENOSPC;
	}
	if (change->main_thread && !text_keep(calls, &calls->rest, change->title, SIZE_MAX))
		return -ENOSPC;
	return 0;
}

bool calls_is_step(const char *title)
{
	const char *method = calls_method(title);

	return !method || (strcmp(method, "__init__") && strncmp(method, "__ray_", 6));
}
