// SPDX-License-Identifier: Apache-2.0
#include "formats/output.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/strtab.h"
#include "formats/profile_text.h"
#include "profile/stats.h"
#include "made_profile.h"

TestSuite(folded, .timeout = 120);

static const char golden[] =
	"dd;[kernel]_[k];ksys_write_[k] 5\n"
	"python3;Py_RunMain;<module> (train.py:90);Trainer.fit (trainer/loop.py:31);"
	"at::native::add 3\n"
	"python3;Py_RunMain;<module> (train.py:90);Trainer.fit (trainer/loop.py:31);"
	"at::native::add;libfoo.so.1+0x1f2e 2\n"
	"python3;Py_RunMain;<module> (train.py:90);Trainer.fit (trainer/loop.py:33) 1\n"
	"python3;[truncated];at::native::add 4\n";

Test(folded, golden)
{
	struct profile *profile = made_golden();
	char *text = made_text(folded_write, profile, NULL, NULL);

	cr_assert_str_eq(text, golden);
	free(text);
	made_free(profile);
}

Test(folded, counters_first)
{
	struct run_stats stats = { .samples = 15, .duration_seconds = 10 };
	struct profile *profile = made_golden();
	struct buf json;
	char *text;

	profile->stats = &stats;
	text = made_text(folded_write, profile, NULL, NULL);
	buf_init(&json, 1 << 16);
	buf_add_str(&json, "# ");
	stats_json(&json, &stats);
	buf_add_str(&json, "\n");
	cr_assert(!strncmp(text, json.data, json.len));
	cr_assert_str_eq(text + json.len, golden);
	buf_fini(&json);
	free(text);
	made_free(profile);
}

Test(folded, frame_texts)
{
	static const struct {
		const char *name, *file, *short_file;
		uint32_t line;
		const char *want;
	} cases[] = {
		{ "f", "/a/b/c.py", "b/c.py", 7, "f (b/c.py:7)" },
		{ "f", "/a/b/c.py", "", 7, "f (c.py:7)" },
		{ "f", "/a/b/c.py", "b/c.py", 0, "f (b/c.py)" },
		{ "f", "", "", 7, "f" },
		{ "C.<locals>.<lambda>", "<frozen importlib._bootstrap>", "", 1,
		  "C.<locals>.<lambda> (<frozen importlib._bootstrap>:1)" },
		{ "a;b\nc\td", "x;y.py", "x;y.py", 1, "a:b c d (x:y.py:1)" },
		{ "caf\xc3\xa9 \xf0\x9f\x90\x8d", "x.py", "", 1,
		  "caf\xc3\xa9 \xf0\x9f\x90\x8d (x.py:1)" },
		/* Not UTF-8: a stray byte, an overlong slash, a surrogate, a cut sequence. */
		{ "\xff", "x.py", "", 1, "\xef\xbf\xbd (x.py:1)" },
		{ "\xc0\xaf", "x.py", "", 1, "\xef\xbf\xbd\xef\xbf\xbd (x.py:1)" },
		{ "\xe0\x80\xaf", "x.py", "", 1, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd (x.py:1)" },
		{ "\xed\xa0\x80", "x.py", "", 1, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd (x.py:1)" },
		{ "a\xe2\x82", "x.py", "", 1, "a\xef\xbf\xbd\xef\xbf\xbd (x.py:1)" },
		{ "\xf4\x90\x80\x80", "x.py", "", 1,
		  "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd (x.py:1)" },
		/* Escape sequences, C1 controls, line separator, text direction. */
		{ "\x1b[31mred\x7f", "x.py", "", 1, " [31mred  (x.py:1)" },
		{ "a\xc2\x9b"
		  "b\xe2\x80\xa8"
		  "c\xe2\x80\xae"
		  "d",
		  "x.py", "", 1, "a b c d (x.py:1)" },
	};
	struct profile *profile = made_new();
	struct buf text;
	uint32_t index;
	size_t i;

	buf_init(&text, 1 << 16);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		index = made_python(profile, cases[i].name, cases[i].file, cases[i].short_file,
				    cases[i].line, 1);
		buf_reset(&text);
		frame_text(&text, profile, &profile->locations[index]);
		cr_expect_str_eq(text.data, cases[i].want, "case %zu", i);
	}
	buf_fini(&text);
	made_free(profile);
}

Test(folded, long_names_are_cut)
{
	struct profile *profile = made_new();
	char *name = malloc(100001);
	struct buf text;

	memset(name, 'x', 100000);
	name[100000] = 0;
	buf_init(&text, 1 << 20);
	made_native(profile, name, 0, 0);
	frame_text(&text, profile, &profile->locations[0]);
	cr_assert_eq(text.len, 4096 + 3);
	cr_assert_str_eq(text.data + 4096, "...");
	buf_fini(&text);
	free(name);
	made_free(profile);
}

Test(folded, equal_texts_are_one_line)
{
	struct profile *profile = made_new();
	uint32_t one = made_process(profile, 1, "worker", ""),
		 two = made_process(profile, 2, "worker", "");
	uint32_t f = made_native(profile, "f", 0, 0x10), g = made_native(profile, "f", 0, 0x20);
	char *text;

	made_add(profile, one, 3, f);
	made_add(profile, two, 4, g);
	text = made_text(folded_write, profile, NULL, NULL);
	cr_assert_str_eq(text, "worker;f 7\n");
	free(text);
	made_free(profile);
}

Test(folded, names_of_processes)
{
	struct profile *profile = made_new();
	uint32_t hostile = made_process(profile, 1, "a;b\nc 9", "");
	uint32_t none = made_process(profile, 2, "", ""),
		 ray = made_process(profile, 3, "python", "");
	uint32_t f = made_native(profile, "f", 0, 0x10);
	uint32_t comment = made_process(profile, 4, "# {", "");
	char *text;

	profile->processes[ray].title = strtab_add(profile->strings, "ray::Trainer.fit");
	made_add(profile, hostile, 1, f);
	made_add(profile, none, 2, f);
	made_add(profile, ray, 3, f);
	made_add(profile, comment, 4, f);
	text = made_text(folded_write, profile, NULL, NULL);
	cr_assert_str_eq(text, "? {;f 4\na:b c 9;f 1\nprocess-2;f 2\nray::Trainer.fit;f 3\n");
	free(text);
	made_free(profile);
}

Test(folded, threads)
{
	const struct output_options options = { .threads = true };
	struct profile *profile = made_new();
	uint32_t process = made_process(profile, 1, "app", ""), f = made_native(profile, "f", 0, 0);
	struct profile_sample *sample;
	char *text;

	sample = made_add(profile, process, 1, f);
	sample->tid = 12;
	sample->thread = strtab_add(profile->strings, "io;0");
	sample = made_add(profile, process, 2, f);
	sample->tid = 11;
	text = made_text(folded_write, profile, &options, NULL);
	cr_assert_str_eq(text, "app;io:0-12;f 1\napp;thread-11;f 2\n");
	free(text);
	made_free(profile);
}

Test(folded, nothing)
{
	struct profile *profile = made_new();
	char *text = made_text(folded_write, profile, NULL, NULL);

	cr_assert_str_eq(text, "");
	free(text);
	made_free(profile);
}

static void fill_random(struct profile *profile, uint64_t *ret_total)
{
	uint32_t frames[30], stack[100], nr, i, j;
	uint32_t process[3];
	char name[16];

	for (i = 0; i < 30; i++) {
		snprintf(name, sizeof(name), "f%u", i % 20);
		frames[i] = i % 3 ? made_native(profile, name, 0, i)
				  : made_python(profile, name, "x.py", "x.py", i, 1);
	}
	for (i = 0; i < 3; i++)
		process[i] = made_process(profile, i, i ? "one" : "two", "");
	*ret_total = 0;
	for (i = 0; i < 3000; i++) {
		nr = (uint32_t)(random() % 100);
		for (j = 0; j < nr; j++)
			stack[j] = frames[random() % (j < 60 ? 2 : 30)];
		made_sample(profile, process[i % 3], made_stack(profile, stack, nr), i % 5);
		*ret_total += i % 5;
	}
}

/* The lines are read back: they are distinct, sorted as a tree, and hold every sample. */
Test(folded, sums_and_order)
{
	char *text, *line, *next, *space, *last = NULL;
	struct profile *profile = made_new();
	uint64_t total, sum = 0;

	srandom(1);
	fill_random(profile, &total);
	text = made_text(folded_write, profile, NULL, NULL);
	for (line = text; *line; line = next) {
		next = strchr(line, '\n');
		*next++ = 0;
		space = strrchr(line, ' ');
		*space = 0;
		cr_assert_str_neq(space + 1, "0");
		sum += strtoul(space + 1, NULL, 10);
		cr_assert(!last || strcmp(last, line), "twice: %s", line);
		last = line;
	}
	cr_assert_eq(sum, total);
	free(text);
	made_free(profile);
}

Test(folded, containers_come_first)
{
	static const struct {
		const char *id, *namespace, *pod, *name, *want;
	} cases[] = {
		{ "0123456789abcdef", "ml", "trainer-0", "worker",
		  "ml/trainer-0/worker;app;f 1\n" },
		{ "0123456789abcdef", "ml", "trainer-0", "",
		  "ml/trainer-0/0123456789ab;app;f 1\n" },
		{ "c1", "ml", "trainer-0", "", "ml/trainer-0/c1;app;f 1\n" },
		/* No pod: of docker, or containerd without Kubernetes. */
		{ "0123456789abcdef", "", "", "web", "app;f 1\n" },
		/* Names that look like several parts. */
		{ "c1", "a/b", "../x;y", "w\n\x1b[0m/", "a_b/.._x:y/w  [0m_;app;f 1\n" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct profile *profile = made_new();
		uint32_t process = made_process(profile, 42, "app", "");
		char *text;

		profile->processes[process].container =
			made_container(profile, cases[i].id, cases[i].namespace, cases[i].pod,
				       cases[i].name, NULL);
		made_add(profile, process, 1, made_native(profile, "f", 0, 0));
		text = made_text(folded_write, profile, NULL, NULL);
		cr_expect_str_eq(text, cases[i].want, "%s", text);
		free(text);
		made_free(profile);
	}
}

/* The same program in two pods and on the node itself: three stacks. */
Test(folded, pods_are_kept_apart)
{
	struct profile *profile = made_new();
	uint32_t f = made_native(profile, "f", 0, 0), i;
	char *text;

	for (i = 0; i < 3; i++)
		made_add(profile, made_process(profile, 40 + i, "app", ""), i + 1, f);
	profile->processes[1].container = made_container(profile, "c1", "ml", "b", "w", NULL);
	profile->processes[2].container = made_container(profile, "c2", "ml", "a", "w", NULL);
	text = made_text(folded_write, profile, NULL, NULL);
	cr_expect_str_eq(text, "app;f 1\nml/a/w;app;f 3\nml/b/w;app;f 2\n", "%s", text);
	free(text);
	made_free(profile);
}

/* Frames of calls are their names; a sample counts calls. */
Test(folded, calls)
{
	struct profile *profile = made_calls();
	char *text = made_text(folded_write, profile, NULL, NULL);

	cr_assert_str_eq(text, "infer;[no stack];ncclAllReduce 1\n"
			       "python3;Trainer.fit (loop.py:31);at::mm;cuLaunchKernel;"
			       "void sgemm<128, 4> 9\n"
			       "python3;Trainer.fit (loop.py:31);ncclAllReduce 2\n");
	free(text);
	made_free(profile);
}
