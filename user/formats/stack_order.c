// SPDX-License-Identifier: Apache-2.0
#include "formats/stack_order.h"

#include "base/buf.h"
#include "base/capped.h"
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

/* The next element of a struct stack_path. */
enum {
	STEP_CONTAINER,
	STEP_PROCESS,
	STEP_THREAD,
	STEP_FRAMES,
};

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
		thread_text(text, strtab_get(profile->strings, profile->samples[i].thread),
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

void stack_path_init(struct stack_path *path, const struct stack_order *order, uint32_t sample)
{
	const struct profile *profile = order->profile;
	const struct profile_stack *stack = &profile->stacks[profile->samples[sample].stack];

	*path = (struct stack_path){
		.order = order,
		.sample = sample,
		.left = stack->nr,
		.end = order->no_wakers ? profile_wait_first(profile, stack) : 0,
	};
}

uint32_t stack_path_next(struct stack_path *path)
{
	const struct stack_order *order = path->order;
	const struct profile *profile = order->profile;
	const struct profile_sample *sample = &profile->samples[path->sample];
	const uint32_t *locations = profile->stack_locations + profile->stacks[sample->stack].first;
	uint32_t text;

	if (path->step == STEP_CONTAINER) {
		path->step = STEP_PROCESS;
		text = order->containers[sample->process];
		if (text)
			return text;
	}
	if (path->step == STEP_PROCESS) {
		path->step = STEP_THREAD;
		text = order->processes[sample->process];
		if (text)
			return text;
	}
	if (path->step == STEP_THREAD) {
		path->step = STEP_FRAMES;
		if (order->threads)
			return order->threads[path->sample];
	}
	while (path->left > path->end) {
		text = order->locations[locations[--path->left]];
		if (text)
			return text;
	}
	return 0;
}

/* Compares like a comparator of qsort; *ret_shared: number of equal leading texts. */
static int compare_paths(const struct stack_order *order, uint32_t a, uint32_t b,
			 uint32_t *ret_shared)
{
	struct stack_path path_a, path_b;
	uint32_t text_a, text_b, shared = 0;

	stack_path_init(&path_a, order, a);
	stack_path_init(&path_b, order, b);
	for (;; shared++) {
		text_a = stack_path_next(&path_a);
		text_b = stack_path_next(&path_b);
		if (text_a != text_b || !text_a)
			break;
	}
	*ret_shared = shared;
	return text_a < text_b ? -1 : text_a > text_b;
}

static int compare_samples(const void *a, const void *b, void *arg)
{
	uint32_t shared;

	return compare_paths(arg, *(const uint32_t *)a, *(const uint32_t *)b, &shared);
}

static void sort_samples(struct stack_order *order, const struct stack_rules *rules)
{
	const struct profile *profile = order->profile;
	struct stack_path path;
	uint32_t i;

	for (i = 0; i < profile->nr_samples; i++) {
		stack_path_init(&path, order, i);
		if (rules->need_frames)
			path.step = STEP_FRAMES;
		if ((!rules->zeros && !profile_weight(profile, i)) || !stack_path_next(&path))
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
	order->containers = calloc(profile->nr_processes + 1, sizeof(*order->containers));
	order->samples = calloc(profile->nr_samples + 1, sizeof(*order->samples));
	if (rules->threads)
		order->threads = calloc(profile->nr_samples + 1, sizeof(*order->threads));
	if (!order->locations || !order->processes || !order->containers || !order->samples ||
	    (rules->threads && !order->threads)) {
		stack_order_fini(order);
		return -ENOMEM;
	}
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
	free(order->containers);
	free(order->threads);
	free(order->samples);
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

void stack_order_write(const struct stack_order *order, FILE *out)
{
	struct stack_path path;
	struct stack_run run;
	const char *separator;
	uint32_t text;
	size_t pos = 0;

	while (stack_order_next(order, &pos, &run)) {
		stack_path_init(&path, order, run.sample);
		separator = "";
		while ((text = stack_path_next(&path))) {
			fputs(separator, out);
			fputs(order->names[text], out);
			separator = ";";
		}
		fprintf(out, " %" PRIu64 "\n", run.count);
	}
}
