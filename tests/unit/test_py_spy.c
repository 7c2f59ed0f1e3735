// SPDX-License-Identifier: Apache-2.0
#include "formats/py_spy.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "formats/output.h"
#include "made_profile.h"

/* Two threads of Python, one with native and kernel frames. */
static struct profile *made(void)
{
	struct profile *profile = made_new();
	uint32_t process = made_process(profile, 7, "python3", "python3 a.py");
	uint32_t python = made_mapping(profile, "/usr/lib/libpython3.11.so.1.0", "", 0, 4096);
	uint32_t outer = made_python(profile, "<module>", "/app/a.py", "a.py", 9, 1);
	uint32_t inner = made_python(profile, "f", "/app/a.py", "a.py", 4, 3);
	uint32_t native = made_native(profile, "list_sort", python, 64);
	uint32_t kernel = made_kernel(profile, "clear_page", 0xffffffff81000000);

	made_add(profile, process, 3, kernel, native, inner, outer);
	made_add(profile, process, 2, inner, outer);
	made_add(profile, process, 1, kernel);
	return profile;
}

static void expect(const struct py_spy_form *form, const struct output_options *options,
		   const char *text)
{
	struct profile *profile = made();
	char *got;

	cr_assert_eq(py_spy_shape(profile, form), 0);
	got = made_text(raw_write, profile, options, NULL);
	cr_expect_str_eq(got, text);
	free(got);
	made_free(profile);
}

Test(py_spy, frames)
{
	struct output_options options = { .py_spy = true };

	expect(&(struct py_spy_form){ 0 }, &options, "<module> (a.py:9);f (a.py:4) 5\n");
	expect(&(struct py_spy_form){ .native = true }, &options,
	       "<module> (a.py:9);f (a.py:4) 2\n"
	       "<module> (a.py:9);f (a.py:4);list_sort (libpython3.11.so.1.0) 3\n");
	expect(&(struct py_spy_form){ .function = true }, &options,
	       "<module> (a.py:1);f (a.py:3) 5\n");
	expect(&(struct py_spy_form){ .no_lines = true }, &options, "<module> (a.py);f (a.py) 5\n");
	expect(&(struct py_spy_form){ .full_filenames = true }, &options,
	       "<module> (/app/a.py:9);f (/app/a.py:4) 5\n");
	options.several = true;
	expect(&(struct py_spy_form){ 0 }, &options,
	       "process 7:\"python3 a.py\";<module> (a.py:9);f (a.py:4) 5\n");
}

/* Only what is shown is left: names of other code are in no file. */
Test(py_spy, swept)
{
	struct profile *profile = made();

	cr_assert_eq(py_spy_shape(profile, &(struct py_spy_form){ 0 }), 0);
	cr_expect_eq(profile->nr_locations, 2);
	cr_expect_eq(profile->nr_samples, 2);
	made_free(profile);
}

/* py-spy samples idle threads at its rate: 10 ms are a sample at 99 Hz. */
Test(py_spy, idle_threads)
{
	struct profile *profile = made();

	profile->time = PROFILE_TIME_WALL;
	profile->samples[0].value_ns = 2000000000;
	profile->samples[1].value_ns = 1000;
	cr_assert_eq(py_spy_shape(profile, &(struct py_spy_form){ 0 }), 0);
	cr_expect_eq(profile->nr_samples, 1);
	cr_expect_eq(profile->samples[0].count, 198);
	cr_expect_eq(profile->time, PROFILE_TIME_CPU);
	made_free(profile);
}

/* A child stands below its parent; a circle of pids that were reused ends. */
Test(py_spy, children)
{
	const struct output_options options = { .py_spy = true, .several = true };
	struct profile *profile = made_new();
	uint32_t frame = made_python(profile, "f", "/app/a.py", "a.py", 4, 3);
	uint32_t pids[] = { 7, 8, 9, 30 }, i;
	char *got;

	for (i = 0; i < 4; i++)
		made_add(profile, made_process(profile, pids[i], "python3", "p"), 1 + i, frame);
	for (i = 1; i < 4; i++)
		profile->processes[i].parent = pids[i] - 1;
	got = made_text(raw_write, profile, &options, NULL);
	cr_expect_str_eq(got, "process 30:\"p\";f (a.py:4) 4\n"
			      "process 7:\"p\";process 8:\"p\";process 9:\"p\";f (a.py:4) 3\n"
			      "process 7:\"p\";process 8:\"p\";f (a.py:4) 2\n"
			      "process 7:\"p\";f (a.py:4) 1\n");
	free(got);
	profile->processes[0].parent = 9;
	got = made_text(raw_write, profile, &options, NULL);
	cr_expect_not_null(strstr(got, "f (a.py:4) 3\n"));
	free(got);
	made_free(profile);
}
