// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "cmd/report_options.h"
#include "daemon/daemon_options.h"
#include "options/gpu_options.h"
#include "options/options.h"

static const struct flag_set *const sets[] = { &record_flags, &top_flags, &dump_flags,
					       &doctor_flags, &gpu_flags, &daemon_flags,
					       &report_flags };

#define NR_SETS (sizeof(sets) / sizeof(sets[0]))

/* A row has the fields that its type needs, and no other row of the set has its name or letters. */
static void check_row(const struct flag_set *set, const struct flag_walk *at)
{
	const struct flag *flag = at->flag;
	struct flag_walk other = *at;

	cr_expect(flag->name && flag->help && *flag->help, "%s", set->twins);
	cr_expect_eq(!flag->value, flag->type <= FLAG_COUNT, "%s --%s", set->twins, flag->name);
	cr_expect_eq(flag->type == FLAG_CHOICE, flag->words != NULL, "--%s", flag->name);
	cr_expect(flag->size <= 8 || flag->take, "--%s", flag->name);
	cr_expect(flag->type != FLAG_BOOL || flag->size == sizeof(bool), "--%s", flag->name);
	cr_expect(flag->type < FLAG_TEXT || flag->type > FLAG_PIDS || flag->size == sizeof(void *),
		  "--%s", flag->name);
	cr_expect(flag->size >= 8 ||
			  !(flag->max / (flag->unit_ns ? flag->unit_ns : 1) >> 8 * flag->size),
		  "--%s", flag->name);
	cr_expect((flag->type != FLAG_NUMBER && flag->type != FLAG_PERCENT) || flag->max, "--%s",
		  flag->name);
	cr_expect(flag->type < FLAG_NUMBER || flag->type > FLAG_CHOICE || flag->refusal, "--%s",
		  flag->name);
	cr_expect(flag->type != FLAG_CUSTOM || flag->take, "--%s", flag->name);
	cr_expect(!flag->marked || set->mark, "%s --%s", set->twins, flag->name);
	cr_expect_lt(at->nr, 64);
	while (flag_next(&other)) {
		cr_expect_str_neq(flag->name, other.flag->name);
		cr_expect(!flag->letter || (flag->letter != other.flag->letter &&
					    flag->letter != other.flag->alias),
			  "%s -%c", set->twins, flag->letter);
		cr_expect(!flag->alias || (flag->alias != other.flag->letter &&
					   flag->alias != other.flag->alias),
			  "%s -%c", set->twins, flag->alias);
	}
}

Test(flags, rows)
{
	for (size_t i = 0; i < NR_SETS; i++) {
		struct flag_walk walk = flag_walk(sets[i]->flags, NULL);

		while (flag_next(&walk))
			check_row(sets[i], &walk);
		cr_expect_gt(walk.nr, 3);
	}
}

/* The names of a rule are names of flags, with one of its words where a choice is meant. */
static void check_names(const struct flag_set *set, const char *names)
{
	while (names && *names) {
		struct flag_walk walk = flag_walk(set->flags, NULL);
		size_t len = strcspn(names, " "), name = strcspn(names, " =");
		bool found = flag_find(&walk, names, name), known = name == len;

		cr_assert(found, "%s: %s", set->twins, names);
		for (size_t i = 0; !known && walk.flag->words && walk.flag->words[i]; i++)
			known = strlen(walk.flag->words[i]) == len - name - 1 &&
				!strncmp(walk.flag->words[i], names + name + 1, len - name - 1);
		cr_expect(known, "%s: %s", set->twins, names);
		names += len + (names[len] == ' ');
	}
}

Test(flags, rules)
{
	for (size_t i = 0; i < NR_SETS; i++) {
		const struct flag_rule *rule = sets[i]->rules;

		for (; rule && (rule->check || rule->sentence); rule++) {
			cr_expect(rule->check || rule->others, "%s", rule->sentence);
			cr_expect(!rule->check || !rule->sentence, "%s", rule->sentence);
			check_names(sets[i], rule->flags);
			check_names(sets[i], rule->others);
		}
	}
}

struct sample {
	struct {
		uint32_t hz;
	} inner;
	bool on;
	uint64_t seconds, bytes;
	enum { RED = 7, GREEN, BLUE } colour;
	unsigned int times;
	char *text, **names;
	size_t nr_names;
	char **command;
	const struct flag *last;
};

#define AT(field) FLAG_AT(struct sample, field)

static const struct flag inner_rows[] = {
	{ "rate", "HZ", "rate", FLAG_NUMBER, .size = sizeof(uint32_t), .letter = 'F', .min = 1,
	  .max = 9, .initial = 5, .refusal = "1 to 9" },
	{ .type = FLAG_END },
};

static const struct flag sample_rows[] = {
	{ "on", NULL, "on", FLAG_BOOL, AT(on) },
	FLAG_GROUP(inner_rows, struct sample, inner),
	{ "for", "TIME", "for", FLAG_DURATION, AT(seconds), .min = 2000000000,
	  .unit_ns = 1000000000, .whole = true, .refusal = "whole seconds",
	  .out_of_range = "too short" },
	{ "keep", "BYTES", "keep", FLAG_BYTES, AT(bytes), .max = 4096, .refusal = "bytes" },
	{ "colour", "NAME", "colour", FLAG_CHOICE, AT(colour), FLAG_WORDS("red", "green", "blue"),
	  .min = RED, .initial = GREEN, .refusal = "a colour" },
	{ "blue", NULL, "blue", FLAG_SET, AT(colour), .min = BLUE, .initial = GREEN,
	  .refusal = "two colours" },
	{ "more", NULL, "more", FLAG_COUNT, AT(times), .letter = 'm', .repeatable = true,
	  .max = 2 },
	{ "text", "TEXT", "text", FLAG_TEXT, AT(text), .marked = true, .refusal = "a text" },
	{ "name", "NAME", "name", FLAG_LIST, FLAG_LIST_AT(struct sample, names, nr_names),
	  .repeatable = true, .marked = true, .refusal = "a name" },
	{ .type = FLAG_END },
};

static const struct flag_rule sample_rules[] = {
	{ "on more", FLAG_NEEDS, "name text", .sentence = "needs a name" },
	{ "colour=red", FLAG_EXCLUDES, "rate", .sentence = "red excludes rate" },
	{ 0 },
};

static const struct flag_set sample_set = { .flags = sample_rows,
					    .rules = sample_rules,
					    .size = sizeof(struct sample),
					    .command = offsetof(struct sample, command),
					    .mark = offsetof(struct sample, last),
					    .operand = "name",
					    .twins = "SAMPLE" };

/* Parses up to six words, and gives what options_parse() gives. */
static int parse(struct sample *sample, struct buf *error, const char *const words[6])
{
	char *argv[8] = { (char *)"sample" };
	int argc = 1;

	buf_reset(error);
	for (; argc < 7 && words[argc - 1]; argc++)
		argv[argc] = (char *)words[argc - 1];
	return options_parse(&sample_set, sample, NULL, argc, argv, error);
}

#define PARSE(sample, error, ...) parse(sample, error, (const char *const[6]){ __VA_ARGS__ })

Test(flags, types)
{
	struct buf error = { .max = 4096 };
	struct sample sample;

	cr_assert_eq(PARSE(&sample, &error, NULL), OPTIONS_RUN);
	cr_expect(sample.inner.hz == 5 && sample.colour == GREEN && !sample.on && !sample.text);
	options_fini(&sample_set, &sample);
	cr_assert_eq(PARSE(&sample, &error, "--on", "-F9", "--for=1m", "-mmm", "x", "--text=y"),
		     OPTIONS_RUN, "%s", error.data);
	cr_expect(sample.on && sample.inner.hz == 9 && sample.seconds == 60 && sample.times == 2);
	cr_expect_str_eq(sample.text, "y");
	cr_assert_eq(sample.nr_names, 1);
	cr_expect_str_eq(sample.names[0], "x");
	cr_expect_str_eq(sample.last->name, "text");
	options_fini(&sample_set, &sample);
	cr_expect_null(sample.text);
	cr_assert_eq(PARSE(&sample, &error, "--blue", "--blue", "--keep=4K", "--", "z"),
		     OPTIONS_RUN);
	cr_expect(sample.colour == BLUE && sample.bytes == 4096);
	cr_expect_str_eq(sample.command[0], "z");
	options_fini(&sample_set, &sample);
}

Test(flags, refusals)
{
	static const struct {
		const char *words[6], *says;
	} cases[] = {
		{ { "-F", "0" }, "-F 0: 1 to 9" },
		{ { "--rate=10" }, "--rate=10: 1 to 9" },
		{ { "--for", "1s" }, "--for 1s: too short" },
		{ { "--for", "2.5" }, "--for 2.5: whole seconds" },
		{ { "--for", "x" }, "--for x: whole seconds" },
		{ { "--keep", "5K" }, "--keep 5K: bytes" },
		{ { "--colour=grey" }, "--colour=grey: a colour" },
		{ { "--colour=red", "--blue" }, "--blue: two colours" },
		{ { "--text=" }, "--text=: a text" },
		{ { "--name", "" }, "--name '': a name" },
		{ { "--on" }, "needs a name" },
		{ { "-m" }, "needs a name" },
		{ { "--colour=red", "-F6" }, "red excludes rate" },
		{ { "--on=1" }, "--on: takes no value, leave out =1" },
		{ { "--for" }, "--for: its value is missing (TIME)" },
		{ { "--" }, "--: the program to run is missing" },
	};
	struct buf error = { .max = 4096 };
	struct sample sample;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cr_expect_eq(parse(&sample, &error, cases[i].words), -EINVAL, "%zu", i);
		cr_expect_str_eq(error.data, cases[i].says);
	}
	/* A default is not set, wherever it came from. */
	cr_expect_eq(PARSE(&sample, &error, "--colour=red", "-F5"), OPTIONS_RUN);
	options_fini(&sample_set, &sample);
	buf_fini(&error);
}

Test(flags, twins)
{
	struct buf error = { .max = 4096 };
	struct sample sample;

	setenv("BPFPROF_NAME", "a,,b", 1);
	setenv("BPFPROF_SAMPLE_MORE", "2", 1);
	setenv("BPFPROF_ON", "yes", 1);
	cr_assert_eq(PARSE(&sample, &error, "--rate", "3"), OPTIONS_RUN, "%s", error.data);
	cr_expect(sample.nr_names == 2 && sample.times == 2 && sample.on && sample.inner.hz == 3);
	options_fini(&sample_set, &sample);
	setenv("BPFPROF_RATE", "x", 1);
	cr_assert_eq(PARSE(&sample, &error, NULL), -EINVAL);
	cr_expect_str_eq(error.data, "BPFPROF_RATE=x: 1 to 9");
	buf_fini(&error);
}
