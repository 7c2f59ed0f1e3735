// SPDX-License-Identifier: Apache-2.0
#include "ray/calls.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

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
static bool begins_rest(const char *title, const char *comm)
{
	size_t len = strnlen(title, COMM_MAX);

	/*
	 * Between calls the thread's name is that of a title; within a call it may have another
	 * one.
	 */
	if (strncmp(comm, TITLE_PREFIX, PREFIX_LEN))
		return true;
	return !strncmp(comm, title, len) && (len == COMM_MAX || comm[len] == '.');
}

/* Parses a title without a method. */
static bool begins_call(const struct calls *calls, const char *title, bool wanted,
			const char *old_comm)
{
	if (calls_is_idle(old_comm)) /* an idle worker begins a task */
		return true;
	if (calls->class)
		return strcmp(calls->class, title) != 0;
	/* The title may be a class or a call. If a filter matches it, it is a call. */
	if (!wanted || calls->state == CALLS_CALL)
		return false;
	return calls->state == CALLS_REST || !begins_rest(title, old_comm);
}

static void class_forget(struct calls *calls)
{
	free(calls->class);
	calls->class = NULL;
}

void calls_fini(struct calls *calls)
{
	class_forget(calls);
	calls->state = CALLS_UNKNOWN;
}

void calls_lose(struct calls *calls)
{
	calls->state = CALLS_UNKNOWN;
}

void calls_see(struct calls *calls, const char *title, bool wanted, const char *old_comm)
{
	const char *method = calls_method(title);

	if (calls_is_idle(title)) {
		class_forget(calls);
		calls->state = CALLS_REST;
	} else if (method) {
		if (title_keep(&calls->class, title, (size_t)(method - title) - 1))
			class_forget(calls);
		calls->state = CALLS_CALL;
	} else {
		calls->state =
			begins_call(calls, title, wanted, old_comm) ? CALLS_CALL : CALLS_REST;
	}
}

bool calls_is_step(const char *title)
{
	const char *method = calls_method(title);

	return !method || (strcmp(method, "__init__") && strncmp(method, "__ray_", 6));
}
