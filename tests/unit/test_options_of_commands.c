// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/time.h"
#include "options/flags.h"
#include "options/options.h"
#include "options/watch_options.h"
#include "option_line.h"

#define SECOND 1000000000ULL

Test(options, doctor)
{
	struct doctor_options options;
	struct line line;
	struct buf error;

	buf_init(&error, 4096);
	line_split(&line, "--pid 17 --json");
	cr_assert_eq(options_parse(&doctor_flags, &options, NULL, line.argc, line.argv, &error),
		     OPTIONS_RUN);
	cr_expect_eq(options.pid, 17);
	cr_expect(options.json);
	options_fini(&doctor_flags, &options);

	line_split(&line, "--jsno");
	cr_assert_eq(options_parse(&doctor_flags, &options, NULL, line.argc, line.argv, &error),
		     -EINVAL);
	cr_expect_str_eq(error.data, "--jsno: no such flag, did you mean --json?");
	buf_reset(&error);
	line_split(&line, "-- true");
	cr_assert_eq(options_parse(&doctor_flags, &options, NULL, line.argc, line.argv, &error),
		     -EINVAL);
	cr_expect_str_eq(error.data, "--: no such argument; a process id goes after --pid");
	buf_fini(&error);
}

Test(options, dump)
{
	struct dump_options options;
	struct line line;
	struct buf error;

	buf_init(&error, 8192);
	line_split(&line, "-p 17,18 -nkll --locals -j -s --full-filenames -p 17");
	cr_assert_eq(options_parse(&dump_flags, &options, NULL, line.argc, line.argv, &error),
		     OPTIONS_RUN);
	cr_expect(options.nr_pids == 2 && options.pids[0] == 17 && options.pids[1] == 18);
	cr_expect(options.native && options.kernel && options.json && options.subprocesses &&
		  options.full_filenames && !options.verbose);
	cr_expect_eq(options.locals, 3);
	options_fini(&dump_flags, &options);

	line_split(&line, "--native");
	cr_assert_eq(options_parse(&dump_flags, &options, NULL, line.argc, line.argv, &error),
		     -EINVAL);
	cr_expect_str_eq(error.data, "-p, --pod or --worker is missing: which process?");
	buf_reset(&error);
	line_split(&line, "--worker ,A*,b");
	cr_assert_eq(options_parse(&dump_flags, &options, NULL, line.argc, line.argv, &error),
		     OPTIONS_RUN);
	cr_expect_eq(options.nr_workers, 2);
	cr_expect_str_eq(options.workers[1], "b");
	options_fini(&dump_flags, &options);
	line_split(&line, "--pod ml/* --pod b --container 4f");
	cr_assert_eq(options_parse(&dump_flags, &options, NULL, line.argc, line.argv, &error),
		     OPTIONS_RUN);
	cr_expect_eq(options.nr_pids, 0);
	cr_assert(options.containers.nr_pods == 2 && options.containers.nr_ids == 1);
	cr_expect_str_eq(options.containers.pods[0], "ml/*");
	cr_expect_str_eq(options.containers.ids[0], "4f");
	options_fini(&dump_flags, &options);
	line_split(&line, "-p 17 18 -n 19");
	setenv("BPFPROF_PID", "5", 1);
	cr_assert_eq(options_parse(&dump_flags, &options, NULL, line.argc, line.argv, &error),
		     OPTIONS_RUN);
	cr_expect(options.nr_pids == 3 && options.pids[1] == 18 && options.pids[2] == 19);
	options_fini(&dump_flags, &options);
	unsetenv("BPFPROF_PID");
	line_split(&line, "train.py");
	cr_assert_eq(options_parse(&dump_flags, &options, NULL, line.argc, line.argv, &error),
		     -EINVAL);
	cr_expect_str_eq(error.data, "train.py: must be a process id, a whole number from 1");
	buf_reset(&error);
	line_split(&line, "-p 0");
	cr_assert_eq(options_parse(&dump_flags, &options, NULL, line.argc, line.argv, &error),
		     -EINVAL);
	cr_expect_str_eq(error.data, "-p 0: must be a process id, a whole number from 1");
	buf_reset(&error);
	options_help(&error, &dump_flags);
	cr_expect(strstr(error.data, "Examples:") && strstr(error.data, "--full-filenames"));
	for (const char *row = error.data; *row; row += strcspn(row, "\n") + 1)
		cr_expect_leq(strcspn(row, "\n"), 90, "%.90s", row);
	buf_fini(&error);
}

Test(options, stall)
{
	static const struct {
		const char *text;
		int result;
		uint64_t seconds;
	} watches[] = { { "-p 1", OPTIONS_RUN, 300 },
			{ "-p 1 --stall 0", OPTIONS_RUN, 0 },
			{ "-p 1 --stall 2m", OPTIONS_RUN, 120 },
			{ "-p 1 --stall 0s", -EINVAL, 0 },
			{ "-p 1 --stall", -EINVAL, 0 } };
	struct watch_options watch;
	struct dump_options dump;
	struct line line;
	struct buf error;
	size_t i;

	buf_init(&error, 8192);
	for (i = 0; i < sizeof(watches) / sizeof(watches[0]); i++) {
		line_split(&line, watches[i].text);
		cr_assert_eq(
			options_parse(&watch_flags, &watch, NULL, line.argc, line.argv, &error),
			watches[i].result, "%s", watches[i].text);
		buf_reset(&error);
		if (watches[i].result != OPTIONS_RUN)
			continue;
		cr_expect_eq(watch.stall.after_ns, watches[i].seconds * 1000000000, "%s",
			     watches[i].text);
		options_fini(&watch_flags, &watch);
	}
	line_split(&line, "-p 1 -w --stall 5s");
	cr_assert_eq(options_parse(&dump_flags, &dump, NULL, line.argc, line.argv, &error),
		     OPTIONS_RUN);
	cr_expect(dump.waits && dump.stall.after_ns == 5000000000);
	options_fini(&dump_flags, &dump);
	line_split(&line, "-p 1 --waits --json");
	cr_assert_eq(options_parse(&dump_flags, &dump, NULL, line.argc, line.argv, &error),
		     -EINVAL);
	cr_expect_str_eq(error.data, "--waits is for people: leave --json out");
	buf_fini(&error);
}

Test(options, top)
{
	static const struct {
		const char *words, *says;
	} wrong[] = {
		{ "--delay 0", "--delay 0: " },
		{ "--delay 0.05", "from 0.1 to 3600" },
		{ "--delay 2h", "from 0.1 to 3600" },
		{ "-d 5", "--duration: goes with --batch" },
		{ "--batch --once", "choose one" },
		{ "-o x.html", "-o: no such flag" },
		{ "-p 0", "-p 0: must be a process id" },
		{ "-- true", "a process id goes after -p" },
	};
	struct top_options options;
	struct line line;
	struct buf error;
	size_t i;

	buf_init(&error, 4096);
	line_split(&line, "");
	cr_assert_eq(options_parse(&top_flags, &options, NULL, line.argc, line.argv, &error),
		     OPTIONS_RUN);
	cr_expect(options.delay_ns == SECOND && !options.once && !options.capture.nr_pids &&
		  options.capture.session.hz == 99);
	options_fini(&top_flags, &options);

	setenv("BPFPROF_DELAY", "7", 1);
	line_split(&line, "-p 17,18 --once --native --gil --no-subprocesses -F 50 --delay 2.5");
	cr_assert_eq(options_parse(&top_flags, &options, NULL, line.argc, line.argv, &error),
		     OPTIONS_RUN);
	cr_expect(options.delay_ns == SECOND * 5 / 2 && options.once);
	cr_expect(options.capture.nr_pids == 2 && options.capture.pids[1] == 18);
	cr_expect(options.native && options.capture.gil && options.capture.no_subprocesses &&
		  options.capture.session.hz == 50);
	options_fini(&top_flags, &options);
	line_split(&line, "--batch -d 5");
	cr_assert_eq(options_parse(&top_flags, &options, NULL, line.argc, line.argv, &error),
		     OPTIONS_RUN);
	cr_expect(options.batch && options.duration_ns == 5 * SECOND);
	options_fini(&top_flags, &options);
	line_split(&line, "--comm py* --worker x");
	cr_assert_eq(options_parse(&top_flags, &options, NULL, line.argc, line.argv, &error),
		     OPTIONS_RUN);
	cr_expect(options.delay_ns == 7 * SECOND && options.capture.nr_comms == 1 &&
		  options.capture.nr_workers == 1);
	options_fini(&top_flags, &options);
	unsetenv("BPFPROF_DELAY");

	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		buf_reset(&error);
		line_split(&line, wrong[i].words);
		cr_assert_eq(
			options_parse(&top_flags, &options, NULL, line.argc, line.argv, &error),
			-EINVAL, "%s", wrong[i].words);
		cr_expect(strstr(error.data, wrong[i].says), "%s", error.data);
	}
	buf_fini(&error);
}
