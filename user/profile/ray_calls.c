// SPDX-License-Identifier: Apache-2.0
#include "profile/ray_calls.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/hash_seed.h"
#include "base/strtab.h"
#include "base/text.h"
#include "profile/piece_set.h"
#include "profile/profile.h"
#include "ray/calls.h"

#define MAX_BYTES (8U << 20) /* of the index of titles */
#define MAX_PROCESSES 16384 /* with those of new titles; samples of further ones keep theirs */

/* The part that a frame has in a call of Ray. */
enum part {
	PART_UNKNOWN = 0, /* not looked at yet */
	PART_NONE, /* of the kernel, another library, or Python's own */
	PART_RAY, /* it calls methods */
	PART_LOOP, /* of an event loop */
	PART_THREAD, /* it starts threads */
	PART_CODE, /* any other Python function */
};

/* A title of a process. */
struct title {
	uint32_t pid, text;
	uint32_t process; /* index + 1 of the process with that title, 0 = there is none */
	bool before_dot; /* it is what stands before the method in another title */
};

struct namer {
	struct profile *profile;
	uint8_t *parts; /* by location */
	struct table_budget budget;
	struct piece_set titles;
	uint64_t seed; /* targets choose their titles */
	size_t max_processes; /* that have room */
};

static bool path_has(const char *path, const char *part)
{
	return strstr(path, part) != NULL;
}

static enum part library_part(const char *path)
{
	const char *name = text_base_name(path);

	if (text_begins(name, "_raylet."))
		return PART_RAY;
	return text_begins(name, "loop.") && path_has(path, "/uvloop/") ? PART_LOOP : PART_NONE;
}

/* Actors of Ray's own libraries (Serve, Data, Train) are code like that of users. */
static enum part code_part(const char *file)
{
	const char *standard = strstr(file, "/lib/python");

	if (file[0] == '<') /* built in, or made of a string */
		return PART_NONE;
	if (path_has(file, "/ray/_private/") || path_has(file, "/ray/util/tracing/"))
		return PART_RAY;
	if (path_has(file, "/asyncio/") || path_has(file, "/uvloop/"))
		return PART_LOOP;
	if (!strcmp(text_base_name(file), "threading.py") ||
	    path_has(file, "/concurrent/futures/thread.py"))
		return PART_THREAD;
	return standard && !path_has(standard, "-packages/") ? PART_NONE : PART_CODE;
}

static enum part part_of(struct namer *n, uint32_t location)
{
	const struct profile *p = n->profile;
	const struct profile_location *loc = &p->locations[location];

	if (n->parts[location])
		return n->parts[location];
	n->parts[location] = PART_NONE;
	if (loc->kind == LOCATION_PYTHON && loc->has_symbol)
		n->parts[location] = code_part(strtab_get(p->strings, loc->file));
	else if (loc->kind == LOCATION_NATIVE && loc->mapping)
		n->parts[location] =
			library_part(strtab_get(p->strings, p->mappings[loc->mapping - 1].path));
	return n->parts[location];
}

/*
 * The frame of the method that a stack is in; NULL: not found. *in_loop: the thread runs an event loop
 * that Ray has begun.
 */
static const struct profile_location *method_find(struct namer *n, uint32_t stack, bool *in_loop)
{
	const struct profile *p = n->profile;
	bool open = false, by_ray = false, loop = false;
	uint32_t at, method = 0;

	*in_loop = false;
	/* From the leaf to the root: the last candidate is the outermost one. */
	stack_each(at, p->stack_callers, stack)
		switch (part_of(n, p->stack_locations[at])) {
		case PART_CODE:
			method = p->stack_locations[at] + 1;
			open = true;
			by_ray = false;
			break;
		case PART_RAY:
			by_ray |= open;
			*in_loop |= loop;
			break;
		case PART_LOOP:
			loop = true;
			open = false;
			break;
		case PART_THREAD:
			open = false;
			break;
		default:
			break;
		}
	return by_ray ? &p->locations[method - 1] : NULL;
}

/* The title of the process, added if it is new; NULL: no memory. */
static struct title *title_put(struct namer *n, uint32_t pid, uint32_t text)
{
	const struct piece_type type = { .bytes = sizeof(struct title),
					 .key_bytes = offsetof(struct title, process) };
	const struct title title = { .pid = pid, .text = text };
	uint32_t i;

	if (piece_set_add(&n->titles, &n->budget, n->seed, &title, type, &i) < 0)
		return NULL;
	return (struct title *)n->titles.items.data + i;
}

/* Bytes of a title before its method; all of it if it has none. */
static size_t class_len(const char *title)
{
	const char *method = calls_method(title);

	return method ? (size_t)(method - title) - 1 : strlen(title);
}

/* "" and "(too many names)" are no titles. */
static bool has_title(const struct profile *p, const struct profile_process *process)
{
	return process->task && text_begins(strtab_get(p->strings, process->task), TITLE_PREFIX);
}

/* Collects the titles that the processes had. */
static int titles_collect(struct namer *n)
{
	struct profile *p = n->profile;
	const struct profile_process *process;
	struct title *title;
	const char *text;
	size_t i;

	for (i = 0; i < p->nr_processes; i++) {
		process = &p->processes[i];
		if (!has_title(p, process))
			continue;
		title = title_put(n, process->kernel_pid, process->task);
		if (!title)
			return -ENOMEM;
		title->process = (uint32_t)i + 1;
		text = strtab_get(p->strings, process->task);
		if (!calls_method(text))
			continue;
		title = title_put(n, process->kernel_pid,
				  strtab_add_len(p->strings, text, class_len(text)));
		if (!title)
			return -ENOMEM;
		title->before_dot = true;
	}
	return 0;
}

/* The last part of a dotted name of `len` bytes, and its length. */
static const char *last_part(const char *name, size_t len, size_t *ret_len)
{
	size_t begin = len;

	while (begin && name[begin - 1] != '.')
		begin--;
	*ret_len = len - begin;
	return name + begin;
}

/* Is the class of a title (`ray::a.Trainer(8)`) that of the function, `Trainer.fit`? */
static bool class_is_of(const char *class, size_t len, const char *function)
{
	size_t function_len, owner_len, class_name_len;
	const char *method = last_part(function, strlen(function), &function_len);
	const char *owner, *name, *paren = memchr(class, '(', len);

	if (method == function)
		return false;
	owner = last_part(function, (size_t)(method - function) - 1, &owner_len);
	class += sizeof(TITLE_PREFIX) - 1;
	len = paren ? (size_t)(paren - class) : len - (sizeof(TITLE_PREFIX) - 1);
	name = last_part(class, len, &class_name_len);
	return owner_len == class_name_len && !memcmp(owner, name, owner_len);
}

/* The process as it is with that title. Its index + 1, 0: there is no room. */
static uint32_t process_titled(struct namer *n, uint32_t process, uint32_t text)
{
	struct profile *p = n->profile;
	struct title *title = title_put(n, p->processes[process].kernel_pid, text);
	size_t twice = 2 * n->max_processes;
	struct profile_process *to;

	if (!title || title->process)
		return title ? title->process : 0;
	if (p->nr_processes == n->max_processes) {
		if (twice > MAX_PROCESSES || !vec_fit(p->processes, twice))
			return 0;
		n->max_processes = twice;
	}
	to = &p->processes[p->nr_processes++];
	*to = p->processes[process];
	to->task = to->title = text;
	title->process = (uint32_t)p->nr_processes;
	return title->process;
}

/* `CLASS.METHOD`, 0: it has no room. */
static uint32_t title_of(struct namer *n, const char *class, size_t len, const char *method)
{
	__cleanup(buf_fini) struct buf name = { .max = TITLE_MAX };

	buf_add(&name, class, len);
	buf_add_str(&name, ".");
	buf_add_str(&name, method);
	return buf_error(&name) ? 0 : strtab_add(n->profile->strings, name.data);
}

/* The title of a sample by its stack; 0: it keeps the one that it has. */
static uint32_t title_by_stack(struct namer *n, const struct profile_sample *sample)
{
	struct profile *p = n->profile;
	const struct profile_process *process = &p->processes[sample->process];
	const char *text = strtab_get(p->strings, process->task), *function;
	const struct profile_location *method;
	size_t len = class_len(text), method_len;
	const struct title *title;
	uint32_t ret;
	bool in_loop;

	method = method_find(n, sample->stack, &in_loop);
	if (!method) {
		if (!in_loop || !text[len])
			return 0;
		title = title_put(n, process->kernel_pid, strtab_add_len(p->strings, text, len));
		return title && title->process && title->before_dot ? title->text : 0;
	}
	function = strtab_get(p->strings, method->name);
	ret = title_of(n, text, len, last_part(function, strlen(function), &method_len));
	if (!ret || !method_len)
		return 0;
	/* Up to Python 3.10 a function has no class in its name, and a class may inherit it. */
	title = title_put(n, process->kernel_pid, ret);
	return title && (title->process || class_is_of(text, len, function)) ? ret : 0;
}

static bool any_has_title(const struct profile *p)
{
	size_t i;

	for (i = 0; i < p->nr_processes; i++)
		if (has_title(p, &p->processes[i]))
			return true;
	return false;
}

int ray_calls_name(struct profile *p)
{
	struct namer n = { .profile = p,
			   .budget = { .max_bytes = MAX_BYTES },
			   .seed = hash_seed(),
			   .max_processes = p->nr_processes };
	struct profile_sample *sample;
	uint32_t text, process;
	int err = 0;

	if (!any_has_title(p))
		return 0;
	n.parts = calloc(p->nr_locations + 1, sizeof(*n.parts));
	err = n.parts ? titles_collect(&n) : -ENOMEM;
	for (sample = p->samples; !err && sample < p->samples + p->nr_samples; sample++) {
		if (!has_title(p, &p->processes[sample->process]))
			continue;
		text = title_by_stack(&n, sample);
		process = text ? process_titled(&n, sample->process, text) : 0;
		if (process)
			sample->process = process - 1;
	}
	piece_set_fini(&n.titles);
	free(n.parts);
	return err;
}
