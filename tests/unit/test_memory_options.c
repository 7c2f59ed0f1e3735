// SPDX-License-Identifier: Apache-2.0
#include "options/memory_options.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "base/buf.h"

TestSuite(memory_options, .timeout = 60);

static int parse(struct memory_options *options, struct buf *error, char *argv[])
{
	int argc = 0;

	while (argv[argc])
		argc++;
	buf_init(error, 4096);
	return options_parse(&memory_flags, options, NULL, argc, argv, error);
}

Test(memory_options, defaults_and_values)
{
	/* The options point into the arguments. */
	char *one[] = { (char *)"memory", (char *)"-p", (char *)"17,18", NULL };
	char *two[] = { (char *)"memory", (char *)"--grown", (char *)"--sample", (char *)"32K",
			(char *)"-d",	  (char *)"2m",	     (char *)"-o",	 (char *)"x.pb.gz",
			(char *)"--",	  (char *)"true",    (char *)"-x",	 NULL };
	char *three[] = {
		(char *)"memory",	  (char *)"--allocations", (char *)"-p",      (char *)"17",
		(char *)"--max-slowdown", (char *)"25%",	   (char *)"--leaks", NULL
	};
	struct memory_options options;
	struct buf error;

	cr_assert_eq(parse(&options, &error, one), OPTIONS_RUN, "%s", error.data);
	cr_expect_eq(options.sample_bytes, 512 << 10);
	cr_expect_eq(options.question, MEMORY_HELD);
	cr_expect_eq(options.rows, 20);
	cr_expect_eq(options.record.capture.nr_pids, 2);
	cr_expect_eq(options.record.nr_outputs, 0);
	options_fini(&memory_flags, &options);
	buf_fini(&error);
	cr_assert_eq(parse(&options, &error, two), OPTIONS_RUN, "%s", error.data);
	cr_expect_eq(options.question, MEMORY_GROWN);
	cr_expect_eq(options.sample_bytes, 32 << 10);
	cr_expect_eq(options.record.duration_ns, 120ULL * 1000000000);
	cr_expect_eq(options.record.nr_outputs, 1);
	cr_expect_str_eq(options.record.command[1], "-x");
	cr_expect(!options.timeline); /* only for -o FILE.html */
	options_fini(&memory_flags, &options);
	buf_fini(&error);
	cr_assert_eq(parse(&options, &error, three), OPTIONS_RUN, "%s", error.data);
	cr_expect(options.allocations);
	cr_expect_eq(options.max_slowdown, 25);
	cr_expect_eq(options.question, MEMORY_LEAKS);
	options_fini(&memory_flags, &options);
	buf_fini(&error);
}

Test(memory_options, refused)
{
	static char *const lines[][3] = {
		{ (char *)"--held", (char *)"--grown" },
		{ (char *)"--sample", (char *)"4095" },
		{ (char *)"--sample", (char *)"2G" },
		{ (char *)"--format", (char *)"html" },
		{ (char *)"-o", (char *)"x.json" },
		{ (char *)"1234", (char *)"-v" },
		{ (char *)"--max-slowdown", (char *)"%" },
		{ (char *)"--max-slowdown", (char *)"1001%" },
		{ (char *)"--allocations", (char *)"-v" },
		{ (char *)"--max-slowdown", (char *)"5" },
		{ (char *)"--peak", (char *)"--leaks" },
	};
	struct memory_options options;
	struct buf error;
	size_t i;

	for (i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		char *argv[] = { (char *)"memory", lines[i][0], lines[i][1], NULL };

		cr_expect_eq(parse(&options, &error, argv), -EINVAL, "%s %s", lines[i][0],
			     lines[i][1]);
		cr_expect(error.len, "%s: no sentence", lines[i][0]);
		buf_fini(&error);
	}
}

Test(memory_options, once)
{
	char *alone[] = { (char *)"memory", (char *)"--once", NULL };
	char *longer[] = { (char *)"memory", (char *)"-d", (char *)"20", (char *)"--once", NULL };
	struct memory_options options;
	struct buf error;

	cr_assert_eq(parse(&options, &error, alone), OPTIONS_RUN, "%s", error.data);
	cr_expect_eq(options.record.duration_ns, 5ULL * 1000000000);
	options_fini(&memory_flags, &options);
	buf_fini(&error);
	cr_assert_eq(parse(&options, &error, longer), OPTIONS_RUN, "%s", error.data);
	cr_expect_eq(options.record.duration_ns, 20ULL * 1000000000);
	options_fini(&memory_flags, &options);
	buf_fini(&error);
}
