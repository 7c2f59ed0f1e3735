// SPDX-License-Identifier: Apache-2.0
#include "profile/ray_calls.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/hash_seed.h"
#include "base/strtab.h"
#include "base/text.h"
#include "profile/piece_set.h"
#include "profile/profile.h"
#include "profile/stats.h"
#include "ray/calls.h"

#define MAX_BYTES (2U << 20) /* of titles and of places where they are taken */
#define MAX_OF_PROCESS 256 /* new titles */
#define MAX_LOOKED 8192 /* places of one process */
#define MAX_NEW 16384 /* of all processes */

/* The part that a frame has in a call of Ray. */
enum part {
	PART_UNKNOWN = 0, /* not looked at yet */
	PART_NONE, /* of the kernel, another library, or Python's own */
	PART_RAY, /* it calls methods */
	PART_LOOP, /* of an event loop */
	PART_OTHER, /* it calls functions that are no methods */
	PART_WRAPPER, /* a function within a function, as decorators make them */
	PART_CODE, /* any other Python function */
};

/* A title of a process; the first two members are the key. */
struct title {
	uint64_t hash; /* of its text, 0: the process as such */
	uint32_t pid;
	uint32_t process; /* index + 1 of the process with that title, 0 = there is none */
	uint32_t nr_new,
		nr_looked; /* of the process as such: new titles, places that were looked at */
	bool before_dot; /* it is what stands before the method in another title */
};

/* Samples of one process with one method, in the loop or not, have one title; the first two are the key. */
struct place {
	uint32_t process;
	uint32_t method; /* location + 1, 0: in the loop without a method */
	uint32_t titled; /* the process with the right title */
};

struct namer {
	struct profile *profile;
	uint8_t *parts; /* by location */
	struct table_budget budget;
	struct piece_set titles, places;
	uint64_t seed; /* targets choose their titles */
	size_t nr_before, max_processes;
	uint64_t nr_full; /* samples whose title had no room */
};

static const struct piece_type title_type = { sizeof(struct title),
					      offsetof(struct title, process) };
static const struct piece_type place_type = { sizeof(struct place),
					      offsetof(struct place, titled) };

static enum part library_part(const char *path)
{
	const char *name = text_base_name(path);

	if (text_begins(name, "_raylet."))
		return PART_RAY;
	return text_begins(name, "loop.") && strstr(path, "/uvloop/") ? PART_LOOP : PART_NONE;
}

/* The rest of a path in the standard library, such as `asyncio/events.py`; or NULL. */
static const char *standard_part(const char *file)
{
	const char *at = strstr(file, "/python3.");

	if (!at || strstr(at, "-packages/") ||
	    !((at - file >= 4 && !memcmp(at - 4, "/lib", 4)) ||
	      (at - file >= 6 && !memcmp(at - 6, "/lib64", 6))))
		return NULL;
	at = strchr(at + 1, '/');
	return at ? at + 1 : NULL;
}

/* Is it `f` in `decorate.<locals>.f`? */
static bool is_within_function(const char *name)
{
	static const char locals[] = "<locals>";
	const char *dot = strrchr(name, '.');

	return dot && dot - name >= (ptrdiff_t)sizeof(locals) - 1 &&
	       !memcmp(dot - (sizeof(locals) - 1), locals, sizeof(locals) - 1);
}

/* Actors of Ray's own libraries (Serve, Data, Train) are code like that of users. */
static enum part code_part(const char *file, const char *name)
{
	const char *standard = standard_part(file);

	if (file[0] == '<') /* built in, or made of a string */
		return PART_NONE;
	if (strstr(file, "/ray/_private/serialization.py"))
		return PART_OTHER;
	if (strstr(file, "/ray/_private/") || strstr(file, "/ray/util/tracing/"))
		return PART_RAY;
	if (standard)
		return text_begins(standard, "asyncio/") ? PART_LOOP
		       : !strcmp(standard, "threading.py") || text_begins(standard, "concurrent/")
			       ? PART_OTHER
			       : PART_NONE;
	return is_within_function(name) ? PART_WRAPPER : PART_CODE;
}

static enum part part_of(struct namer *n, uint32_t location)
{
	const struct profile *p = n->profile;
	const struct profile_location *loc = &p->locations[location];

	if (n->parts[location])
		return n->parts[location];
	n->parts[location] = PART_NONE;
	if (loc->kind == LOCATION_PYTHON && loc->has_symbol)
		n->parts[location] = code_part(strtab_get(p->strings, loc->file),
					       strtab_get(p->strings, loc->name));
	else if (loc->kind == LOCATION_NATIVE && loc->mapping)
		n->parts[location] =
			library_part(strtab_get(p->strings, p->mappings[loc->mapping - 1].path));
	return n->parts[location];
}

/*
 * The location + 1 of the method that a stack is in; 0: not found. *in_loop: the thread runs an event loop
 * that Ray has begun.
 */
static uint32_t method_find(struct namer *n, uint32_t stack, bool *in_loop)
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
		case PART_OTHER:
			open = false;
			break;
		default: /* a wrapper leaves the method that it calls */
			break;
		}
	return by_ray ? method : 0;
}

static uint64_t text_hash(const struct namer *n, const char *text, size_t len)
{
	return XXH3_64bits_withSeed(text, len, n->seed) | 1;
}

/* Added if it is new; NULL: no room. */
static struct title *title_put(struct namer *n, uint32_t pid, uint64_t hash)
{
	const struct title title = { .hash = hash, .pid = pid };
	uint32_t i;

	if (piece_set_add(&n->titles, &n->budget, n->seed, &title, title_type, &i) < 0)
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

static bool any_has_title(const struct profile *p)
{
	size_t i;

	for (i = 0; i < p->nr_processes; i++)
		if (has_title(p, &p->processes[i]))
			return true;
	return false;
}

/* Collects the titles that the processes had, as far as there is room: a target may set any number. */
static void titles_collect(struct namer *n)
{
	struct profile *p = n->profile;
	const struct profile_process *process;
	struct title *title;
	const char *text;
	size_t i;

	for (i = 0; i < n->nr_before; i++) {
		process = &p->processes[i];
		if (!has_title(p, process))
			continue;
		text = strtab_get(p->strings, process->task);
		title = title_put(n, process->kernel_pid, text_hash(n, text, strlen(text)));
		if (title)
			title->process = title->process ?: (uint32_t)i + 1;
		if (title && calls_method(text)) {
			title = title_put(n, process->kernel_pid,
					  text_hash(n, text, class_len(text)));
			if (title)
				title->before_dot = true;
		}
		n->nr_full += !title;
	}
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

/* Is the class of a title (`ray::a.Trainer(8)`) that of the method in the function `Trainer.fit`? */
static bool class_is_of(const char *class, size_t len, const char *function, const char *method)
{
	const char *paren = memchr(class, '(', len), *owner, *name;
	size_t owner_len, name_len;

	if (method == function)
		return false;
	owner = last_part(function, (size_t)(method - function) - 1, &owner_len);
	class += sizeof(TITLE_PREFIX) - 1;
	len = paren ? (size_t)(paren - class) : len - (sizeof(TITLE_PREFIX) - 1);
	name = last_part(class, len, &name_len);
	return owner_len == name_len && !memcmp(owner, name, owner_len);
}

/* The process as it is with that new title, or as it is if there is no room. */
static uint32_t process_titled(struct namer *n, uint32_t process, struct title *title,
			       const char *text)
{
	struct profile *p = n->profile;
	size_t at = (size_t)(title - (struct title *)n->titles.items.data);
	struct title *every = title_put(n, p->processes[process].kernel_pid, 0);
	struct profile_process *to;
	uint32_t task;

	if (!every || every->nr_new >= MAX_OF_PROCESS ||
	    vec_grow(p->processes, p->nr_processes + 1, n->max_processes, n->nr_before + MAX_NEW))
		return process;
	task = strtab_add(p->strings, text);
	if (strcmp(strtab_get(p->strings, task), text) != 0)
		return process; /* too many names */
	every->nr_new++;
	to = &p->processes[p->nr_processes++];
	*to = p->processes[process];
	to->task = to->title = task;
	/* The counters of the kernel count once. */
	to->cpu_ns = 0;
	to->rss_known = false;
	if (to->cmdline == p->processes[process].task)
		to->cmdline = task;
	((struct title *)n->titles.items.data)[at].process = (uint32_t)p->nr_processes;
	return (uint32_t)p->nr_processes - 1;
}

/* The process with the title of the class, if that is certain. */
static uint32_t process_of_class(struct namer *n, uint32_t process)
{
	const struct profile_process *of = &n->profile->processes[process];
	const char *text = strtab_get(n->profile->strings, of->task);
	size_t len = class_len(text);
	const struct title *title =
		text[len] ? title_put(n, of->kernel_pid, text_hash(n, text, len)) : NULL;

	return title && title->process && title->before_dot ? title->process - 1 : process;
}

/* The process with the title of the method. *full: it had no room. */
static uint32_t process_of_method(struct namer *n, uint32_t process, uint32_t method, bool *full)
{
	struct profile *p = n->profile;
	const char *text = strtab_get(p->strings, p->processes[process].task);
	const char *function = strtab_get(p->strings, p->locations[method - 1].name);
	__cleanup(buf_fini) struct buf name = { .max = TITLE_MAX };
	size_t len = class_len(text), name_len;
	const char *own_name = last_part(function, strlen(function), &name_len);
	bool same_class = class_is_of(text, len, function, own_name);
	struct title *title = title_put(n, p->processes[process].kernel_pid, 0);
	uint32_t ret;

	*full = !title || title->nr_looked++ >= MAX_LOOKED;
	if (*full)
		return process;

	buf_add(&name, text, len);
	buf_add_str(&name, ".");
	buf_add(&name, own_name, name_len);
	*full = buf_error(&name);
	/* Other classes have these, too. */
	if (!name_len || *full || !strcmp(name.data, text) ||
	    (!same_class && own_name != function && text_begins(own_name, "__")))
		return process;
	title = title_put(n, p->processes[process].kernel_pid, text_hash(n, name.data, name.len));
	*full = !title;
	/* Up to Python 3.10 a function has no class in its name, and a class may inherit it. */
	if (!title || title->process || !same_class)
		return title && title->process ? title->process - 1 : process;
	ret = process_titled(n, process, title, name.data);
	*full = ret == process;
	return ret;
}

/* The process, with the right title, of a sample. */
static uint32_t process_by_stack(struct namer *n, const struct profile_sample *sample)
{
	bool in_loop, full = false;
	struct place place = { .process = sample->process };
	uint32_t i;
	int is_new;

	place.method = method_find(n, sample->stack, &in_loop);
	if (!place.method && !in_loop)
		return sample->process;
	is_new = piece_set_add(&n->places, &n->budget, n->seed, &place, place_type, &i);
	if (!is_new)
		return ((struct place *)n->places.items.data)[i].titled;
	place.titled = place.method ? process_of_method(n, sample->process, place.method, &full)
				    : process_of_class(n, sample->process);
	if (is_new > 0)
		((struct place *)n->places.items.data)[i].titled = place.titled;
	n->nr_full += full;
	return place.titled;
}

const struct counter ray_calls_counters[] = {
	{ COUNTER_WALK, "ray_methods_too_many", 0,
	  .help = "methods of Ray actors that run several at once, over the limits of a file: "
		  "their samples have the title that the actor had" },
	{ 0 },
};

int ray_calls_name(struct profile *p, struct stats_reasons *walk)
{
	struct namer n = { .profile = p,
			   .budget = { .max_bytes = MAX_BYTES },
			   .seed = hash_seed(),
			   .nr_before = p->nr_processes,
			   .max_processes = p->nr_processes };
	struct profile_sample *sample;

	if (!any_has_title(p))
		return 0;
	n.parts = calloc(p->nr_locations + 1, sizeof(*n.parts));
	if (!n.parts)
		return -ENOMEM;
	titles_collect(&n);
	for (sample = p->samples; sample < p->samples + p->nr_samples; sample++)
		if (has_title(p, &p->processes[sample->process]))
			sample->process = process_by_stack(&n, sample);
	stats_add_rows(walk, ray_calls_counters, &n.nr_full, false);
	piece_set_fini(&n.titles);
	piece_set_fini(&n.places);
	free(n.parts);
	return 0;
}
