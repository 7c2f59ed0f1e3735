// SPDX-License-Identifier: Apache-2.0
#include "report/profile_report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/strtab.h"
#include "base/text.h"
#include "base/units.h"
#include "formats/profile_text.h"
#include "profile/profile.h"

#define AMOUNT_WIDTH 11

const char *profile_what(const struct profile *profile)
{
	if (profile->value.only_counts)
		return profile_counted(profile);
	return profile->value.type ? strtab_get(profile->strings, profile->value.type) : "cpu";
}

uint64_t numbers_weight(const struct profile *profile, const struct tally_numbers *numbers)
{
	return profile->value.only_counts ? numbers->count : numbers->value;
}

void profile_amount(struct buf *dst, const struct profile *profile,
		    const struct tally_numbers *numbers)
{
	const char *unit = strtab_get(profile->strings, profile->value.unit);
	char text[UNITS_TEXT];

	if (profile_is_time(profile))
		buf_printf(dst, "%.3f s", (double)numbers->value / 1e9);
	else if (!profile->value.only_counts && !strcmp(unit, "bytes"))
		buf_add_str(dst, units_bytes(text, numbers->value));
	else
		buf_printf(dst, "%" PRIu64, numbers_weight(profile, numbers));
}

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

/* The context of the sort. */
struct order {
	const struct profile *profile;
	const struct tally *tally;
	bool by_total;
};

static int compare_rows(const void *a, const void *b, void *arg)
{
	const struct tally_row *x = a, *y = b;
	const struct order *order = arg;
	uint64_t own_x = numbers_weight(order->profile, &x->own),
		 own_y = numbers_weight(order->profile, &y->own);
	uint64_t total_x = numbers_weight(order->profile, &x->total),
		 total_y = numbers_weight(order->profile, &y->total);

	if (order->by_total && total_x != total_y)
		return total_x > total_y ? -1 : 1;
	if (own_x != own_y)
		return own_x > own_y ? -1 : 1;
	if (total_x != total_y)
		return total_x > total_y ? -1 : 1;
	return strcmp(strtab_get(order->tally->names, x->name),
		      strtab_get(order->tally->names, y->name));
}

static void add_cell(struct buf *dst, const struct profile *profile,
		     const struct tally_numbers *numbers, const struct tally *tally)
{
	struct buf text;

	buf_init(&text, 64);
	profile_amount(&text, profile, numbers);
	buf_printf(dst, "%*s  %5.1f%%  ", AMOUNT_WIDTH, text.data ? text.data : "",
		   percent(numbers_weight(profile, numbers), numbers_weight(profile, &tally->all)));
	buf_fini(&text);
}

static void add_heading(struct buf *dst, const struct profile *profile, enum tally_by by)
{
	static const char *const names[] = {
		[TALLY_FUNCTION] = "function", [TALLY_LINE] = "line",
		[TALLY_LIBRARY] = "library",   [TALLY_PROCESS] = "process",
		[TALLY_RANK] = "rank",	       [TALLY_TASK] = "task",
		[TALLY_POD] = "pod",	       [TALLY_THREAD] = "thread",
	};
	bool is_time = profile_is_time(profile);

	if (tally_is_of_groups(by)) {
		buf_printf(dst, "%*s  %6s  %s\n", AMOUNT_WIDTH,
			   is_time			? "time"
			   : profile->value.only_counts ? profile_counted(profile)
							: "amount",
			   "%", names[by]);
		return;
	}
	buf_printf(dst, "%*s  %6s  %*s  %6s  %s\n", AMOUNT_WIDTH, is_time ? "tottime" : "own", "%",
		   AMOUNT_WIDTH, is_time ? "cumtime" : "total", "%", names[by]);
}

static void add_row(struct buf *dst, const struct profile *profile, const struct tally *tally,
		    const struct tally_row *row, enum tally_by by)
{
	add_cell(dst, profile, &row->own, tally);
	if (!tally_is_of_groups(by))
		add_cell(dst, profile, &row->total, tally);
	buf_add_str(dst, strtab_get(tally->names, row->name));
	if (row->hottest)
		buf_printf(dst, "  (%.0f%% of it in %s)",
			   percent(numbers_weight(profile, &row->hottest_own),
				   numbers_weight(profile, &row->own)),
			   strtab_get(tally->names, row->hottest));
	buf_add_char(dst, '\n');
}

static void add_rows(struct buf *dst, const struct profile *profile, struct tally *tally,
		     const struct profile_report_options *options)
{
	struct order order = { profile, tally, options->by_total };
	size_t i, shown = 0, left = 0;

	qsort_r(tally->rows, tally->nr_rows, sizeof(*tally->rows), compare_rows, &order);
	for (i = 0; i < tally->nr_rows; i++) {
		if (!tally->rows[i].total.count && !tally->rows[i].total.value)
			continue;
		if (options->rows && shown == options->rows) {
			left++;
			continue;
		}
		shown++;
		add_row(dst, profile, tally, &tally->rows[i], options->by);
	}
	if (left)
		buf_printf(dst, "... and %zu more\n", left);
}

static void add_summary(struct buf *dst, const struct profile *profile, const struct tally *tally,
			bool process_taken)
{
	const struct profile_value *value = &profile->value;
	bool only_counts = value->only_counts ||
			   (profile_counts_calls(profile) && value->type == value->count_type);
	struct buf caption;

	buf_init(&caption, 1 << 16);
	profile_caption(&caption, profile);
	if (caption.len && !buf_error(&caption))
		buf_printf(dst, "%s\n", caption.data);
	buf_fini(&caption);
	if (only_counts || value->count_type != value->type || !value->count_type) {
		buf_printf(dst, "%" PRIu64 " ", tally->all.count);
		text_add_shown(dst, value->count_type
					    ? strtab_get(profile->strings, value->count_type)
					    : "samples");
		if (!only_counts)
			buf_add_str(dst, ", ");
	}
	if (!only_counts) {
		profile_amount(dst, profile, &tally->all);
		buf_add_str(dst, " of ");
		text_add_shown(dst, profile_what(profile));
	}
	if (process_taken)
		buf_add_str(dst, ", first frame taken as the process");
	buf_add_str(dst, "\n\n");
}

int profile_report(struct buf *dst, const struct profile *profile,
		   const struct profile_report_options *options)
{
	struct tally tally;
	int err = tally_init(&tally, profile, options->by);

	if (err)
		return err;
	add_summary(dst, profile, &tally, options->process_taken);
	if (!profile->nr_samples) {
		buf_add_str(dst, "No samples.\n");
	} else {
		add_heading(dst, profile, options->by);
		add_rows(dst, profile, &tally, options);
		if (!tally_is_of_groups(options->by) && !profile_counts_calls(profile))
			buf_add_str(dst, "Samples are counted, not calls: there is no ncalls and "
					 "no percall.\n");
	}
	tally_fini(&tally);
	return 0;
}
