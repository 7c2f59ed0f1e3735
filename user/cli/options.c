// SPDX-License-Identifier: Apache-2.0
#include "cli/options.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "cli/duration.h"
#include "cli/flags.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define MAX_LIST 1024 /* values of one repeatable flag */
#define TEST_ROW_SLOTS_MIN 64
#define FORMATS "pprof, folded, html, svg, speedscope or raw"
#define SUFFIXES ".pb.gz, .folded, .html, .svg, .speedscope.json or .raw"

enum key {
	KEY_PID,
	KEY_COMM,
	KEY_NO_SUBPROCESSES,
	KEY_RATE,
	KEY_DURATION,
	KEY_CLOCK,
	KEY_EVENT,
	KEY_OUTPUT,
	KEY_FORMAT,
	KEY_NATIVE,
	KEY_THREADS,
	KEY_GIL,
	KEY_SPLIT,
	KEY_STATS,
	KEY_HOST_ROOT,
	KEY_VERBOSE,
	KEY_JSON,
};

/* Parsing in progress: outputs get their formats once all flags are known. */
struct record_parse {
	struct record_options options;
	enum output_format format; /* --format, or OUTPUT_INVALID */
};

static int reason(struct buf *why, const char *text)
{
	buf_add_str(why, text);
	return -EINVAL;
}

/* Digits only: no sign, no blank, no base prefix. */
static int number_parse(const char *text, uint64_t max, uint64_t *ret)
{
	uint64_t value = 0;

	if (!*text)
		return -EINVAL;
	for (; *text; text++) {
		if (!isdigit((unsigned char)*text))
			return -EINVAL;
		value = value * 10 + (uint64_t)(*text - '0');
		if (value > max)
			return -ERANGE;
	}
	*ret = value;
	return 0;
}

/* Index of text among names, or -1. */
static int choice_parse(const char *text, const char *const names[], size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		if (!strcmp(text, names[i]))
			return (int)i;
	}
	return -1;
}

static int take_string(char **dst, const char *value)
{
	char *copy = strdup(value);

	if (!copy)
		return -ENOMEM;
	free(*dst);
	*dst = copy;
	return 0;
}

static int pid_parse(const char *text, pid_t *ret)
{
	uint64_t value;

	if (number_parse(text, INT_MAX, &value) || !value)
		return -EINVAL;
	*ret = (pid_t)value;
	return 0;
}

static int take_pid(struct record_options *options, const char *value, struct buf *why)
{
	pid_t *pids, pid;

	if (pid_parse(value, &pid))
		return reason(why, "must be a process id, a whole number from 1");
	for (size_t i = 0; i < options->nr_pids; i++) {
		if (options->pids[i] == pid)
			return 0;
	}
	if (options->nr_pids == MAX_LIST)
		return reason(why, "at most 1024 processes can be named");
	pids = reallocarray(options->pids, options->nr_pids + 1, sizeof(*pids));
	if (!pids)
		return -ENOMEM;
	options->pids = pids;
	pids[options->nr_pids++] = pid;
	return 0;
}

/* perf's form: several in one value, with commas. */
static int take_pids(struct record_options *options, const char *value, struct buf *why)
{
	const char *item = value;

	for (;;) {
		size_t len = strcspn(item, ",");
		__cleanup(free_mem) char *text = strndup(item, len);
		int err;

		if (!text)
			return -ENOMEM;
		err = take_pid(options, text, why);
		if (err || !item[len])
			return err;
		item += len + 1;
	}
}

static int take_comm(struct record_options *options, const char *value, struct buf *why)
{
	char **comms;

	if (!*value)
		return reason(why, "must be a process name or a pattern like 'python*'");
	if (options->nr_comms == MAX_LIST)
		return reason(why, "at most 1024 names can be given");
	comms = reallocarray(options->comms, options->nr_comms + 1, sizeof(*comms));
	if (!comms)
		return -ENOMEM;
	options->comms = comms;
	comms[options->nr_comms] = strdup(value);
	if (!comms[options->nr_comms])
		return -ENOMEM;
	options->nr_comms++;
	return 0;
}

static int take_rate(struct record_options *options, const char *value, struct buf *why)
{
	uint64_t hz;

	if (number_parse(value, RECORD_HZ_MAX, &hz) || !hz)
		return reason(why, "rate must be a whole number between 1 and 10000 Hz");
	options->hz = (uint32_t)hz;
	return 0;
}

static int take_duration(struct record_options *options, const char *value, struct buf *why)
{
	switch (duration_parse(value, &options->duration_ns)) {
	case 0:
		return 0;
	case -ERANGE:
		return reason(why, "duration must be more than 0 and at most 366 days; "
				   "leave -d out to record until Ctrl-C");
	default:
		return reason(why, "duration must be a number of seconds, or one like 30s, 5m, 2h");
	}
}

static int take_clock(struct record_options *options, const char *value, struct buf *why)
{
	static const char *const names[] = { "auto", "perf", "timer" };
	int choice = choice_parse(value, names, ARRAY_SIZE(names));

	if (choice < 0)
		return reason(why, "clock must be auto, perf or timer");
	options->clock = (enum record_clock)choice;
	return 0;
}

static int take_event(struct record_options *options, const char *value, struct buf *why)
{
	static const char *const names[] = { "cpu-clock", "cycles" };
	int choice = choice_parse(value, names, ARRAY_SIZE(names));

	if (choice < 0)
		return reason(why, "event must be cpu-clock or cycles");
	options->event = (enum record_event)choice;
	return 0;
}

static int take_split(struct record_options *options, const char *value, struct buf *why)
{
	static const char *const names[] = { "node", "process" };
	int choice = choice_parse(value, names, ARRAY_SIZE(names));

	if (!strcmp(value, "pod"))
		return reason(why,
			      "this version cannot tell pods apart, split must be node or process");
	if (choice < 0)
		return reason(why, "split must be node or process");
	options->split = (enum record_split)choice;
	return 0;
}

static int take_format(struct record_parse *parse, const char *value, struct buf *why)
{
	enum output_format format = output_format_by_name(value);

	if (format == OUTPUT_INVALID)
		return reason(why, "format must be " FORMATS);
	parse->format = format;
	return 0;
}

/* The next part of a path that says something: not "" nor "."; NULL at the end. */
static const char *path_part(const char **path, size_t *ret_len)
{
	while (**path) {
		const char *part = *path;

		*ret_len = strcspn(part, "/");
		*path += *ret_len + (part[*ret_len] == '/');
		if (*ret_len && !(*ret_len == 1 && part[0] == '.'))
			return part;
	}
	*ret_len = 0;
	return NULL;
}

/* Both name the same file, as far as their text tells. */
static bool path_same(const char *a, const char *b)
{
	size_t len_a, len_b;

	if ((*a == '/') != (*b == '/'))
		return false;
	for (;;) {
		const char *part_a = path_part(&a, &len_a), *part_b = path_part(&b, &len_b);

		if (len_a != len_b)
			return false;
		if (!part_a || !part_b)
			return true;
		if (memcmp(part_a, part_b, len_a))
			return false;
	}
}

/* A file name and its % forms. */
static int check_pattern(const char *path, struct buf *why)
{
	const struct output_names names = { .host = "h", .worker = "w" };
	__cleanup(buf_fini) struct buf expanded = { .max = PATH_MAX };
	const char *rest;
	size_t len;
	int err;

	if (!*path)
		return reason(why, "must be a file name, or - for standard output");
	err = output_expand_path(&expanded, path, &names);
	if (err == -EINVAL)
		return reason(why, "after % only h, p, t, w, {NAME} and % are understood");
	if (err == -ENOENT)
		return reason(why, "names an environment variable that is not set");
	if (err == -ENOMEM)
		return err;
	if (err)
		return reason(why, "the file name is too long");
	for (rest = expanded.data; path_part(&rest, &len);) {
		if (len > NAME_MAX)
			return reason(why, "the file name is too long");
	}
	return 0;
}

static int take_output(struct record_options *options, const char *value, struct buf *why)
{
	struct record_output *outputs;
	int err;

	err = check_pattern(value, why);
	if (err)
		return err;
	for (size_t i = 0; i < options->nr_outputs; i++) {
		if (path_same(options->outputs[i].path, value))
			return reason(why, !strcmp(value, "-")
						   ? "standard output can be written once only"
						   : "this file is already named by another -o");
	}
	if (options->nr_outputs == MAX_LIST)
		return reason(why, "at most 1024 files can be written");
	outputs = reallocarray(options->outputs, options->nr_outputs + 1, sizeof(*outputs));
	if (!outputs)
		return -ENOMEM;
	options->outputs = outputs;
	outputs[options->nr_outputs] = (struct record_output){ .path = strdup(value) };
	if (!outputs[options->nr_outputs].path)
		return -ENOMEM;
	options->nr_outputs++;
	return 0;
}

static int take_host_root(char **dst, const char *value, struct buf *why)
{
	struct stat st;

	if (value[0] != '/')
		return reason(why, "must be an absolute path, such as /host");
	if (stat(value, &st)) {
		buf_printf(why, "cannot be used as the node's file system: %s", strerror(errno));
		return -EINVAL;
	}
	if (!S_ISDIR(st.st_mode))
		return reason(why, "is not a folder");
	return take_string(dst, value);
}

static int take_record(void *target, int key, const char *value, struct buf *why)
{
	struct record_parse *parse = target;
	struct record_options *options = &parse->options;

	switch ((enum key)key) {
	case KEY_PID:
		return take_pids(options, value, why);
	case KEY_COMM:
		return take_comm(options, value, why);
	case KEY_NO_SUBPROCESSES:
		options->no_subprocesses = true;
		return 0;
	case KEY_RATE:
		return take_rate(options, value, why);
	case KEY_DURATION:
		return take_duration(options, value, why);
	case KEY_CLOCK:
		return take_clock(options, value, why);
	case KEY_EVENT:
		return take_event(options, value, why);
	case KEY_OUTPUT:
		return take_output(options, value, why);
	case KEY_FORMAT:
		return take_format(parse, value, why);
	case KEY_NATIVE:
		options->native = true;
		return 0;
	case KEY_THREADS:
		options->threads = true;
		return 0;
	case KEY_GIL:
		options->gil = true;
		return 0;
	case KEY_SPLIT:
		return take_split(options, value, why);
	case KEY_STATS:
		return check_pattern(value, why) ?: take_string(&options->stats_path, value);
	case KEY_HOST_ROOT:
		return take_host_root(&options->host_root, value, why);
	case KEY_VERBOSE:
		options->verbose = true;
		return 0;
	default:
		return reason(why, "not understood");
	}
}

static const struct flag record_flags[] = {
	{ KEY_PID, 'p', 0, "pid", "PID", "record this process, its threads and children", true },
	{ KEY_COMM, 0, 0, "comm", "GLOB", "record processes with this name ('python*')", true },
	{ KEY_NO_SUBPROCESSES, 0, 0, "no-subprocesses", NULL, "leave children of -p and CMD out",
	  false },
	{ KEY_RATE, 'F', 'r', "rate", "HZ", "samples per second and CPU, 1 to 10000 (99)", false },
	{ KEY_DURATION, 'd', 0, "duration", "DURATION",
	  "30, 30s, 1.5, 5m, 2h (until Ctrl-C, or until\nCMD exits)", false },
	{ KEY_CLOCK, 0, 0, "clock", "CLOCK",
	  "auto, perf or timer (auto: perf events, and BPF\ntimers where the kernel refuses those)",
	  false },
	{ KEY_EVENT, 0, 0, "event", "EVENT", "cpu-clock or cycles (cpu-clock)", false },
	{ KEY_OUTPUT, 'o', 0, "output", "FILE",
	  "write FILE, may be given again; its suffix chooses\n"
	  "the format: .pb.gz .folded .html .svg\n"
	  ".speedscope.json .raw (bpfprof-%t.html)",
	  true },
	{ KEY_FORMAT, 0, 0, "format", "FORMAT",
	  "pprof, folded, html, svg, speedscope or raw: for\n"
	  "-o - and names whose suffix says nothing; with a\n"
	  "single -o it wins over the suffix",
	  false },
	{ KEY_NATIVE, 0, 0, "native", NULL, ".raw: native frames too", false },
	{ KEY_THREADS, 0, 0, "threads", NULL, "keep threads apart", false },
	{ KEY_GIL, 0, 0, "gil", NULL, "only Python threads that hold the GIL", false },
	{ KEY_SPLIT, 0, 0, "split", "HOW", "node: one profile; process: one file each (node)",
	  false },
	{ KEY_STATS, 0, 0, "stats", "FILE", "write what was counted and lost as JSON", false },
	{ KEY_HOST_ROOT, 0, 0, "host-root", "DIR",
	  "the node's file system as this container sees it", false },
	{ KEY_VERBOSE, 'v', 0, "verbose", NULL, "say more, libbpf's log included", false },
};

static const struct flag_set record_set = {
	.flags = record_flags,
	.nr_flags = ARRAY_SIZE(record_flags),
	.command = true,
	.no_operand = "no such argument; a process id goes after -p, a program to run after --",
	.take = take_record,
};

static const char *format_default_path(enum output_format format)
{
	switch (format) {
	case OUTPUT_PPROF:
		return "bpfprof-%t.pb.gz";
	case OUTPUT_FOLDED:
		return "bpfprof-%t.folded";
	case OUTPUT_SVG:
		return "bpfprof-%t.svg";
	case OUTPUT_SPEEDSCOPE:
		return "bpfprof-%t.speedscope.json";
	case OUTPUT_RAW:
		return "bpfprof-%t.raw";
	default:
		return "bpfprof-%t.html";
	}
}

/* The suffix may come out of a % form. */
static enum output_format format_by_pattern(const char *path)
{
	const struct output_names names = { .host = "h", .worker = "w" };
	enum output_format format = output_format_by_path(path);
	__cleanup(buf_fini) struct buf expanded = { .max = PATH_MAX };

	if (format != OUTPUT_INVALID)
		return format;
	if (output_expand_path(&expanded, path, &names) || buf_error(&expanded) || !expanded.data)
		return OUTPUT_INVALID;
	return output_format_by_path(expanded.data);
}

static int choose_formats(struct record_parse *parse, struct buf *error)
{
	struct record_options *options = &parse->options;
	int err;

	if (!options->nr_outputs) {
		err = take_output(options, format_default_path(parse->format), error);
		if (err)
			return err;
	}
	for (size_t i = 0; i < options->nr_outputs; i++) {
		struct record_output *output = &options->outputs[i];
		bool standard = !strcmp(output->path, "-");

		output->format = standard ? OUTPUT_INVALID : format_by_pattern(output->path);
		if (parse->format != OUTPUT_INVALID &&
		    (options->nr_outputs == 1 || output->format == OUTPUT_INVALID))
			output->format = parse->format;
		if (output->format != OUTPUT_INVALID)
			continue;
		buf_add_str(error, "-o ");
		buf_add_typed(error, output->path);
		buf_add_str(error, standard ? ": standard output needs --format " FORMATS
					    : ": the name must end in " SUFFIXES
					      ", or --format must say which is meant");
		return -EINVAL;
	}
	return 0;
}

/* What no single flag can see. */
static int check_together(const struct record_options *options, struct buf *error)
{
	const char *stats = options->stats_path;

	if (options->event == RECORD_EVENT_CYCLES && options->clock == RECORD_CLOCK_TIMER)
		return reason(error, "--event cycles: the timer clock cannot count cycles, "
				     "leave --clock timer out");
	if (options->command && !*options->command[0])
		return reason(error, "--: the program to run has an empty name");
	for (size_t i = 0; i < options->nr_outputs; i++) {
		const char *path = options->outputs[i].path;

		if (stats && path_same(path, stats)) {
			buf_add_str(error, "--stats ");
			buf_add_typed(error, stats);
			buf_add_str(error, ": this file is already named by -o");
			return -EINVAL;
		}
		if (options->split == RECORD_SPLIT_PROCESS && !strcmp(path, "-"))
			return reason(error,
				      "-o -: --split process writes several files and needs a "
				      "file name");
	}
	return 0;
}

static int test_knob(const char *name, uint64_t min, uint32_t *ret, struct buf *error)
{
	const char *text = getenv(name);
	uint64_t value;

	if (!text || !*text)
		return 0;
	if (number_parse(text, 1U << 30, &value) || value & (value - 1) || value < min) {
		buf_printf(error, "%s=", name);
		buf_add_typed(error, text);
		buf_printf(error, ": must be a power of two from %llu on", (unsigned long long)min);
		return -EINVAL;
	}
	*ret = (uint32_t)value;
	return 0;
}

int record_options_parse(struct record_options *options, int argc, char *const argv[],
			 struct buf *error)
{
	struct record_parse parse = { .options = { .hz = RECORD_HZ_DEFAULT } };
	struct record_options *result = &parse.options;
	int err, command;

	err = flags_parse(&record_set, argc, argv, &parse, &command, error);
	if (!err && command)
		result->command = (char **)&argv[command];
	if (!err)
		err = choose_formats(&parse, error);
	if (!err)
		err = check_together(result, error);
	if (!err)
		err = test_knob("BPFPROF_TEST_RING_BYTES", (uint64_t)sysconf(_SC_PAGESIZE),
				&result->test_ring_bytes, error);
	if (!err)
		err = test_knob("BPFPROF_TEST_ROW_SLOTS", TEST_ROW_SLOTS_MIN,
				&result->test_row_slots, error);
	if (err) {
		record_options_fini(result);
		return err == -ECANCELED ? OPTIONS_HELP : err;
	}
	*options = *result;
	return OPTIONS_RUN;
}

void record_options_fini(struct record_options *options)
{
	for (size_t i = 0; i < options->nr_comms; i++)
		free(options->comms[i]);
	for (size_t i = 0; i < options->nr_outputs; i++)
		free(options->outputs[i].path);
	free(options->pids);
	free(options->comms);
	free(options->outputs);
	free(options->stats_path);
	free(options->host_root);
	*options = (struct record_options){ 0 };
}

static int take_doctor(void *target, int key, const char *value, struct buf *why)
{
	struct doctor_options *options = target;

	switch ((enum key)key) {
	case KEY_PID:
		if (pid_parse(value, &options->pid))
			return reason(why, "must be a process id, a whole number from 1");
		return 0;
	case KEY_JSON:
		options->json = true;
		return 0;
	case KEY_HOST_ROOT:
		return take_host_root(&options->host_root, value, why);
	case KEY_VERBOSE:
		options->verbose = true;
		return 0;
	default:
		return reason(why, "not understood");
	}
}

static const struct flag doctor_flags[] = {
	{ KEY_PID, 'p', 0, "pid", "PID", "look at this process too: can it be recorded?", false },
	{ KEY_JSON, 0, 0, "json", NULL, "an array of {name, status, found, remedy}", false },
	{ KEY_HOST_ROOT, 0, 0, "host-root", "DIR",
	  "the node's file system as this container sees it", false },
	{ KEY_VERBOSE, 'v', 0, "verbose", NULL, "libbpf's log too", false },
};

static const struct flag_set doctor_set = {
	.flags = doctor_flags,
	.nr_flags = ARRAY_SIZE(doctor_flags),
	.no_operand = "no such argument; a process id goes after --pid",
	.take = take_doctor,
};

int doctor_options_parse(struct doctor_options *options, int argc, char *const argv[],
			 struct buf *error)
{
	struct doctor_options result = { 0 };
	int err, command;

	err = flags_parse(&doctor_set, argc, argv, &result, &command, error);
	if (err) {
		doctor_options_fini(&result);
		return err == -ECANCELED ? OPTIONS_HELP : err;
	}
	*options = result;
	return OPTIONS_RUN;
}

void doctor_options_fini(struct doctor_options *options)
{
	free(options->host_root);
	*options = (struct doctor_options){ 0 };
}

static const char exit_text[] =
	"\nExit status: 0 done, 1 failed, 2 wrong flag or value, 3 a privilege or a kernel\n"
	"feature is missing (the message says how to get it), 4 no such process.\n";

void record_help(struct buf *dst)
{
	buf_add_str(
		dst,
		"Usage: bpfprof record [FLAG]... [-- CMD ARGS...]\n"
		"Samples every CPU, the kernel's and the programs' stacks, and writes a profile.\n"
		"Without -p, --comm and CMD the whole machine is recorded; a process is recorded\n"
		"if any of the three names it.\n\n");
	flags_help(dst, &record_set);
	buf_add_str(
		dst,
		"\n"
		"File names: %h host, %p pid, %t UTC time, %{NAME} environment variable; missing\n"
		"folders are made. Every flag can also be set in the environment: "
		"BPFPROF_RATE=199,\n"
		"BPFPROF_NATIVE=1, BPFPROF_PID=17,42; the command line wins.\n"
		"\n"
		"Examples:\n"
		"  bpfprof record -d 10                        the whole machine, 10 s, flame "
		"graph\n"
		"  bpfprof record -p 1234 -d 30 -o cpu.pb.gz   one process, for go tool pprof\n"
		"  bpfprof record -o gcc.html -- make          a build and all its children\n"
		"  bpfprof record -d 5 --format folded -o -    stacks to standard output\n"
		"  bpfprof record -d 60 -o '/shared/%h-%t.html' from many nodes into one folder\n");
	buf_add_str(dst, exit_text);
}

void doctor_help(struct buf *dst)
{
	buf_add_str(dst, "Usage: bpfprof doctor [FLAG]...\n"
			 "Says for each thing that record needs whether it is there, and how to "
			 "get it.\n\n");
	flags_help(dst, &doctor_set);
	buf_add_str(dst, "\n"
			 "Examples:\n"
			 "  bpfprof doctor\n"
			 "  bpfprof doctor --pid 1234\n"
			 "  bpfprof doctor --json\n");
	buf_add_str(dst, exit_text);
}
