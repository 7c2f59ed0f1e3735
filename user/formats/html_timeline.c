// SPDX-License-Identifier: Apache-2.0
#include "formats/html_timeline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/strtab.h"
#include "base/text.h"
#include "formats/stack_order.h"
#include "profile/history.h"
#include "profile/profile.h"

int html_timeline_profile(const struct profile *profile, struct profile *ret)
{
	const struct profile_history *history = profile->history;
	struct profile_sample *samples;
	size_t i;

	samples = calloc(profile->nr_samples + history->nr_series + 1, sizeof(*samples));
	if (!samples)
		return -ENOMEM;
	if (profile->nr_samples)
		memcpy(samples, profile->samples, profile->nr_samples * sizeof(*samples));
	for (i = 0; i < history->nr_series; i++) {
		samples[profile->nr_samples + i].process = history->series[i].process;
		samples[profile->nr_samples + i].stack = history->series[i].stack;
	}
	*ret = *profile;
	ret->samples = samples;
	ret->nr_samples += history->nr_series;
	return 0;
}

void html_timeline_body(FILE *out)
{
	fputs("<section id=\"timeline\">\n<div id=\"moments\">\n<output id=\"moment\"></output>\n"
	      "<button id=\"peak\" title=\"The moment with the most memory (p)\">Peak</button>\n"
	      "<button id=\"whole\" title=\"Back to the whole run (w)\" disabled>Whole "
	      "run</button>\n"
	      "</div>\n<canvas id=\"chart\" tabindex=\"0\" role=\"slider\" aria-label=\"Memory "
	      "over "
	      "time: left and right arrow keys choose a moment, with Shift a range, p the peak, "
	      "w the whole run\"></canvas>\n<ul id=\"bands\"></ul>\n</section>\n",
	      out);
}

static void write_moments(FILE *out, const struct profile_history *history,
			  const struct strtab *strings)
{
	size_t i;

	fputs(",\n\"timeline\":{\"subject\":", out);
	text_json(out, history->subject);
	fputs(",\n\"what\":", out);
	text_json(out, history->what);
	fputs(",\n\"ms\":[", out);
	for (i = 0; i < history->nr_moments; i++)
		fprintf(out, "%s%" PRIu64, i ? "," : "", history->ns[i] / 1000000);
	fputs("],\n\"kib\":[", out);
	for (i = 0; i < history->nr_moments; i++)
		fprintf(out, "%s%" PRIu64, i ? "," : "", history->total_kib[i]);
	fprintf(out, "],\n\"peak\":%zu,\n\"bands\":[", history->peak);
	for (i = 0; i < history->nr_bands; i++) {
		fputs(i ? ",\n" : "", out);
		text_json(out, strtab_get(strings, history->bands[i]));
	}
	fputs("],\n\"series\":[", out);
}

/* Different stacks have equal paths if only lines or addresses differ that are not shown. */
static int64_t value_at(const struct profile_history *history, const uint32_t *samples, size_t nr,
			size_t nr_samples, size_t moment)
{
	int64_t sum = 0;
	size_t i;

	for (i = 0; i < nr; i++)
		if (samples[i] >= nr_samples)
			sum += history->kib[(samples[i] - nr_samples) * history->nr_moments +
					    moment];
	return sum;
}

static bool write_series(FILE *out, const struct profile_history *history, const uint32_t *samples,
			 size_t nr, size_t nr_samples, uint32_t run, bool first)
{
	int64_t value, last = 0;
	size_t i, moment;

	for (i = 0; i < nr && samples[i] < nr_samples; i++)
		;
	if (i == nr)
		return false;
	fprintf(out, "%s[%u,%u", first ? "" : ",\n", run,
		history->series[samples[i] - nr_samples].band);
	for (moment = 0; moment < history->nr_moments; moment++) {
		value = value_at(history, samples, nr, nr_samples, moment);
		if (value != last)
			fprintf(out, ",%zu,%" PRId64, moment, value);
		last = value;
	}
	putc(']', out);
	return true;
}

void html_timeline_data(FILE *out, const struct stack_order *order, size_t nr_samples)
{
	const struct profile_history *history = order->profile->history;
	size_t pos = 0, begin = 0;
	struct stack_run run;
	uint32_t nr_runs = 0;
	bool any = false;

	write_moments(out, history, order->profile->strings);
	for (; stack_order_next(order, &pos, &run); begin = pos)
		any |= write_series(out, history, order->samples + begin, pos - begin, nr_samples,
				    nr_runs++, !any);
	fputs("]}", out);
}
