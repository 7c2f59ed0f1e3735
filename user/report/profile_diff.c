// SPDX-License-Identifier: Apache-2.0
#include "report/profile_diff.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/sorted.h"
#include "base/strtab.h"
#include "base/text.h"
#include "base/vec.h"
#include "formats/profile_text.h"
#include "profile/builder.h"
#include "report/profile_report.h"

#define MAX_JOINED_BYTES ((size_t)1 << 30)
#define MAX_TEXT_BYTES (64U << 20)
#define MIB (1 << 20)
#define LIKELY 2 /* a difference of this many sampling errors is probably real */
#define CERTAIN 3
#define BY_CHANCE 0.0455 /* share of equal values that differ by more than LIKELY errors */

static size_t count_distinct(uint64_t *words, size_t nr)
{
	size_t i, distinct = 0;

	qsort(words, nr, sizeof(*words), sorted_by_u64);
	for (i = 0; i < nr; i++)
		distinct += words[i] && (!i || words[i] != words[i - 1]);
	return distinct;
}

/* Counts ranks or processes with samples. */
static int count_parts(struct diff_side *side)
{
	const struct profile *profile = side->profile;
	uint64_t *words = calloc(2 * profile->nr_samples + 1, sizeof(*words));
	uint64_t *pids = words ? words + profile->nr_samples : NULL;
	const struct profile_process *process;
	size_t i;

	if (!words)
		return -ENOMEM;
	for (i = 0; i < profile->nr_samples; i++) {
		process = &profile->processes[profile->samples[i].process];
		if (process->ranks.rank)
			words[i] = (uint64_t)process->ranks.slurm_job << 32 | process->ranks.rank;
		if (process->pid)
			pids[i] = process->kernel_pid;
	}
	side->nr_ranks = count_distinct(words, profile->nr_samples);
	side->nr_processes = count_distinct(pids, profile->nr_samples);
	free(words);
	return 0;
}

static bool both(const struct profile_diff *diff, bool (*has)(const struct diff_side *side))
{
	return has(&diff->sides[0]) && has(&diff->sides[1]);
}

static bool has_ranks(const struct diff_side *side)
{
	return side->nr_ranks;
}

static bool has_processes(const struct diff_side *side)
{
	return side->nr_processes;
}

static bool has_duration(const struct diff_side *side)
{
	return side->profile->duration_ns;
}

static int choose_per(struct profile_diff *diff, enum diff_per per)
{
	if (per == DIFF_PER_AUTO)
		per = !both(diff, has_duration) ? DIFF_PER_SHARE
		      : both(diff, has_ranks)	? DIFF_PER_RANK
						: DIFF_PER_SECOND;
	diff->per = per;
	if ((per == DIFF_PER_RANK && !both(diff, has_ranks)) ||
	    (per == DIFF_PER_PROCESS && !both(diff, has_processes)) ||
	    (per != DIFF_PER_SHARE && !both(diff, has_duration)))
		return -ENODATA;
	return 0;
}

/* If one side has only samples, both are compared by samples. */
static bool only_counts(const struct profile_diff *diff)
{
	return diff->sides[0].profile->value.only_counts ||
	       diff->sides[1].profile->value.only_counts;
}

static uint64_t weight_of(const struct profile_diff *diff, const struct profile_sample *sample)
{
	return only_counts(diff) ? sample->count : sample->value_ns;
}

/* Does the value exist at one moment, as memory does? Then it is in MiB, and not per second. */
static bool is_level(const struct profile_diff *diff)
{
	const struct profile *profile = diff->sides[0].profile;

	return !only_counts(diff) &&
	       text_begins(strtab_get(profile->strings, profile->value.type), "inuse_");
}

/*
 * Sets the scale of a side: one second of samples per second counts as 1; for shares all samples
 * are 100.
 */
static int scale_side(struct profile_diff *diff, size_t index)
{
	const struct diff_side *side = &diff->sides[index];
	const struct profile *profile = side->profile;
	double all = 0, count = 0, parts = 1, scale;
	size_t i;

	for (i = 0; i < profile->nr_samples; i++) {
		all += (double)weight_of(diff, &profile->samples[i]);
		count += (double)profile->samples[i].count;
	}
	if (all <= 0 || count <= 0)
		return -EDOM;
	if (diff->per == DIFF_PER_RANK)
		parts = (double)side->nr_ranks;
	else if (diff->per == DIFF_PER_PROCESS)
		parts = (double)side->nr_processes;
	if (diff->per == DIFF_PER_SHARE)
		scale = 100 / all;
	else if (is_level(diff))
		scale = 1.0 / MIB / parts;
	else
		scale = 1e9 / (double)profile->duration_ns / parts;
	if (diff->per != DIFF_PER_SHARE && !only_counts(diff) && profile_is_time(profile))
		scale /= 1e9;
	diff->numbers.scale[index] = scale;
	/* The counts of memory are pages, not samples. */
	diff->numbers.sample[index] =
		profile_counts_calls(profile) || is_level(diff) ? 0 : scale * all / count;
	return 0;
}

static void name_unit(struct profile_diff *diff)
{
	static const char *const parts[] = { [DIFF_PER_SECOND] = "per second",
					     [DIFF_PER_RANK] = "per second and rank",
					     [DIFF_PER_PROCESS] = "per second and process" };

	const struct profile *profile = diff->sides[0].profile;
	bool counts = only_counts(diff) || (profile_counts_calls(profile) &&
					    profile->value.type == profile->value.count_type);

	if (is_level(diff) && diff->per != DIFF_PER_SHARE)
		snprintf(diff->unit, sizeof(diff->unit), "MiB%s",
			 parts[diff->per] + strlen("per second"));
	else if (diff->per == DIFF_PER_SHARE)
		snprintf(diff->unit, sizeof(diff->unit), "percent of all %s",
			 profile_counted(profile));
	else if (!only_counts(diff) && profile_is_time(profile))
		snprintf(diff->unit, sizeof(diff->unit), "seconds %s", parts[diff->per]);
	else
		snprintf(diff->unit, sizeof(diff->unit), "%s %s",
			 counts ? profile_counted(profile) : "units", parts[diff->per]);
	diff->numbers.unit = diff->unit;
}

static bool same_value(const struct profile *a, const struct profile *b)
{
	if (profile_counts_calls(a) != profile_counts_calls(b))
		return false;
	if (a->value.only_counts || b->value.only_counts)
		return true;
	return !strcmp(profile_what(a), profile_what(b)) &&
	       profile_is_time(a) == profile_is_time(b);
}

int profile_diff_init(struct profile_diff *diff, const struct profile *before,
		      const struct profile *after, const char *const names[2], enum diff_per per)
{
	int err = 0;
	size_t i;

	*diff = (struct profile_diff){ .sides = { { .profile = before, .name = names[0] },
						  { .profile = after, .name = names[1] } } };
	if (!same_value(before, after))
		return -EINVAL;
	for (i = 0; i < 2 && !err; i++)
		err = count_parts(&diff->sides[i]);
	if (!err)
		err = choose_per(diff, per);
	for (i = 0; i < 2 && !err; i++)
		err = scale_side(diff, i);
	if (!err)
		name_unit(diff);
	return err;
}

/* One name in both profiles. */
struct row {
	const char *name;
	double values[2], change, error;
};

static double worth(const struct profile_diff *diff, size_t side,
		    const struct tally_numbers *numbers)
{
	return (double)(only_counts(diff) ? numbers->count : numbers->value) *
	       diff->numbers.scale[side];
}

static int compare_changes(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->change != y->change)
		return x->change > y->change ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* Makes rows for the names of both profiles; the caller frees *ret. */
static int rows_make(struct profile_diff *diff, bool by_total, struct row **ret, size_t *ret_nr)
{
	struct strtab *names;
	const struct tally *tally;
	const struct tally_row *from;
	struct row *rows;
	uint32_t id;
	size_t side, i, nr;
	int err = strtab_new(&names, MAX_TEXT_BYTES * 2);

	if (err)
		return err;
	nr = diff->sides[0].tally.nr_rows + diff->sides[1].tally.nr_rows;
	rows = calloc(nr + 2, sizeof(*rows));
	for (side = 0; side < 2 && rows; side++) {
		tally = &diff->sides[side].tally;
		for (i = 0; i < tally->nr_rows; i++) {
			from = &tally->rows[i];
			if (!from->total.count)
				continue;
			id = strtab_add(names, strtab_get(tally->names, from->name));
			rows[id].name = strtab_get(tally->names, from->name);
			rows[id].values[side] =
				worth(diff, side, by_total ? &from->total : &from->own);
		}
	}
	if (!rows)
		err = -ENOMEM;
	for (i = 0, nr = 0; !err && i < strtab_count(names); i++) {
		if (!rows[i].name || (!rows[i].values[0] && !rows[i].values[1]))
			continue;
		rows[nr] = rows[i];
		rows[nr].change = rows[nr].values[1] - rows[nr].values[0];
		rows[nr].error =
			output_diff_error(&diff->numbers, rows[nr].values[0], rows[nr].values[1]);
		nr++;
	}
	strtab_free(names);
	if (err) {
		free(rows);
		return err;
	}
	qsort(rows, nr, sizeof(*rows), compare_changes);
	*ret = rows;
	*ret_nr = nr;
	return 0;
}

static const char *mark(const struct row *row)
{
	double change = fabs(row->change);

	return change > CERTAIN * row->error ? "**" : change > LIKELY * row->error ? "*" : "";
}

static void add_row(struct buf *dst, const struct row *row, bool exact)
{
	buf_printf(dst, "%10.4f  %10.4f  %+10.4f  ", row->values[0], row->values[1], row->change);
	if (!exact)
		buf_printf(dst, "%8.4f  %-2s  ", row->error, mark(row));
	buf_printf(dst, "%s\n", row->name);
}

/* Adds the rows of one direction: sign 1 or -1. */
static void add_rows(struct buf *dst, const struct row *rows, size_t nr, int sign,
		     const struct profile_diff_options *options, bool exact)
{
	static const char *const heads[2][4] = {
		{ "before", "after", "what grew", "what shrank" },
		{ "others", "this one", "what is more", "what is less" },
	};
	const char *const *head = heads[options->beside];
	const struct row *row;
	size_t i, shown = 0, left = 0;

	buf_printf(dst, "\n%10s  %10s  %10s  %s%s\n", head[0], head[1], "change",
		   exact ? "" : "   error      ", head[sign > 0 ? 2 : 3]);
	for (i = 0; i < nr; i++) {
		row = sign > 0 ? &rows[i] : &rows[nr - 1 - i];
		if (row->change * sign <= 0)
			break;
		if (options->rows && shown == options->rows) {
			left++;
			continue;
		}
		shown++;
		add_row(dst, row, exact);
	}
	if (!shown)
		buf_printf(dst, "%*s  nothing\n", exact ? 34 : 48, "");
	if (left)
		buf_printf(dst, "... and %zu more\n", left);
}

static void add_side(struct buf *dst, const struct profile_diff *diff, size_t index)
{
	static const char *const words[] = { "before", "after " };
	const struct diff_side *side = &diff->sides[index];
	struct buf caption;

	buf_init(&caption, 1 << 16);
	profile_caption(&caption, side->profile);
	buf_printf(dst, "%s  ", words[index]);
	text_add_shown(dst, side->name);
	buf_printf(dst, " \xc2\xb7 %s \xc2\xb7 %" PRIu64 " %s", caption.data ? caption.data : "",
		   side->tally.all.count, profile_counted(side->profile));
	if (diff->per == DIFF_PER_RANK)
		buf_printf(dst, " \xc2\xb7 %zu rank%s", side->nr_ranks,
			   side->nr_ranks == 1 ? "" : "s");
	if (diff->per == DIFF_PER_PROCESS)
		buf_printf(dst, " \xc2\xb7 %zu process%s", side->nr_processes,
			   side->nr_processes == 1 ? "" : "es");
	buf_printf(dst, " \xc2\xb7 %.4f\n", worth(diff, index, &side->tally.all));
	buf_fini(&caption);
}

static void add_tables(struct buf *dst, const struct profile_diff *diff, const struct row *rows,
		       size_t nr, const struct profile_diff_options *options)
{
	bool exact = output_diff_is_exact(&diff->numbers);
	size_t i, marked = 0;

	for (i = 0; i < nr; i++)
		marked += *mark(&rows[i]) != 0;
	if (!options->beside) {
		add_side(dst, diff, 0);
		add_side(dst, diff, 1);
	}
	buf_printf(dst, "%s, in %s\n",
		   tally_is_of_groups(options->by) ? "All"
		   : options->by_total		   ? "Total"
						   : "Own",
		   diff->unit);
	add_rows(dst, rows, nr, 1, options, exact);
	add_rows(dst, rows, nr, -1, options, exact);
	if (exact) {
		if (!is_level(diff))
			buf_add_str(dst,
				    "\nEach call is counted: there is no error of sampling.\n");
		return;
	}
	buf_printf(dst,
		   "\nerror: of sampling, one standard deviation; *: more than 2, **: more than 3 "
		   "of them.\n%zu of %zu rows are marked; by chance about %.0f would be.\n",
		   marked, nr, BY_CHANCE * (double)nr);
}

/* Counts both sides, and makes rows; tallies_fini() and free(*ret) are due. */
static int compare(struct profile_diff *diff, enum tally_by by, bool by_total, struct row **ret,
		   size_t *ret_nr)
{
	size_t side;
	int err = 0;

	for (side = 0; side < 2 && !err; side++)
		err = tally_init(&diff->sides[side].tally, diff->sides[side].profile, by);
	return err ? err : rows_make(diff, by_total, ret, ret_nr);
}

static void tallies_fini(struct profile_diff *diff)
{
	size_t side;

	for (side = 0; side < 2; side++)
		tally_fini(&diff->sides[side].tally);
}

void profile_diff_mean(struct profile_diff *diff, size_t nr)
{
	diff->numbers.scale[0] /= (double)nr;
	diff->numbers.sample[0] /= (double)nr;
}

int profile_diff_distance(struct profile_diff *diff, double *ret)
{
	struct row *rows = NULL;
	size_t nr = 0, i;
	int err = compare(diff, TALLY_PYTHON, false, &rows, &nr);

	*ret = 0;
	for (i = 0; i < nr && !err; i++)
		if (*mark(&rows[i]))
			*ret += fabs(rows[i].change);
	free(rows);
	tallies_fini(diff);
	return err;
}

int profile_diff_text(struct buf *dst, struct profile_diff *diff,
		      const struct profile_diff_options *options)
{
	struct row *rows = NULL;
	size_t nr;
	int err = compare(diff, options->by, options->by_total, &rows, &nr);

	if (!err)
		add_tables(dst, diff, rows, nr, options);
	free(rows);
	tallies_fini(diff);
	return err;
}

static uint32_t copy_text(struct profile_builder *b, const struct profile *from, uint32_t id)
{
	return strtab_add(b->strings, strtab_get(from->strings, id));
}

static int copy_locations(struct profile_builder *b, const struct profile *from, uint32_t *ret)
{
	struct profile_location location;
	size_t i;
	int err = 0;

	for (i = 0; i < from->nr_locations && !err; i++) {
		memset(&location, 0, sizeof(location));
		location.kind = from->locations[i].kind;
		location.has_symbol = from->locations[i].has_symbol;
		location.has_start = from->locations[i].has_start;
		location.name = copy_text(b, from, from->locations[i].name);
		location.file = copy_text(b, from, from->locations[i].file);
		location.short_file = copy_text(b, from, from->locations[i].short_file);
		err = profile_builder_location(b, &location, &ret[i]);
	}
	return err;
}

/* Processes without pid and container are different ones in each file. */
static int copy_processes(struct profile_builder *b, const struct profile *from, uint32_t *ret)
{
	struct profile_process process;
	size_t i;
	int err = 0;

	for (i = 0; i < from->nr_processes && !err; i++) {
		memset(&process, 0, sizeof(process));
		process.comm = copy_text(b, from, from->processes[i].comm);
		process.title = copy_text(b, from, from->processes[i].title);
		err = profile_builder_process(b, &process, &ret[i]);
	}
	return err;
}

static int copy_samples(struct profile_builder *b, const struct profile_diff *diff, size_t side,
			const uint32_t *locations, const uint32_t *processes)
{
	const struct profile *from = diff->sides[side].profile;
	struct profile_sample sample;
	uint32_t *frames = NULL, cap = 0, at, nr;
	size_t i;
	int err = 0;

	for (i = 0; i < from->nr_samples && !err; i++) {
		err = vec_grow(frames, stack_depth(from->stack_callers, from->samples[i].stack),
			       cap, VEC_BOUNDED);
		if (err)
			break;
		nr = 0;
		stack_each(at, from->stack_callers, from->samples[i].stack)
			frames[nr++] = locations[from->stack_locations[at]];
		memset(&sample, 0, sizeof(sample));
		sample.process = processes[from->samples[i].process];
		sample.count = weight_of(diff, &from->samples[i]);
		sample.value_ns = side ? 0 : sample.count;
		err = profile_builder_stack(b, frames, nr, &sample.stack);
		if (!err)
			err = profile_builder_sample(b, &sample, NULL);
	}
	free(frames);
	return err;
}

int profile_diff_join(const struct profile_diff *diff, struct profile *ret)
{
	struct profile_builder builder;
	int err = profile_builder_init(&builder, MAX_JOINED_BYTES);
	uint32_t *locations, *processes;
	const struct profile *from;
	size_t side;

	for (side = 0; side < 2 && !err; side++) {
		from = diff->sides[side].profile;
		locations = calloc(from->nr_locations + 1, sizeof(*locations));
		processes = calloc(from->nr_processes + 1, sizeof(*processes));
		err = locations && processes ? 0 : -ENOMEM;
		if (!err)
			err = copy_locations(&builder, from, locations);
		if (!err)
			err = copy_processes(&builder, from, processes);
		if (!err)
			err = copy_samples(&builder, diff, side, locations, processes);
		free(locations);
		free(processes);
	}
	if (err)
		profile_builder_fini(&builder);
	else
		profile_builder_finish(&builder, ret);
	return err;
}
