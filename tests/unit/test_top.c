// SPDX-License-Identifier: Apache-2.0
#include "formats/output.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/strtab.h"
#include "made_profile.h"

TestSuite(top, .timeout = 60);

static char *top(const struct profile *profile, size_t rows)
{
	struct buf text;

	buf_init(&text, 1 << 20);
	top_text(&text, profile, rows);
	return buf_take(&text);
}

#define HEADING "  %Own  %Total       Own      Total  Function\n"
#define PYTHON "\n  %Own  %Total       Own      Total  Python function, C in it included\n"
#define PROCESSES "\n    PID       CPU     %CPU  Threads    Memory  Process\n"

Test(top, golden)
{
	struct profile *profile = made_golden();
	char *text = top(profile, 20);

	cr_assert_str_eq(
		text, HEADING
		" 46.7%   60.0%     0.07s      0.09s  at::native::add\n"
		" 33.3%   33.3%     0.05s      0.05s  ksys_write_[k]\n"
		" 13.3%   13.3%     0.02s      0.02s  [libfoo.so.1]\n"
		"  6.7%   40.0%     0.01s      0.06s  Trainer.fit (trainer/loop.py)\n"
		"  0.0%   40.0%     0.00s      0.06s  <module> (train.py)\n"
		"  0.0%   40.0%     0.00s      0.06s  Py_RunMain\n"
		"  0.0%   33.3%     0.00s      0.05s  [kernel]_[k]\n" PYTHON
		" 40.0%   40.0%     0.06s      0.06s  Trainer.fit (trainer/loop.py)\n" PROCESSES
		"     42      0.10s     1.0%        1         -  python3\n"
		"     77      0.05s     0.5%        1         -  dd\n");
	free(text);
	made_free(profile);
}

Test(top, recursion_counts_once)
{
	struct profile *profile = made_new();
	uint32_t f = made_python(profile, "f", "x.py", "x.py", 1, 1);
	uint32_t f_later = made_python(profile, "f", "x.py", "x.py", 2, 1);
	uint32_t g = made_python(profile, "g", "x.py", "x.py", 9, 9);
	char *text;

	made_process(profile, 1, "app", "");
	made_add(profile, 0, 100, f, f_later, g, f);
	made_add(profile, 0, 100, g, f_later);
	text = top(profile, 20);
	cr_assert(!strncmp(text,
			   HEADING " 50.0%  100.0%     1.00s      2.00s  f (x.py)\n"
				   " 50.0%  100.0%     1.00s      2.00s  g (x.py)\n\n",
			   strlen(HEADING) + 2 * 46 + 1),
		  "%s", text);
	free(text);
	made_free(profile);
}

Test(top, code_without_names_is_one_row_per_file)
{
	struct profile *profile = made_new();
	uint32_t zlib = made_mapping(profile, "/usr/lib/libz.so.1", "", 0, 0x1000);
	uint32_t caller = made_native(profile, "deflate", zlib, 1);
	char *text;

	made_process(profile, 1, "app", "");
	made_add(profile, 0, 100, made_unknown(profile, "libz.so.1+0x10", zlib, 0x10), caller);
	made_add(profile, 0, 100, made_unknown(profile, "libz.so.1+0x20", zlib, 0x20), caller);
	made_add(profile, 0, 50, made_unknown(profile, "[anon]+0x7f00", 0, 0x7f00));
	text = top(profile, 20);
	cr_assert(!strncmp(text,
			   HEADING " 80.0%   80.0%     2.00s      2.00s  [libz.so.1]\n"
				   " 20.0%   20.0%     0.50s      0.50s  [anon]\n"
				   "  0.0%   80.0%     0.00s      2.00s  deflate\n\n",
			   strlen(HEADING) + 49 + 44 + 46),
		  "%s", text);
	free(text);
	made_free(profile);
}

/* The row that a user of Python looks for must not drown in rows of its interpreter. */
Test(top, python_functions_have_a_table_of_their_own)
{
	struct profile *profile = made_new();
	uint32_t train = made_python(profile, "train", "x.py", "x.py", 1, 1);
	uint32_t train_later = made_python(profile, "train", "x.py", "x.py", 2, 1);
	uint32_t load = made_python(profile, "load", "x.py", "x.py", 9, 9);
	char *text, name[] = "PyNumber_A";
	size_t i;

	made_process(profile, 1, "app", "");
	for (i = 0; i < 6; i++) {
		name[sizeof(name) - 2] = (char)('A' + i);
		made_add(profile, 0, 100, made_native(profile, name, 0, i),
			 i % 2 ? train : train_later);
	}
	made_add(profile, 0, 100, load, train);
	text = top(profile, 4);
	cr_assert(strstr(text, "4 more functions\n" PYTHON
			       " 85.7%  100.0%     6.00s      7.00s  train (x.py)\n"
			       " 14.3%   14.3%     1.00s      1.00s  load (x.py)\n" PROCESSES),
		  "%s", text);
	free(text);
	text = top(profile, 2);
	cr_assert(strstr(text,
			 PYTHON " 85.7%  100.0%     6.00s      7.00s  train (x.py)\n"
				"                                     1 more Python function\n"),
		  "%s", text);
	free(text);
	made_free(profile);
}

Test(top, rows_are_bounded_and_eighty_columns_wide)
{
	struct profile *profile = made_new();
	char name[400], *text, *line, *next, *c;
	size_t i, columns;

	made_process(profile, 4194304, "a process of the longest name that there can be at all",
		     "");
	profile->processes[0].container =
		made_container(profile, "c1", "a-namespace-with-a-name-that-is-long",
			       "and-a-pod-whose-name-is-even-longer-than-that", "worker", NULL);
	profile->processes[0].pod_pid = 4194304;
	profile->processes[0].rss_known = true;
	profile->processes[0].rss_growth_bytes = -(123LL << 30);
	for (i = 0; i < 10; i++) {
		/* Two bytes, one column. */
		memset(name, 0, sizeof(name));
		for (c = name; c < name + 300; c += 2)
			memcpy(c, "\xc3\xa9", 2);
		snprintf(c, 20, "-end%zu", i);
		made_add(profile, 0, 1000, made_native(profile, name, 0, i));
	}
	text = top(profile, 4);
	cr_expect(strstr(text, "6 more functions\n"), "%s", text);
	cr_expect(strstr(text, "\xe2\x80\xa6"), "%s", text);
	cr_expect(strstr(text, "-end0\n"), "%s", text);
	for (line = text; *line; line = next) {
		next = strchr(line, '\n');
		*next++ = 0;
		for (columns = 0, c = line; *c; c++)
			columns += ((unsigned char)*c & 0xc0) != 0x80;
		cr_expect(columns <= 80, "%zu columns: %s", columns, line);
	}
	free(text);
	made_free(profile);
}

Test(top, processes)
{
	struct profile *profile = made_new();
	uint32_t f = made_native(profile, "f", 0, 0);
	char *text;

	made_process(profile, 10, "busy", "");
	made_process(profile, 11, "hung", "");
	made_process(profile, 12, "other", "");
	profile->processes[0].cpu_ns = 9500000000;
	profile->processes[0].nr_threads = 4;
	profile->processes[0].rss_known = true;
	profile->processes[0].rss_growth_bytes = 3 << 20;
	profile->processes[1].asked_for = true;
	profile->processes[1].cpu_ns = 10000000;
	profile->processes[1].rss_known = true;
	made_add(profile, 0, 950, f);
	made_add(profile, 2, 100, f);
	text = top(profile, 20);
	cr_assert_str_eq(strstr(text, PROCESSES), PROCESSES
			 "     11      0.01s     0.1%        1        +0  hung\n"
			 "         0.01 s on CPU in 10 s: dump -p 11 shows where it waits\n"
			 "     10      9.50s    95.0%        4    +3 MiB  busy\n"
			 "     12      1.00s    10.0%        1         -  other\n");
	free(text);
	profile->processes[1].container =
		made_container(profile, "c1", "ml", "trainer-0", "worker", NULL);
	profile->processes[1].pod_pid = 7;
	profile->processes[2].container = made_container(profile, "c2", "", "", "web", NULL);
	text = top(profile, 20);
	cr_assert_str_eq(strstr(text, PROCESSES), PROCESSES
			 "     11      0.01s     0.1%        1        +0  hung\n"
			 "         in ml/trainer-0/worker, pid 7 there\n"
			 "         0.01 s on CPU in 10 s: dump -p 11 shows where it waits\n"
			 "     10      9.50s    95.0%        4    +3 MiB  busy\n"
			 "     12      1.00s    10.0%        1         -  other\n"
			 "         in web\n");
	free(text);
	/* One asked for is shown even where there is no row left. */
	text = top(profile, 1);
	cr_assert(strstr(text, "  hung\n"), "%s", text);
	cr_assert(strstr(text, "2 more processes\n"), "%s", text);
	free(text);
	made_free(profile);
}

Test(top, no_samples)
{
	struct profile *profile = made_new();
	char *text;

	made_process(profile, 11, "hung", "");
	profile->processes[0].asked_for = true;
	profile->processes[0].nr_threads = 0;
	text = top(profile, 20);
	cr_assert_str_eq(text, "No samples: nothing that was watched ran on a CPU.\n" PROCESSES
			       "     11      0.00s     0.0%        0         -  hung\n"
			       "         0.00 s on CPU in 10 s: dump -p 11 shows where it waits\n");
	free(text);
	made_free(profile);
}

Test(top, terminal_is_safe)
{
	struct profile *profile = made_new();
	char *text;

	made_process(profile, 1, "\x1b]0;title\x07", "");
	made_add(profile, 0, 1, made_native(profile, "\x1b[2J\xc2\x9b", 0, 0));
	text = top(profile, 20);
	cr_assert(!strchr(text, 0x1b) && !strchr(text, 7) && !strstr(text, "\xc2\x9b"), "%s", text);
	free(text);
	made_free(profile);
}
