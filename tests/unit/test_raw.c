// SPDX-License-Identifier: Apache-2.0
#include "formats/output.h"

#include <criterion/criterion.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "base/strtab.h"
#include "made_profile.h"

TestSuite(raw, .timeout = 60);

/* The form that readers of such files accept: no blank in NAME, no parenthesis or colon in PATH. */
#define FRAME "[^ ]+ \\([^():]+:[0-9]+\\)"

static void assert_lines(const char *text, const char *pattern)
{
	char *copy = strdup(text), *line, *next;
	regex_t regex;

	cr_assert(!regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB));
	for (line = copy; *line; line = next) {
		next = strchr(line, '\n');
		*next++ = 0;
		cr_expect(!regexec(&regex, line, 0, NULL, 0), "line %s", line);
	}
	regfree(&regex);
	free(copy);
}

Test(raw, python_alone)
{
	struct profile *profile = made_golden();
	char *text = made_text(raw_write, profile, NULL, NULL);

	cr_assert_str_eq(text, "<module> (train.py:90);Trainer.fit (trainer/loop.py:31) 5\n"
			       "<module> (train.py:90);Trainer.fit (trainer/loop.py:33) 1\n");
	free(text);
	made_free(profile);
}

Test(raw, native)
{
	const struct output_options options = { .native = true };
	struct profile *profile = made_golden();
	char *text = made_text(raw_write, profile, &options, NULL);

	cr_assert_str_eq(
		text,
		"Py_RunMain (python3.11:0);<module> (train.py:90);Trainer.fit (trainer/loop.py:31);"
		"at::native::add (libfoo.so.1:0) 5\n"
		"Py_RunMain (python3.11:0);<module> (train.py:90);Trainer.fit (trainer/loop.py:33) "
		"1\n"
		"at::native::add (libfoo.so.1:0) 4\n");
	free(text);
	made_free(profile);
}

Test(raw, several_processes)
{
	const struct output_options options = { .several = true };
	struct profile *profile = made_golden();
	char *text = made_text(raw_write, profile, &options, NULL);

	cr_assert_str_eq(text, "process 42:\"python3 train.py --fast\";<module> (train.py:90);"
			       "Trainer.fit (trainer/loop.py:31) 5\n"
			       "process 42:\"python3 train.py --fast\";<module> (train.py:90);"
			       "Trainer.fit (trainer/loop.py:33) 1\n");
	free(text);
	made_free(profile);
}

Test(raw, hostile_names_keep_the_form)
{
	static const struct {
		const char *name, *path, *want;
	} cases[] = {
		{ "_find_and_load", "<frozen importlib._bootstrap>",
		  "_find_and_load (<frozen importlib._bootstrap>:7)" },
		{ "a b;c\nd", "x.py", "a_b:c_d (x.py:7)" },
		{ "f", "my (old):dir;/x y.py", "f (my _old__dir_/x y.py:7)" },
		{ "", "x.py", "? (x.py:7)" },
		{ "f", "", "f (?:7)" },
	};
	const struct output_options options = { .native = true, .several = true };
	struct profile *profile;
	char *text, want[256];
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		profile = made_new();
		made_process(profile, 1, "p", "p \"x;y\"\n");
		made_add(profile, 0, 9,
			 made_python(profile, cases[i].name, cases[i].path, cases[i].path, 7, 1));
		snprintf(want, sizeof(want), "process 1:\"p \"x:y\" \";%s 9\n", cases[i].want);
		text = made_text(raw_write, profile, &options, NULL);
		cr_expect_str_eq(text, want, "case %zu: %s", i, text);
		free(text);
		made_free(profile);
	}
}

Test(raw, every_frame_matches)
{
	static const char *const names[] = { "operator new", "std::map<int, char>::at",
					     "(anonymous namespace)::f", "a b(c) d:e;f" };
	const struct output_options options = { .native = true, .threads = true };
	struct profile *profile = made_golden();
	uint32_t mapping = made_mapping(profile, "/a (b):c/lib x.so", "", 0, 1);
	char *text;
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		made_add(profile, 0, 1, made_native(profile, names[i], mapping, i));
	text = made_text(raw_write, profile, &options, NULL);
	assert_lines(text, "^" FRAME "(;" FRAME ")* [0-9]+$");
	free(text);
	made_free(profile);
}

/* Names of calls have no place in a file: they are left out. */
Test(raw, calls)
{
	const struct output_options options = { .native = true };
	struct profile *profile = made_calls();
	char *text = made_text(raw_write, profile, &options, NULL);

	assert_lines(text, "^" FRAME "(;" FRAME ")* [0-9]+$");
	cr_expect_str_eq(text, "Trainer.fit (loop.py:31) 2\n"
			       "Trainer.fit (loop.py:31);at::mm (libtorch.so:0) 9\n");
	free(text);
	made_free(profile);
}
