// SPDX-License-Identifier: Apache-2.0
#include "report/profile_diff.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/strtab.h"
#include "made_profile.h"

TestSuite(profile_diff, .timeout = 60);

static const char *const names[] = { "a.pb.gz", "b.pb.gz" };

/* 10 s; per rank so many samples of 10 ms in f and g. */
static struct profile *made(uint32_t nr_ranks, uint64_t f_count, uint64_t g_count)
{
	struct profile *profile = made_new();
	uint32_t f = made_python(profile, "f", "/x.py", "x.py", 1, 1),
		 g = made_python(profile, "g", "/x.py", "x.py", 9, 9), process, i;
	char rank[16];

	for (i = 0; i < nr_ranks; i++) {
		process = made_process(profile, 100 + i, "python3", "");
		snprintf(rank, sizeof(rank), "%u", i);
		profile->processes[process].ranks.rank = strtab_add(profile->strings, rank);
		made_add(profile, process, f_count, f);
		made_add(profile, process, g_count, g, f, g);
	}
	return profile;
}

static char *text_of(struct profile_diff *diff, bool by_total)
{
	const struct profile_diff_options options = { .by_total = by_total };
	struct buf text;

	buf_init(&text, 1 << 20);
	cr_assert_eq(profile_diff_text(&text, diff, &options), 0);
	cr_assert_eq(buf_error(&text), 0);
	return buf_take(&text);
}

static void expect(const char *text, const char *line)
{
	cr_expect(strstr(text, line), "no '%s' in:\n%s", line, text);
}

/* Twice the ranks and the same work of each is no change. */
Test(profile_diff, per_rank)
{
	struct profile *before = made(2, 100, 400), *after = made(4, 100, 484);
	struct profile_diff diff;
	char *text;

	cr_assert_eq(profile_diff_init(&diff, before, after, names, DIFF_PER_AUTO), 0);
	cr_expect_eq(diff.per, DIFF_PER_RANK);
	cr_expect_str_eq(diff.unit, "seconds per second and rank");
	text = text_of(&diff, false);
	/* sqrt(800 * (0.01 / 20)^2 + 1936 * (0.01 / 40)^2) of g */
	expect(text, "\n    0.4000      0.4840     +0.0840    0.0179  **  g (x.py)\n");
	cr_expect_null(strstr(text, "f (x.py)"), "f did not change:\n%s", text);
	expect(text, "a.pb.gz \xc2\xb7 node-1");
	expect(text, "2 ranks \xc2\xb7 0.5000\n");
	free(text);
	/* A recursion counts once. */
	text = text_of(&diff, true);
	expect(text, "\n    0.4000      0.4840     +0.0840    0.0179  **  g (x.py)\n");
	expect(text, "\n    0.5000      0.5840     +0.0840    0.0199  **  f (x.py)\n");
	free(text);
	cr_assert_eq(profile_diff_init(&diff, before, after, names, DIFF_PER_SECOND), 0);
	text = text_of(&diff, false);
	expect(text, "\n    0.2000      0.4000     +0.2000    0.0245  **  f (x.py)\n");
	free(text);
	cr_assert_eq(profile_diff_init(&diff, before, after, names, DIFF_PER_PROCESS), 0);
	cr_expect_eq(diff.sides[1].nr_processes, 4);
	cr_assert_eq(profile_diff_init(&diff, before, after, names, DIFF_PER_SHARE), 0);
	text = text_of(&diff, false);
	expect(text, "\n   20.0000     17.1233     -2.8767");
	free(text);
	made_free(before);
	made_free(after);
}

/* Sampling noise alone is marked no more often than chance explains. */
Test(profile_diff, chance)
{
	struct profile *before = made(1, 100, 100), *after = made(1, 127, 129);
	struct profile_diff diff;
	char *text;

	cr_assert_eq(profile_diff_init(&diff, before, after, names, DIFF_PER_AUTO), 0);
	text = text_of(&diff, false);
	expect(text, "+0.0270    0.0151      f (x.py)\n"); /* 1.8 */
	expect(text, "+0.0290    0.0151      g (x.py)\n"); /* 1.9 */
	expect(text, "what shrank\n");
	expect(text, "nothing\n");
	free(text);
	made_free(before);
	made_free(after);
}

Test(profile_diff, refused)
{
	struct profile *cpu = made(1, 1, 1), *calls = made_calls(), *empty = made_new();
	struct profile_diff diff;

	calls->value.type = strtab_add(calls->strings, "calls");
	calls->value.unit = strtab_add(calls->strings, "count");
	cr_expect_eq(profile_diff_init(&diff, cpu, calls, names, DIFF_PER_AUTO), -EINVAL);
	cr_expect_eq(profile_diff_init(&diff, cpu, empty, names, DIFF_PER_AUTO), -EDOM);
	cr_expect_eq(profile_diff_init(&diff, cpu, empty, names, DIFF_PER_RANK), -ENODATA);
	cpu->duration_ns = 0;
	cr_expect_eq(profile_diff_init(&diff, cpu, cpu, names, DIFF_PER_SECOND), -ENODATA);
	cr_expect_eq(profile_diff_init(&diff, cpu, cpu, names, DIFF_PER_AUTO), 0);
	cr_expect_eq(diff.per, DIFF_PER_SHARE);
	made_free(cpu);
	made_free(calls);
	made_free(empty);
}

/* The numbers of the picture: both profiles together, and the part of the first one. */
Test(profile_diff, joined)
{
	struct profile *before = made(1, 100, 50), *after = made(1, 300, 50), joined;
	struct output_options options = { .title = "What changed", .caption = "a b" };
	struct profile_diff diff;
	uint64_t all = 0, old = 0;
	char *text;
	size_t i;

	cr_assert_eq(profile_diff_init(&diff, before, after, names, DIFF_PER_AUTO), 0);
	cr_assert_eq(profile_diff_join(&diff, &joined), 0);
	cr_expect_eq(joined.nr_samples, 2);
	for (i = 0; i < joined.nr_samples; i++) {
		all += joined.samples[i].count;
		old += joined.samples[i].value_ns;
	}
	cr_expect_eq(all, 5000000000);
	cr_expect_eq(old, 1500000000);
	options.diff = &diff.numbers;
	text = made_text(svg_write, &joined, &options, NULL);
	expect(text, "python3\n0.1500 to 0.3500 seconds per second and rank: +0.2000, 8.9 times");
	expect(text, "f (x.py)\n0.1000 to 0.3000 seconds per second and rank: +0.2000, 10.0 times");
	expect(text, "fill:hsl(4,"); /* f, red */
	expect(text, "g (x.py)\n0.0500 to 0.0500 seconds per second and rank: +0.0000, 0.0 times");
	expect(text, ";fill-opacity:1\"");
	cr_expect_null(strstr(text, "fill:hsl(214,85%,58%);"), "something shrank");
	free(text);
	text = made_text(html_write, &joined, &options, NULL);
	expect(text, "\"diff\":{\"unit\":\"seconds per second and rank\",\"before\":1e-10,"
		     "\"after\":1e-10,\"sample_before\":0.001,\"sample_after\":0.001}");
	free(text);
	profile_fini(&joined);
	made_free(before);
	made_free(after);
}

/* All calls are counted: differences are no chance, and nothing else is marked. */
Test(profile_diff, exact)
{
	struct profile *sides[2] = { made(1, 100, 400), made(1, 101, 400) },
		       *samples = made(1, 1, 1);
	struct output_options how = { .title = "What changed", .caption = "a b" };
	struct profile_diff diff;
	struct profile joined;
	char *text;
	size_t i;

	for (i = 0; i < 2; i++) {
		sides[i]->value.only_counts = true;
		sides[i]->value.count_type = strtab_add(sides[i]->strings, "calls");
	}
	samples->value.only_counts = true;
	cr_expect_eq(profile_diff_init(&diff, samples, sides[0], names, DIFF_PER_AUTO), -EINVAL);
	cr_assert_eq(profile_diff_init(&diff, sides[0], sides[1], names, DIFF_PER_SECOND), 0);
	text = text_of(&diff, false);
	expect(text, " 500 calls \xc2\xb7 50.0000\n");
	expect(text, "Own, in calls per second\n");
	expect(text, "\n    before       after      change  what grew\n"
		     "   10.0000     10.1000     +0.1000  f (x.py)\n");
	expect(text, "\nEach call is counted: there is no error of sampling.\n");
	cr_expect_null(strchr(text, '*'), "marks in:\n%s", text);
	cr_expect_null(strstr(text, "amples"), "samples in:\n%s", text);
	free(text);
	cr_assert_eq(profile_diff_join(&diff, &joined), 0);
	how.diff = &diff.numbers;
	text = made_text(svg_write, &joined, &how, NULL);
	expect(text, "f (x.py)\n10.0000 to 10.1000 calls per second: +0.1000</title>");
	expect(text, "fill:hsl(4,");
	free(text);
	profile_fini(&joined);
	for (i = 0; i < 2; i++) {
		sides[i]->value.only_counts = false;
		sides[i]->value.type = sides[i]->value.count_type;
		sides[i]->value.unit = strtab_add(sides[i]->strings, "count");
	}
	cr_assert_eq(profile_diff_init(&diff, sides[0], sides[1], names, DIFF_PER_SECOND), 0);
	cr_expect_str_eq(diff.unit, "calls per second");
	made_free(sides[0]);
	made_free(sides[1]);
	made_free(samples);
}

/* Without a number on one side, one sample of it is how much may be there. */
Test(profile_diff, error_of_nothing)
{
	const struct output_diff diff = { .sample = { 0.5, 0.1 } };

	cr_expect_float_eq(output_diff_error(&diff, 0, 0), sqrt(0.26), 1e-9);
	cr_expect_float_eq(output_diff_error(&diff, 2, 1), sqrt(1.1), 1e-9);
}
