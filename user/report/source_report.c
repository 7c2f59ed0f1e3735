// SPDX-License-Identifier: Apache-2.0
#include "report/source_report.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/strtab.h"
#include "base/text.h"
#include "profile/profile.h"
#include "report/profile_report.h"

#define AMOUNT_WIDTH 11
#define MAX_LINES (1U << 22)

struct line {
	struct tally_numbers own, total;
	uint32_t last; /* index + 1 of the last sample counted in total */
};

static bool is_end(const char *whole, const char *end)
{
	size_t len = strlen(whole), end_len = strlen(end);

	if (!end_len || end_len > len || strcmp(whole + len - end_len, end))
		return false;
	return end_len == len || end[0] == '/' || whole[len - end_len - 1] == '/';
}

static int compare_words(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int source_files(const struct profile *profile, const char *wanted, const char **ret, size_t max)
{
	const char **all = calloc(profile->nr_locations + 1, sizeof(*all)), *file;
	size_t nr = 0, distinct = 0, i;

	if (!all)
		return -ENOMEM;
	for (i = 0; i < profile->nr_locations; i++) {
		file = strtab_get(profile->strings, profile->locations[i].file);
		if (profile->locations[i].line && *file &&
		    (is_end(file, wanted) || (file[0] != '/' && is_end(wanted, file))))
			all[nr++] = file;
	}
	qsort(all, nr, sizeof(*all), compare_words);
	for (i = 0; i < nr; i++) {
		if (i && !strcmp(all[i], all[i - 1]))
			continue;
		if (distinct < max)
			ret[distinct] = all[i];
		distinct++;
	}
	free(all);
	return distinct < INT32_MAX ? (int)distinct : INT32_MAX;
}

/*
 * Own time belongs to the innermost frame with a line: the C code that a line calls counts for the
 * line.
 */
static void count_lines(const struct profile *profile, uint32_t file, struct line *lines,
			struct tally_numbers *through, struct tally_numbers *all)
{
	const struct profile_location *location;
	uint32_t i, at;
	bool innermost, met;

	for (i = 0; i < profile->nr_samples; i++) {
		tally_add(all, &profile->samples[i]);
		innermost = true;
		met = false;
		stack_each(at, profile->stack_callers, profile->samples[i].stack) {
			location = profile_frame(profile, at);
			if (!location->line)
				continue;
			if (location->file == file && location->line < MAX_LINES) {
				if (innermost)
					tally_add(&lines[location->line].own, &profile->samples[i]);
				if (lines[location->line].last != i + 1)
					tally_add(&lines[location->line].total,
						  &profile->samples[i]);
				lines[location->line].last = i + 1;
				met = true;
			}
			innermost = false;
		}
		if (met)
			tally_add(through, &profile->samples[i]);
	}
}

static void add_cell(struct buf *dst, const struct profile *profile,
		     const struct tally_numbers *numbers, uint64_t all)
{
	uint64_t weight = numbers_weight(profile, numbers);
	struct buf text;

	if (!weight) {
		buf_printf(dst, "%*s  %6s  ", AMOUNT_WIDTH, "", "");
		return;
	}
	buf_init(&text, 64);
	profile_amount(&text, profile, numbers);
	buf_printf(dst, "%*s  %5.1f%%  ", AMOUNT_WIDTH, text.data ? text.data : "",
		   all ? 100.0 * (double)weight / (double)all : 0);
	buf_fini(&text);
}

/* Can nothing run on this line? Then the source is not the recorded one. */
static bool is_idle(const char *line, size_t len)
{
	size_t i = 0;

	while (i < len && (line[i] == ' ' || line[i] == '\t' || line[i] == '\r'))
		i++;
	return i == len || line[i] == '#';
}

static void add_source(struct buf *dst, const char *line, size_t len)
{
	char copy[1024];
	size_t i;

	len = len < sizeof(copy) ? len : sizeof(copy) - 1;
	for (i = 0; i < len; i++)
		copy[i] = line[i] == '\t' ? ' ' : line[i] ? line[i] : '?';
	while (len && (copy[len - 1] == '\r' || copy[len - 1] == ' '))
		len--;
	copy[len] = 0;
	text_add_shown(dst, copy);
}

static void add_lines(struct buf *dst, const struct profile *profile, const struct line *lines,
		      const char *text, size_t len, const struct tally_numbers *all,
		      uint64_t *ret_odd)
{
	const char *end = text + len, *next;
	uint64_t whole = numbers_weight(profile, all), weight;
	uint32_t number;

	*ret_odd = 0;
	for (number = 1; text < end && number < MAX_LINES; number++, text = next + 1) {
		next = memchr(text, '\n', (size_t)(end - text));
		if (!next)
			next = end;
		weight = numbers_weight(profile, &lines[number].total);
		if (is_idle(text, (size_t)(next - text)))
			*ret_odd += weight;
		add_cell(dst, profile, &lines[number].own, whole);
		add_cell(dst, profile, &lines[number].total, whole);
		buf_printf(dst, "%5u  ", number);
		add_source(dst, text, (size_t)(next - text));
		buf_add_char(dst, '\n');
	}
	for (; number < MAX_LINES; number++)
		*ret_odd += numbers_weight(profile, &lines[number].total);
}

int source_report(struct buf *dst, const struct profile *profile, const char *file,
		  const char *text, size_t len, uint64_t *ret_odd)
{
	struct tally_numbers through = { 0 }, all = { 0 };
	struct line *lines = calloc(MAX_LINES, sizeof(*lines));
	bool is_time = profile_is_time(profile);

	if (!lines)
		return -ENOMEM;
	count_lines(profile, strtab_add(profile->strings, file), lines, &through, &all);
	text_add_shown(dst, file);
	buf_add_str(dst, ": ");
	profile_amount(dst, profile, &through);
	buf_add_str(dst, " of ");
	profile_amount(dst, profile, &all);
	if (profile->value.only_counts)
		buf_printf(dst, " %s", profile_counted(profile));
	buf_printf(dst, "\n\n%*s  %6s  %*s  %6s  %5s  source\n", AMOUNT_WIDTH,
		   is_time ? "tottime" : "own", "%", AMOUNT_WIDTH, is_time ? "cumtime" : "total",
		   "%", "line");
	add_lines(dst, profile, lines, text, len, &all, ret_odd);
	free(lines);
	return 0;
}
