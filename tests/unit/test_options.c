// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/time.h"
#include "options/flags.h"
#include "options/options.h"
#include "option_line.h"

#define SECOND 1000000000ULL

static int parse(struct line *line, const char *words, struct record_options *options,
		 struct buf *error)
{
	buf_init(error, 4096);
	line_split(line, words);
	return options_parse(&record_flags, options, NULL, line->argc, line->argv, error);
}

/* Parses what must be right. */
static void parse_good(struct line *line, const char *words, struct record_options *options)
{
	struct buf error;
	int err = parse(line, words, options, &error);

	cr_assert_eq(err, OPTIONS_RUN, "'%s': %d %s", words, err, error.data ? error.data : "");
	cr_assert_eq(error.len, 0, "'%s': %s", words, error.data);
	buf_fini(&error);
}

/*
 * Parses a command line that must be refused: one sentence, with this beginning and this content.
 */
static void expect_refused(const char *words, const char *begin, const char *holds)
{
	struct record_options options;
	struct line line;
	struct buf error;
	int err = parse(&line, words, &options, &error);

	cr_assert_eq(err, -EINVAL, "'%s': %d", words, err);
	cr_assert_eq(buf_error(&error), 0);
	cr_expect_eq(strncmp(error.data, begin, strlen(begin)), 0, "'%s': %s", words, error.data);
	cr_expect_neq(strstr(error.data, holds), NULL, "'%s': %s", words, error.data);
	cr_expect_eq(strpbrk(error.data, "\n\r\t\033"), NULL, "'%s': more than one line", words);
	buf_fini(&error);
}

Test(options, start_at)
{
	struct record_options options;
	struct line line;
	char words[64];
	uint64_t now_ns = time_wall_ns();

	snprintf(words, sizeof(words), "--start-at %llu.25",
		 (unsigned long long)(now_ns / SECOND + 60));
	parse_good(&line, words, &options);
	cr_expect_eq(options.capture.start_at_ns, (now_ns / SECOND + 60) * SECOND + SECOND / 4);
	options_fini(&record_flags, &options);
	snprintf(words, sizeof(words), "--start-at %llu",
		 (unsigned long long)(now_ns / SECOND + 3700));
	expect_refused(words, "--start-at ", "is more than an hour ahead of the clock");
	expect_refused("--start-at 1", "--start-at 1: ", "is in the past of the clock");
	expect_refused("--start-at 99999999999999999999", "--start-at ", "must be a number");
	expect_refused("--start-at 1.5x", "--start-at 1.5x: ", "must be a number");
}

Test(options, defaults)
{
	struct record_options options;
	struct line line;

	parse_good(&line, "", &options);
	cr_expect_eq(options.capture.nr_pids, 0);
	cr_expect_eq(options.capture.nr_comms, 0);
	cr_expect_null(options.command);
	cr_expect_eq(options.capture.session.hz, 99);
	cr_expect_eq(options.duration_ns, 0);
	cr_expect_eq(options.capture.session.clock, SESSION_CLOCK_AUTO);
	cr_expect_not(options.capture.session.cycles);
	cr_expect_eq(options.split, RECORD_SPLIT_NODE);
	cr_assert_eq(options.nr_outputs, 1);
	cr_expect_str_eq(options.outputs[0].path, "bpfprof-%t.html");
	cr_expect_eq(options.outputs[0].format, OUTPUT_HTML);
	cr_expect_not(options.native || options.threads || options.verbose ||
		      options.capture.no_subprocesses);
	cr_expect_null(options.stats_path);
	cr_expect_null(options.capture.host_root);
	cr_expect_eq(options.capture.session.ring_bytes, 0);
	cr_expect_eq(options.capture.session.nr_rows, 0);
	options_fini(&record_flags, &options);
}

Test(options, everything)
{
	struct record_options options;
	struct line line;

	parse_good(&line,
		   "-p 17 --pid=42 -p 17 --comm py* --comm cc1 --no-subprocesses -F 997 -d 1.5m "
		   "--clock=timer --worker=,*policy*,,a_b,",
		   &options);
	cr_assert_eq(options.capture.nr_pids, 2);
	cr_expect_eq(options.capture.pids[0], 17);
	cr_expect_eq(options.capture.pids[1], 42);
	cr_assert_eq(options.capture.nr_comms, 2);
	cr_expect_str_eq(options.capture.comms[0], "py*");
	cr_expect_str_eq(options.capture.comms[1], "cc1");
	cr_assert_eq(options.capture.nr_workers, 2);
	cr_expect_str_eq(options.capture.workers[0], "*policy*");
	cr_expect_str_eq(options.capture.workers[1], "a_b");
	cr_expect_eq(options.by, PROFILE_BY_TASK);
	cr_expect(options.capture.no_subprocesses);
	cr_expect_eq(options.capture.session.hz, 997);
	cr_expect_eq(options.duration_ns, 90 * SECOND);
	cr_expect_eq(options.capture.session.clock, SESSION_CLOCK_TIMER);
	options_fini(&record_flags, &options);

	parse_good(&line, "--pod ml/a* --container 4f --pod=b -p 7", &options);
	cr_assert(options.capture.containers.nr_pods == 2 &&
		  options.capture.containers.nr_ids == 1);
	cr_expect_str_eq(options.capture.containers.pods[0], "ml/a*");
	cr_expect_str_eq(options.capture.containers.pods[1], "b");
	cr_expect_str_eq(options.capture.containers.ids[0], "4f");
	cr_expect_eq(options.capture.nr_pids, 1);
	options_fini(&record_flags, &options);

	parse_good(&line,
		   "--event cycles --clock perf --native --threads --split process -v "
		   "--stats s.json --host-root /",
		   &options);
	cr_expect(options.capture.session.cycles);
	cr_expect_eq(options.capture.session.clock, SESSION_CLOCK_PERF);
	cr_expect(options.native && options.threads && options.verbose);
	cr_expect_eq(options.split, RECORD_SPLIT_PROCESS);
	cr_expect_str_eq(options.stats_path, "s.json");
	cr_expect_str_eq(options.capture.host_root, "/");
	options_fini(&record_flags, &options);
}

Test(options, ways_to_give_a_value)
{
	static const char *const lines[] = { "-F 250",	    "-F250",	  "-r 250", "-r250",
					     "--rate 250",  "--rate=250", "-vF250", "-vF 250",
					     "-F 1 -r 250", "-F 0250" };

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct record_options options;
		struct line line;

		parse_good(&line, lines[i], &options);
		cr_expect_eq(options.capture.session.hz, 250, "%s: %u", lines[i],
			     options.capture.session.hz);
		options_fini(&record_flags, &options);
	}
}

Test(options, several_pids_in_one_value)
{
	struct record_options options;
	struct line line;

	parse_good(&line, "-p 3,2,3 -p 1", &options);
	cr_assert_eq(options.capture.nr_pids, 3);
	cr_expect_eq(options.capture.pids[0], 3);
	cr_expect_eq(options.capture.pids[1], 2);
	cr_expect_eq(options.capture.pids[2], 1);
	options_fini(&record_flags, &options);
}

Test(options, command)
{
	struct record_options options;
	struct line line;

	parse_good(&line, "-F 49 -- make -F 0 --help", &options);
	cr_assert_not_null(options.command);
	cr_expect_str_eq(options.command[0], "make");
	cr_expect_str_eq(options.command[1], "-F");
	cr_expect_str_eq(options.command[3], "--help");
	cr_expect_null(options.command[4]);
	cr_expect_eq(options.capture.session.hz, 49);
	options_fini(&record_flags, &options);
}

Test(options, formats)
{
	static const struct {
		const char *words;
		const char *path;
		enum output_format format;
	} cases[] = {
		{ "-o a.pb.gz", "a.pb.gz", OUTPUT_PPROF },
		{ "-o a.folded", "a.folded", OUTPUT_FOLDED },
		{ "-o d/a.html", "d/a.html", OUTPUT_HTML },
		{ "-o a.svg", "a.svg", OUTPUT_SVG },
		{ "-o a.speedscope.json", "a.speedscope.json", OUTPUT_SPEEDSCOPE },
		{ "-o a.raw", "a.raw", OUTPUT_RAW },
		{ "-o %h/%p-%t-%w-%%.raw", "%h/%p-%t-%w-%%.raw", OUTPUT_RAW },
		{ "-o - --format pprof", "-", OUTPUT_PPROF },
		{ "-o out.txt --format folded", "out.txt", OUTPUT_FOLDED },
		{ "--format speedscope -o out.json", "out.json", OUTPUT_SPEEDSCOPE },
		{ "--format raw", "bpfprof-%t.raw", OUTPUT_RAW },
		{ "--format pprof", "bpfprof-%t.pb.gz", OUTPUT_PPROF },
		{ "-o a.html --format folded", "a.html", OUTPUT_FOLDED },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct record_options options;
		struct line line;

		parse_good(&line, cases[i].words, &options);
		cr_assert_eq(options.nr_outputs, 1, "%s", cases[i].words);
		cr_expect_str_eq(options.outputs[0].path, cases[i].path, "%s", cases[i].words);
		cr_expect_eq(options.outputs[0].format, cases[i].format, "%s: %d", cases[i].words,
			     (int)options.outputs[0].format);
		options_fini(&record_flags, &options);
	}
}

Test(options, several_outputs_keep_their_suffix)
{
	struct record_options options;
	struct line line;

	parse_good(&line, "-o a.html -o - -o b.txt --format folded", &options);
	cr_assert_eq(options.nr_outputs, 3);
	cr_expect_eq(options.outputs[0].format, OUTPUT_HTML);
	cr_expect_eq(options.outputs[1].format, OUTPUT_FOLDED);
	cr_expect_eq(options.outputs[2].format, OUTPUT_FOLDED);
	options_fini(&record_flags, &options);
}

Test(options, names_that_only_look_alike)
{
	static const char *const lines[] = { "-o a.raw -o a.raw.raw", "-o a.raw -o /a.raw",
					     "-o a.raw -o ../a.raw", "-o a.raw -o d/a.raw",
					     "-o .a.raw -o a.raw" };

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct record_options options;
		struct line line;

		parse_good(&line, lines[i], &options);
		cr_expect_eq(options.nr_outputs, 2, "%s", lines[i]);
		options_fini(&record_flags, &options);
	}
}

Test(options, nearest_word)
{
	static const char *const words[] = { "record", "recoil", "recorder", "doctor" };

	cr_expect_str_eq(word_nearest("recor", words, 4), "record");
	cr_expect_str_eq(word_nearest("dcotor", words, 4), "doctor");
	cr_expect_str_eq(word_nearest("recorders", words, 4), "recorder");
	cr_expect_null(word_nearest("frobnicate", words, 4));
	cr_expect_null(word_nearest("", words, 4));
	cr_expect_null(word_nearest("a word that is much longer than any flag", words, 4));
}

Test(options, refusals)
{
	static const struct {
		const char *words;
		const char *begin;
		const char *holds;
	} cases[] = {
		{ "-F 0", "-F 0: ", "between 1 and 10000 Hz" },
		{ "-F 10001", "-F 10001: ", "between 1 and 10000 Hz" },
		{ "-r 99.5", "-r 99.5: ", "between 1 and 10000 Hz" },
		{ "-F -1", "-F -1: ", "between 1 and 10000 Hz" },
		{ "-F 18446744073709551617", "-F 1844", "between 1 and 10000 Hz" },
		{ "--rate=abc", "--rate=abc: ", "between 1 and 10000 Hz" },
		{ "--rate=", "--rate=: ", "between 1 and 10000 Hz" },
		{ "-F", "-F: ", "value is missing" },
		{ "--output", "--output: ", "value is missing" },
		{ "-p abc", "-p abc: ", "process id" },
		{ "-p -3", "-p -3: ", "process id" },
		{ "-p 0", "-p 0: ", "process id" },
		{ "-p 2147483648", "-p 2147483648: ", "process id" },
		{ "-p 1,", "-p 1,: ", "process id" },
		{ "-p 1,x", "-p 1,x: ", "process id" },
		{ "--comm=", "--comm=: ", "process name" },
		{ "--worker ,", "--worker ,: ", "patterns" },
		{ "--worker x --steps 0:10", "--steps 0:10: ", "START:STOP" },
		{ "--worker x --steps 5:5", "--steps 5:5: ", "START:STOP" },
		{ "--worker x --steps a:b", "--steps a:b: ", "START:STOP" },
		{ "--worker x --steps 5:", "--steps 5:: ", "START:STOP" },
		{ "--worker x --steps window:3:5", "--steps window:3:5: ", "windows:START:STOP" },
		{ "--steps 3:5", "--steps: ", "--worker" },
		{ "--steps windows:3:5", "--steps: ", "--worker" },
		{ "--steps 3:5 --comm x", "--steps: ", "--worker" },
		{ "--steps 3:5 --worker x -p 1", "--steps: ", "leave -p and --comm out" },
		{ "--steps 3:5 --worker x --comm y", "--steps: ", "leave -p and --comm out" },
		{ "--by pods", "--by pods: ", "task, process, rank or pod" },
		{ "-d -1", "-d -1: ", "30s, 5m, 2h" },
		{ "-d 5x", "-d 5x: ", "30s, 5m, 2h" },
		{ "-d 0", "-d 0: ", "leave -d out" },
		{ "-d 9999h", "-d 9999h: ", "at most 366 days" },
		{ "--clock cpu", "--clock cpu: ", "auto, perf or timer" },
		{ "--event instructions", "--event instructions: ", "cpu-clock or cycles" },
		{ "--event cycles --clock timer", "--event cycles: ", "--clock timer" },
		{ "--format json",
		  "--format json: ", "trace, pickle, pprof, folded, html, svg, speedscope or raw" },
		{ "--split thread", "--split thread: ", "node, pod or process" },
		{ "-o x.txt", "-o x.txt: ", ".pb.gz" },
		{ "-o x", "-o x: ", "--format" },
		{ "-o dir/", "-o dir/: ", "--format" },
		{ "-o -", "-o -: ", "--format" },
		{ "-o - -o - --format raw", "-o -: ", "once" },
		{ "-o a.html -o a.html", "-o a.html: ", "already" },
		{ "-o a.html -o .//a.html", "-o .//a.html: ", "already" },
		{ "-o d/a.html -o d/./a.html", "-o d/./a.html: ", "already" },
		{ "-o /d/a.html -o //d/a.html", "-o //d/a.html: ", "already" },
		{ "-o a.html --stats ./a.html", "--stats ./a.html: ", "already" },
		{ "-o - --format raw --stats -", "--stats -: ", "already" },
		{ "-o a%q.html", "-o a%q.html: ", "%" },
		{ "-o a.html%", "-o a.html%: ", "%" },
		{ "-o %{BPFPROF_NOT_SET}.html", "-o %{BPFPROF_NOT_SET}.html: ", "not set" },
		{ "--output=", "--output=: ", "file name" },
		{ "--stats s%q", "--stats s%q: ", "%" },
		{ "--split process -o - --format raw", "-o -: ", "needs a file name" },
		{ "--split pod -o - --format raw", "-o -: ", "needs a file name" },
		{ "--host-root host", "--host-root host: ", "absolute" },
		{ "--host-root /dev/null", "--host-root /dev/null: ", "folder" },
		{ "--host-root /does/not/exist", "--host-root /does/not/exist: ", "No such file" },
		{ "--native=1", "--native: ", "no value" },
		{ "17", "17: ", "-p" },
		{ "make", "make: ", "--" },
		{ "-", "-: ", "no such argument" },
		{ "-d 5 extra", "extra: ", "no such argument" },
		{ "--", "--: ", "missing" },
		{ "--durration 5", "--durration: ", "did you mean --duration?" },
		{ "--thread", "--thread: ", "did you mean --threads?" },
		{ "--dur 5", "--dur: ", "no such flag" },
		{ "-z", "-z: ", "no such flag" },
		{ "-vz", "-z: ", "no such flag" },
		{ "--container a/b", "--container a/b: ", "container's id" },
		{ "--pod a/b/c", "--pod a/b/c: ", "'ml/trainer-*'" },
		{ "--pod /b", "--pod /b: ", "'ml/trainer-*'" },
		{ "--pod a -- true", "--: ", "leave --pod" },
		{ "--walls", "--walls: ", "did you mean --wall?" },
		{ "--off-cpus", "--off-cpus: ", "did you mean --off-cpu?" },
		{ "--wall --off-cpu", "--off-cpu: ", "cannot be combined" },
		{ "--parked", "--parked: ", "add --wall or" },
		{ "--waker", "--waker: ", "add --wall or" },
		{ "--wall --gil", "--gil cannot be combined", "with --wall and --off-cpu: " },
		{ "--off-cpu --gpu", "--gpu: ", "leave --wall and --off-cpu out" },
		{ "--wall --event cycles", "--event cycles: ", "leave --wall and --off-cpu out" },
		{ "--tensors", "--tensors: ", "add --gpu" },
		{ "--gc --native", "--gc: ", "add --gpu" },
		{ "--tensor", "--tensor: ", "did you mean --tensors?" },
		{ "--gpus", "--gpus: ", "did you mean --gpu?" },
		{ "--gpu -o x.html -o x.cuda.html", "--gpu: ", "x.cuda.html" },
		{ "--gpu -o d/x.pb.gz --stats d//x.cuda.pb.gz", "--gpu: ", "x.cuda.pb.gz" },
		{ "--x=1", "--x: ", "no such flag" },
		{ "-o a\nb", "-o a?b: ", "--format" },
		{ "--\033[1m", "--?[1m: ", "no such flag" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		expect_refused(cases[i].words, cases[i].begin, cases[i].holds);
}

Test(options, long_value_is_cut)
{
	char words[400];

	memset(words, 'x', sizeof(words) - 1);
	words[sizeof(words) - 1] = 0;
	memcpy(words, "-p ", 3);
	expect_refused(words, "-p xxx", "xxx...: must be a process id");
}

Test(options, long_file_name)
{
	char words[400];

	memset(words, 'x', sizeof(words));
	memcpy(words, "-o d/", 5);
	memcpy(words + 5 + 251, ".html", 6); /* 256 bytes, one more than a name may have */
	expect_refused(words, "-o d/xxx", "too long");
}

Test(options, help_wins_before_a_mistake)
{
	static const char *const lines[] = { "--help", "-h", "-vh", "-F 5 --help", "--help -F 0" };

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct record_options options;
		struct line line;
		struct buf error;

		cr_expect_eq(parse(&line, lines[i], &options, &error), OPTIONS_HELP, "%s",
			     lines[i]);
		buf_fini(&error);
	}
	expect_refused("-F 0 --help", "-F 0: ", "rate");
}

Test(options, environment)
{
	struct record_options options;
	struct line line;

	setenv("BPFPROF_RATE", "250", 1);
	setenv("BPFPROF_DURATION", "5m", 1);
	setenv("BPFPROF_PID", "5,,7", 1);
	setenv("BPFPROF_OUTPUT", "a.html,b.raw", 1);
	setenv("BPFPROF_NO_SUBPROCESSES", "yes", 1);
	setenv("BPFPROF_NATIVE", "0", 1);
	setenv("BPFPROF_THREADS", "", 1);
	setenv("BPFPROF_HOST_ROOT", "/", 1);
	setenv("BPFPROF_TEST_RING_BYTES", "65536", 1);
	setenv("BPFPROF_TEST_ROW_SLOTS", "1024", 1);
	setenv("BPFPROF_TEST_WAITER_PLACES", "1", 1);
	setenv("BPFPROF_TEST_LATE_NAMES", "2", 1);
	setenv("BPFPROF_SERVICE_HOST", "10.0.0.1", 1); /* what Kubernetes sets for a service */
	parse_good(&line, "", &options);
	cr_expect_eq(options.capture.session.hz, 250);
	cr_expect_eq(options.duration_ns, 300 * SECOND);
	cr_assert_eq(options.capture.nr_pids, 2);
	cr_expect_eq(options.capture.pids[1], 7);
	cr_assert_eq(options.nr_outputs, 2);
	cr_expect_str_eq(options.outputs[1].path, "b.raw");
	cr_expect(options.capture.no_subprocesses);
	cr_expect_not(options.native || options.threads);
	cr_expect_str_eq(options.capture.host_root, "/");
	cr_expect_eq(options.capture.session.ring_bytes, 65536);
	cr_expect_eq(options.capture.session.nr_rows, 1024);
	cr_expect_eq(options.capture.session.waiter_places, 1);
	cr_expect_eq(options.test_late_names, 2);
	options_fini(&record_flags, &options);
}

/* A variable for one command takes precedence over one for all commands. */
Test(options, environment_of_one_command)
{
	struct record_options options;
	struct line line;

	setenv("BPFPROF_SPLIT", "nonsense", 1);
	setenv("BPFPROF_RECORD_SPLIT", "process", 1);
	setenv("BPFPROF_DAEMON_RATE", "nonsense", 1);
	setenv("BPFPROF_VERBOSE", "2", 1);
	parse_good(&line, "", &options);
	cr_expect_eq(options.split, RECORD_SPLIT_PROCESS);
	cr_expect_eq(options.verbose, 2);
	options_fini(&record_flags, &options);
	setenv("BPFPROF_RECORD_SPLIT", "x", 1);
	expect_refused("", "BPFPROF_RECORD_SPLIT=x: ", "");
}

Test(options, command_line_beats_environment)
{
	struct record_options options;
	struct line line;

	setenv("BPFPROF_RATE", "wrong, but not looked at", 1);
	setenv("BPFPROF_WORKER", "x", 1);
	setenv("BPFPROF_STEPS", "1:2", 1);
	parse_good(&line, "-r 49 --steps 3:5", &options);
	cr_expect_eq(options.capture.steps.start, 3);
	cr_expect_eq(options.capture.steps.stop, 5);
	cr_expect_eq(options.capture.steps.kind, STEPS_EITHER);
	options_fini(&record_flags, &options);
	parse_good(&line, "-r 49 --steps windows:3:5", &options);
	cr_expect_eq(options.capture.steps.stop, 5);
	cr_expect_eq(options.capture.steps.kind, STEPS_WINDOWS);
	options_fini(&record_flags, &options);
	unsetenv("BPFPROF_STEPS");

	setenv("BPFPROF_PID", "5", 1);
	setenv("BPFPROF_OUTPUT", "a.html", 1);
	setenv("BPFPROF_WORKER", " a b , , c\t", 1);
	parse_good(&line, "-r 49 -p 9 -o b.html --by process", &options);
	cr_expect_eq(options.capture.session.hz, 49);
	cr_assert_eq(options.capture.nr_pids, 1);
	cr_expect_eq(options.capture.pids[0], 9);
	cr_assert_eq(options.nr_outputs, 1);
	cr_expect_str_eq(options.outputs[0].path, "b.html");
	cr_assert_eq(options.capture.nr_workers, 2);
	cr_expect_eq(options.by, PROFILE_BY_PROCESS);
	cr_expect_str_eq(options.capture.workers[0], "a b");
	cr_expect_str_eq(options.capture.workers[1], "c");
	options_fini(&record_flags, &options);
}

Test(options, environment_refusals)
{
	static const struct {
		const char *name, *value, *begin, *holds;
	} cases[] = {
		{ "BPFPROF_RATE", "x", "BPFPROF_RATE=x: ", "Hz" },
		{ "BPFPROF_PID", "1,x", "BPFPROF_PID=x: ", "process id" },
		{ "BPFPROF_NATIVE", "maybe", "BPFPROF_NATIVE=maybe: ", "1 or 0" },
		{ "BPFPROF_NATIVE", "2", "BPFPROF_NATIVE=2: ", "1 or 0" },
		{ "BPFPROF_VERBOSE", "10", "BPFPROF_VERBOSE=10: ", "1 or 0" },
		{ "BPFPROF_TEST_RING_BYTES", "5000",
		  "BPFPROF_TEST_RING_BYTES=5000: ", "power of two" },
		{ "BPFPROF_TEST_RING_BYTES", "2048",
		  "BPFPROF_TEST_RING_BYTES=2048: ", "from 4096 on" },
		{ "BPFPROF_TEST_ROW_SLOTS", "0", "BPFPROF_TEST_ROW_SLOTS=0: ", "power of two" },
		{ "BPFPROF_TEST_ROW_SLOTS", "1000",
		  "BPFPROF_TEST_ROW_SLOTS=1000: ", "power of two" },
		{ "BPFPROF_TEST_ROW_SLOTS", "32", "BPFPROF_TEST_ROW_SLOTS=32: ", "from 64 on" },
		{ "BPFPROF_TEST_WAITER_PLACES", "3",
		  "BPFPROF_TEST_WAITER_PLACES=3: ", "power of two" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		setenv(cases[i].name, cases[i].value, 1);
		expect_refused("", cases[i].begin, cases[i].holds);
		unsetenv(cases[i].name);
	}
}

/* Every flag is in --help, which fits a terminal. */
Test(options, help_text)
{
	static const char *const flags[] = {
		"-p, --pid PID",      "--comm GLOB",	   "--worker LIST",
		"--steps START:STOP", "--no-subprocesses", "-F, -r, --rate HZ",
		"-d, --duration",     "--clock",	   "--event",
		"-o, --output FILE",  "--format",	   "--native",
		"--threads",	      "--split",	   "--stats FILE",
		"--host-root",	      "-v, --verbose",	   "--help",
		"Exit status",	      "Examples",	   "BPFPROF_RATE",
	};
	struct buf text;

	buf_init(&text, 65536);
	options_help(&text, &record_flags);
	cr_assert_eq(buf_error(&text), 0);
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		cr_expect_neq(strstr(text.data, flags[i]), NULL, "%s", flags[i]);
	for (const char *row = text.data; *row; row += strcspn(row, "\n") + 1)
		cr_expect_leq(strcspn(row, "\n"), 90, "%.90s", row);
	buf_fini(&text);
}
