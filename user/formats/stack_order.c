// SPDX-License-Identifier: Apache-2.0
#include "formats/stack_order.h"

#include "base/buf.h"
#include "base/capped.h"
#include "base/map.h"
#include "base/strtab.h"
#include "base/text.h"
#include "formats/profile_text.h"
#include "profile/profile.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TEXT_BYTES (64U << 20)
#define MAX_ONE_TEXT (4 * TEXT_MAX)
#define MAX_NESTED 32
#define MAX_PROCESSES (1U << 24) /* that are looked for as parents */
#define ABOVE_FRAMES (2 + MAX_NESTED) /* texts of a container, processes and a thread */

/*
 * Keeps a text with its kind in front, so that equal words of different kinds are different texts.
 */
static uint32_t intern(struct stack_order *order, struct buf *text, unsigned int kind)
{
	char prefix = (char)('0' + kind);
	uint32_t id = 0;

	if (text->len > 1 && !buf_error(text)) {
		text->data[0] = prefix;
		id = strtab_add_len(order->texts, text->data, text->len);
	}
	buf_reset(text);
	buf_add_char(text, prefix);
	return id;
}

/* Pids that were reused can make a circle, which MAX_NESTED bounds. */
static void find_parents(struct stack_order *order)
{
	const struct profile *profile = order->profile;
	struct map entries; /* of the last process with that pid */
	uint32_t i, parent;

	map_init(&entries, MAX_PROCESSES);
	for (i = 0; i < profile->nr_processes; i++)
		if (map_set(&entries, profile->processes[i].pid, i))
			break; /* without memory it has no frame */
	for (i = 0; i < profile->nr_processes; i++)
		if (profile->processes[i].parent &&
		    map_find(&entries, profile->processes[i].parent, &parent))
			order->parents[i] = parent + 1;
	map_fini(&entries);
}

static void intern_locations(struct stack_order *order, const struct stack_rules *rules,
			     struct buf *text)
{
	const struct profile *profile = order->profile;
	size_t i;

	for (i = 0; i < profile->nr_locations; i++) {
		rules->location(text, profile, &profile->locations[i]);
		order->locations[i] = intern(order, text, profile->locations[i].kind);
	}
	for (i = 0; rules->process && i < profile->nr_processes; i++) {
		rules->process(text, profile, &profile->processes[i]);
		order->processes[i] = intern(order, text, TEXT_PROCESS);
	}
	for (i = 0; rules->container && i < profile->nr_processes; i++) {
		rules->container(text, profile, &profile->processes[i]);
		order->containers[i] = intern(order, text, TEXT_PROCESS);
	}
	for (i = 0; order->threads && i < profile->nr_samples; i++) {
		(rules->thread ?: thread_text)(
			text, strtab_get(profile->strings, profile->samples[i].thread),
			profile->samples[i].tid);
		order->threads[i] = intern(order, text, TEXT_THREAD);
	}
}

static int compare_names(const void *a, const void *b, void *arg)
{
	const struct stack_order *order = arg;

	return strcmp(strtab_get(order->texts, *(const uint32_t *)a),
		      strtab_get(order->texts, *(const uint32_t *)b));
}

static void renumber(uint32_t *ids, size_t nr, const uint32_t *numbers)
{
	size_t i;

	for (i = 0; i < nr; i++)
		ids[i] = numbers[ids[i]];
}

/* Renumbers the texts in the order of the words, instead of appearance. */
static int sort_names(struct stack_order *order)
{
	const struct profile *profile = order->profile;
	uint32_t nr = strtab_count(order->texts), i;
	uint32_t *ids = calloc(nr, sizeof(*ids)), *numbers = calloc(nr, sizeof(*numbers));
	const char *name;
	int err = -ENOMEM;

	order->names = calloc(nr, sizeof(*order->names));
	order->kinds = calloc(nr, sizeof(*order->kinds));
	if (!ids || !numbers || !order->names || !order->kinds)
		goto out;
	for (i = 0; i < nr; i++)
		ids[i] = i;
	qsort_r(ids + 1, nr - 1, sizeof(*ids), compare_names, order);
	for (i = 1; i < nr; i++) {
		name = strtab_get(order->texts, ids[i]);
		numbers[ids[i]] = i;
		order->names[i] = name + 1;
		order->kinds[i] = (uint8_t)(name[0] - '0');
		if (!strcmp(name, STRTAB_OVERFLOW)) { /* the only text without a kind */
			order->names[i] = name;
			order->kinds[i] = LOCATION_MARKER;
		}
	}
	order->nr_names = nr - 1;
	renumber(order->locations, profile->nr_locations, numbers);
	renumber(order->processes, profile->nr_processes, numbers);
	renumber(order->containers, profile->nr_processes, numbers);
	if (order->threads)
		renumber(order->threads, profile->nr_samples, numbers);
	err = 0;
out:
	free(ids);
	free(numbers);
	return err;
}

/* The number of processes from the outermost that is known down to this one. */
static unsigned int process_depth(const struct stack_order *order, uint32_t process)
{
	unsigned int depth = 1;

	for (; order->parents[process] && depth < MAX_NESTED; depth++)
		process = order->parents[process] - 1;
	return depth;
}

/* The frame of the process that is so many generations above this one. */
static uint32_t ancestor_text(const struct stack_order *order, uint32_t process,
			      unsigned int generations)
{
	while (generations--)
		process = order->parents[process] - 1;
	return order->processes[process];
}

static void text_put(struct stack_path *path, uint32_t text)
{
	if (text)
		path->texts[path->nr++] = text;
}

static void path_read(struct stack_path *path, const struct stack_order *order, uint32_t sample)
{
	const struct profile *profile = order->profile;
	const struct profile_sample *s = &profile->samples[sample];
	uint32_t stack = order->no_wakers ? profile_wait_part(profile, s->stack) : s->stack;
	uint32_t at, first, i;

	path->sample = sample;
	path->nr = 0;
	text_put(path, order->containers[s->process]);
	for (i = process_depth(order, s->process); i-- > 0;)
		text_put(path, ancestor_text(order, s->process, i));
	if (order->threads)
		text_put(path, order->threads[sample]);
	first = path->nr;
	stack_each(at, profile->stack_callers, stack)
		text_put(path, order->locations[profile->stack_locations[at]]);
	path->nr_frames = path->nr - first;
	for (i = 0; i < path->nr_frames / 2; i++) {
		at = path->texts[first + i];
		path->texts[first + i] = path->texts[path->nr - 1 - i];
		path->texts[path->nr - 1 - i] = at;
	}
}

const struct stack_path *stack_path_get(const struct stack_order *order, uint32_t sample)
{
	struct stack_path *path = &order->paths[0];

	if (path->sample != sample)
		path = &order->paths[1];
	/* A merge sort often compares one sample with one after the other. */
	if (path->sample != sample) {
		path = &order->paths[order->paths[0].read_last];
		path_read(path, order, sample);
	}
	path->read_last = true;
	order->paths[path == &order->paths[0]].read_last = false;
	return path;
}

static int paths_new(struct stack_order *order)
{
	size_t nr = profile_max_depth(order->profile) + ABOVE_FRAMES, i;

	order->paths = calloc(2, sizeof(*order->paths));
	for (i = 0; order->paths && i < 2; i++) {
		order->paths[i].sample = UINT32_MAX;
		order->paths[i].texts = calloc(nr, sizeof(*order->paths[i].texts));
		if (!order->paths[i].texts)
			return -ENOMEM;
	}
	return order->paths ? 0 : -ENOMEM;
}

/* Compares like a comparator of qsort; *ret_shared: number of equal leading texts. */
static int compare_paths(const struct stack_order *order, uint32_t a, uint32_t b,
			 uint32_t *ret_shared)
{
	const struct stack_path *x = stack_path_get(order, a), *y = stack_path_get(order, b);
	uint32_t shared = 0;

	while (shared < x->nr && shared < y->nr && x->texts[shared] == y->texts[shared])
		shared++;
	*ret_shared = shared;
	if (shared == x->nr || shared == y->nr)
		return x->nr == y->nr ? 0 : x->nr < y->nr ? -1 : 1;
	return x->texts[shared] < y->texts[shared] ? -1 : 1;
}

static int compare_samples(const void *a, const void *b, void *arg)
{
	uint32_t shared;

	return compare_paths(arg, *(const uint32_t *)a, *(const uint32_t *)b, &shared);
}

static void sort_samples(struct stack_order *order, const struct stack_rules *rules)
{
	const struct profile *profile = order->profile;
	const struct stack_path *path;
	uint32_t i;

	for (i = 0; i < profile->nr_samples; i++) {
		path = stack_path_get(order, i);
		if ((!rules->zeros && !profile_weight(profile, i)) ||
		    !(rules->need_frames ? path->nr_frames : path->nr))
			continue;
		order->samples[order->nr_samples++] = i;
		order->total = capped_add(order->total, profile_weight(profile, i));
	}
	qsort_r(order->samples, order->nr_samples, sizeof(*order->samples), compare_samples, order);
}

int stack_order_init(struct stack_order *order, const struct profile *profile,
		     const struct stack_rules *rules)
{
	struct buf text;
	int err;

	*order = (struct stack_order){ .profile = profile, .no_wakers = rules->no_wakers };
	err = strtab_new(&order->texts, MAX_TEXT_BYTES);
	if (err)
		return err;
	order->locations = calloc(profile->nr_locations + 1, sizeof(*order->locations));
	order->processes = calloc(profile->nr_processes + 1, sizeof(*order->processes));
	order->parents = calloc(profile->nr_processes + 1, sizeof(*order->parents));
	order->containers = calloc(profile->nr_processes + 1, sizeof(*order->containers));
	order->samples = calloc(profile->nr_samples + 1, sizeof(*order->samples));
	if (rules->threads)
		order->threads = calloc(profile->nr_samples + 1, sizeof(*order->threads));
	if (!order->locations || !order->processes || !order->parents || !order->containers ||
	    !order->samples || (rules->threads && !order->threads) || paths_new(order)) {
		stack_order_fini(order);
		return -ENOMEM;
	}
	if (rules->nested)
		find_parents(order);
	buf_init(&text, MAX_ONE_TEXT);
	buf_add_char(&text, '0');
	intern_locations(order, rules, &text);
	buf_fini(&text);
	err = sort_names(order);
	if (err) {
		stack_order_fini(order);
		return err;
	}
	sort_samples(order, rules);
	return 0;
}

void stack_order_fini(struct stack_order *order)
{
	strtab_free(order->texts);
	free(order->names);
	free(order->kinds);
	free(order->locations);
	free(order->processes);
	free(order->parents);
	free(order->containers);
	free(order->threads);
	free(order->samples);
	if (order->paths) {
		free(order->paths[0].texts);
		free(order->paths[1].texts);
	}
	free(order->paths);
	*order = (struct stack_order){ .profile = NULL };
}

bool stack_order_next(const struct stack_order *order, size_t *pos, struct stack_run *ret)
{
	const struct profile_sample *samples = order->profile->samples;
	uint32_t first, shared = 0;
	size_t i = *pos;

	if (i >= order->nr_samples)
		return false;
	first = order->samples[i];
	if (i)
		compare_paths(order, order->samples[i - 1], first, &shared);
	*ret = (struct stack_run){ .sample = first, .shared = shared };
	do {
		ret->count =
			capped_add(ret->count, profile_weight(order->profile, order->samples[i]));
		ret->value_ns = capped_add(ret->value_ns, samples[order->samples[i]].value_ns);
		i++;
	} while (i < order->nr_samples && !compare_paths(order, first, order->samples[i], &shared));
	*pos = i;
	return true;
}

int stack_order_write(FILE *out, const struct profile *profile, const struct stack_rules *rules)
{
	struct stack_order order;
	const struct stack_path *path;
	struct stack_run run;
	const char *name;
	bool comment;
	size_t pos = 0;
	uint32_t i;
	int err;

	err = stack_order_init(&order, profile, rules);
	if (err)
		return err;
	while (stack_order_next(&order, &pos, &run)) {
		path = stack_path_get(&order, run.sample);
		for (i = 0; i < path->nr; i++) {
			name = order.names[path->texts[i]];
			comment = !i && *name == '#'; /* readers skip such a line */
			fputs(i ? ";" : comment ? "?" : "", out);
			fputs(name + comment, out);
		}
		fprintf(out, " %" PRIu64 "\n", run.count);
	}
	stack_order_fini(&order);
	return 0;
}
