// SPDX-License-Identifier: Apache-2.0
#include "ray/steps.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

/* Parses digits up to the character `end`. Returns the position behind it, or NULL. */
static const char *number_parse(uint64_t *ret, const char *text, char end)
{
	uint64_t value = 0;

	if (!isdigit((unsigned char)*text))
		return NULL;
	for (; isdigit((unsigned char)*text); text++) {
		value = value * 10 + (uint64_t)(*text - '0');
		if (value > STEPS_MAX)
			return NULL;
	}
	if (*text != end)
		return NULL;
	*ret = value;
	return text + 1;
}

int steps_range_parse(struct steps_range *ret, const char *text)
{
	static const struct {
		const char *word;
		enum steps_kind kind;
	} kinds[] = { { "windows:", STEPS_WINDOWS }, { "calls:", STEPS_CALLS } };
	struct steps_range range = { .kind = STEPS_EITHER };
	size_t i, len;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		len = strlen(kinds[i].word);
		if (strncmp(text, kinds[i].word, len))
			continue;
		range.kind = kinds[i].kind;
		text += len;
		break;
	}
	text = number_parse(&range.start, text, ':');
	if (!text || !number_parse(&range.stop, text, 0) || !range.start ||
	    range.stop <= range.start)
		return -EINVAL;
	*ret = range;
	return 0;
}

static struct steps_window *window_last(struct steps *steps)
{
	return &steps->windows[(steps->nr_windows - 1) % STEPS_KEPT];
}

void steps_end(struct steps *steps, uint64_t ts_ns)
{
	struct steps_window *window;

	if (!steps->nr_open)
		return;
	steps->nr_recorded++;
	if (--steps->nr_open)
		return;
	window = window_last(steps);
	window->end_ns = ts_ns;
	steps->recorded_ns += ts_ns - window->begin_ns;
}

void steps_end_all(struct steps *steps, uint64_t ts_ns)
{
	while (steps->nr_open)
		steps_end(steps, ts_ns);
}

bool steps_begin(struct steps *steps, const struct steps_range *range, uint64_t ts_ns)
{
	steps->nr_begun++;
	if (steps->nr_begun < range->start || steps->nr_begun >= range->stop)
		return false;
	if (steps->nr_open++)
		return true;
	steps->nr_windows++;
	*window_last(steps) = (struct steps_window){ .begin_ns = ts_ns, .end_ns = UINT64_MAX };
	return true;
}

void steps_skip_to(struct steps *steps, uint64_t number, uint64_t ts_ns)
{
	if (steps->nr_begun + 1 >= number)
		return;
	steps_end_all(steps, ts_ns);
	steps->nr_begun = number - 1;
}

bool steps_through(const struct steps *steps, const struct steps_range *range)
{
	return steps->nr_begun + 1 >= range->stop && !steps->nr_open;
}

int steps_have(const struct steps *steps, uint64_t ts_ns)
{
	const struct steps_window *window;
	uint64_t i;

	for (i = steps->nr_windows; i > 0; i--) {
		if (i + STEPS_KEPT == steps->nr_windows)
			return -ENODATA;
		window = &steps->windows[(i - 1) % STEPS_KEPT];
		if (ts_ns >= window->begin_ns)
			return ts_ns < window->end_ns;
	}
	return 0;
}
