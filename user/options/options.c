// SPDX-License-Identifier: Apache-2.0
#include "options/options.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/duration.h"
#include "base/text.h"
#include "options/flags.h"
#include "options/values.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define MAX_LIST 1024 /* values of one repeatable flag */
#define TEST_ROW_SLOTS_MIN 64
#define DUMP_LOCALS_MAX 64U
#define VERBOSE_MAX 2U /* more says nothing more */
#define TRACE_BYTES_DEFAULT (256ULL << 20)
#define TRACE_BYTES_MIN (64ULL << 10)
#define TRACE_BYTES_MAX (16ULL << 30)
#define FORMATS "pprof, folded, html, svg, speedscope or raw"
#define SUFFIXES ".pb.gz, .folded, .html, .svg, .speedscope.json or .raw"
#define TRACE_SUFFIX ".json"

enum key {
	KEY_PID = 1,
	KEY_COMM,
	KEY_CONTAINER,
	KEY_POD,
	KEY_WORKER,
	KEY_STEPS,
	KEY_NO_SUBPROCESSES,
	KEY_RATE,
	KEY_DURATION,
	KEY_CLOCK,
	KEY_EVENT,
	KEY_OUTPUT,
	KEY_FORMAT,
	KEY_MAX_TRACE_BYTES,
	KEY_NATIVE,
	KEY_THREADS,
	KEY_GIL,
	KEY_GPU,
	KEY_TENSORS,
	KEY_GC,
	KEY_WALL,
	KEY_PARKED,
	KEY_WAKER,
	KEY_OFF_CPU,
	KEY_BY,
	KEY_SPLIT,
	KEY_STATS,
	KEY_NO_FINDINGS,
	KEY_HOST_ROOT,
	KEY_VERBOSE,
	KEY_JSON,
	KEY_KERNEL,
	KEY_FULL_FILENAMES,
	KEY_LOCALS,
	KEY_SUBPROCESSES,
	KEY_DELAY,
	KEY_ONCE,
};

/* Parsing in progress: outputs get their formats once all flags are known. */
struct record_parse {
	struct record_options options;
	enum output_format format; /* --format, or OUTPUT_INVALID */
};

struct top_parse {
	struct record_parse record;
	uint64_t delay_ns;
	bool once;
};

static int reason(struct buf *why, const char *text)
{
	buf_add_str(why, text);
	return -EINVAL;
}

static int take_comm(struct record_options *options, const char *value, struct buf *why)
{
	if (!*value)
		return reason(why, "must be a process name or a pattern like 'python*'");
	return value_add_name(&options->comms, &options->nr_comms, value, strlen(value), why);
}

static int take_rate(struct record_options *options, const char *value, struct buf *why)
{
	return value_rate(&options->hz, value, why);
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
	return value_clock(&options->clock, value, why);
}

static int take_event(struct record_options *options, const char *value, struct buf *why)
{
	static const char *const names[] = { "cpu-clock", "cycles" };
	int choice = value_choice(value, names, ARRAY_SIZE(names));

	if (choice < 0)
		return reason(why, "event must be cpu-clock or cycles");
	options->event = (enum record_event)choice;
	return 0;
}

static int take_by(struct record_options *options, const char *value, struct buf *why)
{
	static const char *const names[] = { "task", "process", "rank", "pod" };
	int choice = value_choice(value, names, ARRAY_SIZE(names));

	if (choice < 0)
		return reason(why, "by must be task, process, rank or pod");
	options->by = (enum profile_by)choice;
	return 0;
}

static int take_waits(struct record_options *options, enum session_waits waits, struct buf *why)
{
	if (options->waits != SESSION_NO_WAITS && options->waits != waits)
		return reason(why, "--wall and --off-cpu cannot be combined: --wall holds both");
	options->waits = waits;
	return 0;
}

static int take_steps(struct record_options *options, const char *value, struct buf *why)
{
	if (steps_range_parse(&options->steps, value))
		return reason(why, "must be START:STOP, counted from 1 and without STOP itself: "
				   "3:5 is steps 3 and 4; or windows:START:STOP, or "
				   "calls:START:STOP");
	return 0;
}

static int take_split(struct record_options *options, const char *value, struct buf *why)
{
	static const char *const names[] = { "node", "pod", "process" };
	int choice = value_choice(value, names, ARRAY_SIZE(names));

	if (choice < 0)
		return reason(why, "split must be node, pod or process");
	options->split = (enum record_split)choice;
	return 0;
}

int record_format_take(enum output_format *format, const char *value, struct buf *why)
{
	*format = strcmp(value, "trace") ? output_format_by_name(value) : OUTPUT_TRACE;
	return *format != OUTPUT_INVALID ? 0 : reason(why, "format must be trace, " FORMATS);
}

int record_trace_bytes_take(struct record_options *options, const char *value, struct buf *why)
{
	uint64_t bytes;

	if (value_bytes(value, &bytes) || bytes < TRACE_BYTES_MIN || bytes > TRACE_BYTES_MAX)
		return reason(why, "must be a number of bytes from 64K to 16G, like 256M");
	options->max_trace_bytes = bytes;
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

int record_output_take(struct record_options *options, const char *value, struct buf *why)
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

static int take_record(void *target, int key, const char *value, struct buf *why)
{
	struct record_parse *parse = target;
	struct record_options *options = &parse->options;

	switch ((enum key)key) {
	case KEY_PID:
		return value_add_pids(&options->pids, &options->nr_pids, value, why);
	case KEY_COMM:
		return take_comm(options, value, why);
	case KEY_CONTAINER:
		return container_filter_add_id(&options->containers, value, why);
	case KEY_POD:
		return container_filter_add_pod(&options->containers, value, why);
	case KEY_WORKER:
		return value_add_patterns(&options->workers, &options->nr_workers, value, why);
	case KEY_STEPS:
		return take_steps(options, value, why);
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
		return record_output_take(options, value, why);
	case KEY_FORMAT:
		return record_format_take(&parse->format, value, why);
	case KEY_MAX_TRACE_BYTES:
		return record_trace_bytes_take(options, value, why);
	case KEY_NATIVE:
		options->native = true;
		return 0;
	case KEY_THREADS:
		options->threads = true;
		return 0;
	case KEY_GIL:
		options->gil = true;
		return 0;
	case KEY_GPU:
		options->gpu = true;
		return 0;
	case KEY_TENSORS:
		options->tensors = true;
		return 0;
	case KEY_GC:
		options->gc = true;
		return 0;
	case KEY_PARKED:
		options->parked = true;
		return 0;
	case KEY_WAKER:
		options->wakers = true;
		return 0;
	case KEY_WALL:
		return take_waits(options, SESSION_WALL, why);
	case KEY_OFF_CPU:
		return take_waits(options, SESSION_OFF_CPU, why);
	case KEY_BY:
		return take_by(options, value, why);
	case KEY_SPLIT:
		return take_split(options, value, why);
	case KEY_STATS:
		return check_pattern(value, why) ?: value_string(&options->stats_path, value);
	case KEY_NO_FINDINGS:
		options->findings = false;
		return 0;
	case KEY_HOST_ROOT:
		return value_folder(&options->host_root, value, why);
	case KEY_VERBOSE:
		options->verbose += options->verbose < VERBOSE_MAX;
		return 0;
	default:
		return reason(why, "not understood");
	}
}

static const struct flag record_flags[] = {
	{ KEY_PID, 'p', 0, "pid", "PID", "record this process, its threads and children", true },
	{ KEY_COMM, 0, 0, "comm", "GLOB", "record processes with this name ('python*')", true },
	{ KEY_CONTAINER, 0, 0, "container", "ID",
	  "of that, only what lives in this container: its id,\nor how the id begins", true },
	{ KEY_POD, 0, 0, "pod", "[NS/]GLOB",
	  "of that, only pods with this name ('ml/trainer-*');\n-p is then the pid inside the pod",
	  true },
	{ KEY_WORKER, 0, 0, "worker", "LIST",
	  "record Ray workers whose task, class or name matches\n"
	  "one of the patterns ('*policy*,sort_numbers')",
	  false },
	{ KEY_STEPS, 0, 0, "steps", "START:STOP",
	  "of --worker, only these calls of each: 3:5 is the third\n"
	  "and the fourth that it begins; of one that makes windows\n"
	  "with cudaProfilerStart, these windows; ends after them.\n"
	  "windows:3:5 or calls:3:5: only these are steps",
	  false },
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
	  ".speedscope.json .raw (bpfprof-%t.html); .json is the\n"
	  "timeline of Ray's tasks and actor calls, for Perfetto",
	  true },
	{ KEY_FORMAT, 0, 0, "format", "FORMAT",
	  "pprof, folded, html, svg, speedscope, raw or trace:\n"
	  "for -o - and names whose suffix says nothing; with a\n"
	  "single -o it wins over the suffix",
	  false },
	{ KEY_MAX_TRACE_BYTES, 0, 0, "max-trace-bytes", "BYTES",
	  "of a timeline: the newest calls are kept (256M)", false },
	{ KEY_NATIVE, 0, 0, "native", NULL, ".raw: native frames too", false },
	{ KEY_THREADS, 0, 0, "threads", NULL, "keep threads apart", false },
	{ KEY_WALL, 0, 0, "wall", NULL,
	  "all time of every thread: on a CPU, waiting for one,\nand blocked", false },
	{ KEY_OFF_CPU, 0, 0, "off-cpu", NULL, "only time that threads are blocked", false },
	{ KEY_PARKED, 0, 0, "parked", NULL,
	  "--wall, --off-cpu: stacks of idle pool threads and pollers\ntoo, not only [parked]",
	  false },
	{ KEY_WAKER, 0, 0, "waker", NULL,
	  "--wall, --off-cpu: above each wait who ended it, and that\nthread's stack", false },
	{ KEY_GIL, 0, 0, "gil", NULL, "only Python threads that hold the GIL", false },
	{ KEY_GPU, 0, 0, "gpu", NULL,
	  "CUDA and NCCL calls too, in files beside the others:\n"
	  "x.pb.gz is of the CPU, x.cuda.pb.gz of the calls",
	  false },
	{ KEY_TENSORS, 0, 0, "tensors", NULL,
	  "--gpu: memory that PyTorch hands out for tensors, too,\nby stack", false },
	{ KEY_GC, 0, 0, "gc", NULL,
	  "--gpu: garbage collections of Python, too, in processes\nthat launch", false },
	{ KEY_BY, 0, 0, "by", "WHAT",
	  "task: stacks begin with a Ray task or a process name;\n"
	  "process: with NAME-PID; rank: with RANK of a\n"
	  "distributed job; pod: with NAMESPACE/POD (task)",
	  false },
	{ KEY_SPLIT, 0, 0, "split", "HOW",
	  "node: one profile; process: one file each; pod: one\n"
	  "per pod in NAMESPACE/POD beside that of the rest (node)",
	  false },
	{ KEY_STATS, 0, 0, "stats", "FILE", "write what was counted and lost as JSON", false },
	{ KEY_NO_FINDINGS, 0, 0, "no-findings", NULL,
	  "do not look for what stands out: tiny tasks, one that\n"
	  "takes far longer, too many threads, a limit that stops\n"
	  "them, growing memory, one thread that keeps the GIL",
	  false },
	{ KEY_HOST_ROOT, 0, 0, "host-root", "DIR",
	  "the node's file system as this container sees it", false },
	{ KEY_VERBOSE, 'v', 0, "verbose", NULL, "say more; -vv libbpf's log too", true },
};

static const struct flag_set record_set = {
	.flags = record_flags,
	.nr_flags = ARRAY_SIZE(record_flags),
	.command = true,
	.no_operand = "no such argument; a process id goes after -p, a program to run after --",
	.take = take_record,
	.twins = "RECORD",
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
	case OUTPUT_TRACE:
		return "bpfprof-%t.json";
	default:
		return "bpfprof-%t.html";
	}
}

static enum output_format format_by_path(const char *path, bool traces)
{
	enum output_format format = output_format_by_path(path);

	return format == OUTPUT_INVALID && traces && output_has_suffix(path, TRACE_SUFFIX)
		       ? OUTPUT_TRACE
		       : format;
}

/* The suffix may come out of a % form. */
static enum output_format format_by_pattern(const char *path, bool traces)
{
	const struct output_names names = { .host = "h", .worker = "w" };
	enum output_format format = format_by_path(path, traces);
	__cleanup(buf_fini) struct buf expanded = { .max = PATH_MAX };

	if (format != OUTPUT_INVALID)
		return format;
	if (output_expand_path(&expanded, path, &names) || buf_error(&expanded) || !expanded.data)
		return OUTPUT_INVALID;
	return format_by_path(expanded.data, traces);
}

int record_formats_choose(struct record_options *options, enum output_format format, bool traces,
			  struct buf *error)
{
	options->trace = false;
	for (size_t i = 0; i < options->nr_outputs; i++) {
		struct record_output *output = &options->outputs[i];
		bool standard = !strcmp(output->path, "-");

		output->format =
			standard ? OUTPUT_INVALID : format_by_pattern(output->path, traces);
		if (format != OUTPUT_INVALID &&
		    (options->nr_outputs == 1 || output->format == OUTPUT_INVALID))
			output->format = format;
		options->trace |= output->format == OUTPUT_TRACE;
		if (output->format != OUTPUT_INVALID)
			continue;
		buf_add_str(error, "-o ");
		text_add_typed(error, output->path);
		buf_add_str(error, standard ? ": standard output needs --format " FORMATS
					    : ": the name must end in " SUFFIXES);
		if (traces)
			buf_add_str(error, standard ? ", or trace" : ", in .json for a trace");
		if (!standard)
			buf_add_str(error, ", or --format must say which is meant");
		return -EINVAL;
	}
	if (options->max_trace_bytes && !options->trace)
		return reason(error, "--max-trace-bytes: goes with -o FILE.json");
	if (!options->max_trace_bytes)
		options->max_trace_bytes = TRACE_BYTES_DEFAULT;
	return 0;
}

static int choose_formats(struct record_parse *parse, struct buf *error)
{
	int err = 0;

	if (!parse->options.nr_outputs)
		err = record_output_take(&parse->options, format_default_path(parse->format),
					 error);
	return err ?: record_formats_choose(&parse->options, parse->format, true, error);
}

/* The file of calls beside path may not be one that is written already. */
static int check_calls_path(const struct record_options *options, const char *path,
			    struct buf *error)
{
	__cleanup(buf_fini) struct buf calls = { .max = PATH_MAX };
	bool taken;
	size_t i;

	if (!strcmp(path, "-"))
		return 0;
	output_path_insert(&calls, path, RECORD_CALLS_INFIX);
	if (buf_error(&calls))
		return reason(error, "--gpu: a file name is too long");
	taken = options->stats_path && path_same(options->stats_path, calls.data);
	for (i = 0; i < options->nr_outputs; i++)
		taken |= path_same(options->outputs[i].path, calls.data);
	if (!taken)
		return 0;
	buf_add_str(error, "--gpu: ");
	text_add_typed(error, calls.data);
	buf_add_str(error, " is the file of calls beside another, and named by a flag, too");
	return -EINVAL;
}

/* What does not go together with waits. */
static int check_waits(const struct record_options *options, bool off_cpu, struct buf *error)
{
	const char *flags = off_cpu ? "--wall and --off-cpu" : "--wall";

	if (options->parked && options->waits == SESSION_NO_WAITS)
		buf_printf(error, "--parked: is about time that threads wait, add --wall%s",
			   off_cpu ? " or --off-cpu" : "");
	else if (options->waits != SESSION_NO_WAITS && options->gil)
		buf_printf(error, "--gil: who waits holds no GIL, leave %s out", flags);
	else if (options->waits != SESSION_NO_WAITS && options->gpu)
		buf_printf(error,
			   "--gpu: waits and hooked calls cannot be recorded together, leave %s "
			   "out",
			   flags);
	else
		return 0;
	return -EINVAL;
}

int gpu_parts_check(bool gpu, bool tensors, bool gc, struct buf *error)
{
	if (tensors && !gpu)
		return reason(error, "--tensors: is about memory of the GPU, add --gpu");
	if (gc && !gpu)
		return reason(error, "--gc: is about collections between launches, add --gpu");
	return 0;
}

/* What no single flag can see. */
static int check_together(const struct record_options *options, struct buf *error)
{
	const char *stats = options->stats_path;

	if (options->event == RECORD_EVENT_CYCLES && options->clock == SAMPLER_CLOCK_TIMER)
		return reason(error, "--event cycles: the timer clock cannot count cycles, "
				     "leave --clock timer out");
	if (options->steps.stop && !options->nr_workers)
		return reason(error,
			      "--steps: counts the calls of Ray workers, --worker must name them");
	if (options->steps.stop && (options->nr_pids || options->nr_comms))
		return reason(error,
			      "--steps: what is no worker has no steps, leave -p and --comm out");
	if (check_waits(options, true, error) ||
	    gpu_parts_check(options->gpu, options->tensors, options->gc, error))
		return -EINVAL;
	if (options->wakers && options->waits == SESSION_NO_WAITS)
		return reason(error, "--waker: is about who ends waits, add --wall or --off-cpu");
	if (options->steps.stop && options->trace)
		return reason(error, "--steps: a timeline has all calls, leave -o FILE.json out");
	if (options->waits != SESSION_NO_WAITS && options->steps.stop)
		return reason(error, "--steps: waits are not cut where steps begin and end, leave "
				     "--wall and --off-cpu out");
	if (options->waits != SESSION_NO_WAITS && options->event == RECORD_EVENT_CYCLES)
		return reason(error, "--event cycles: waits have no cycles, leave --wall and "
				     "--off-cpu out");
	if (options->command && !*options->command[0])
		return reason(error, "--: the program to run has an empty name");
	if (options->command && container_filter_is_set(&options->containers))
		return reason(error, "--: the program to run is in no container, leave --pod and "
				     "--container out");
	for (size_t i = 0; i < options->nr_outputs; i++) {
		const char *path = options->outputs[i].path;

		if (stats && path_same(path, stats)) {
			buf_add_str(error, "--stats ");
			text_add_typed(error, stats);
			buf_add_str(error, ": this file is already named by -o");
			return -EINVAL;
		}
		if (options->gpu && options->outputs[i].format != OUTPUT_TRACE &&
		    check_calls_path(options, path, error))
			return -EINVAL;
		if (options->split != RECORD_SPLIT_NODE && !strcmp(path, "-") &&
		    options->outputs[i].format != OUTPUT_TRACE)
			return reason(error,
				      "-o -: --split writes several files and needs a file name");
	}
	return 0;
}

static int test_knob(const char *name, uint64_t min, uint32_t *ret, struct buf *error)
{
	const char *text = getenv(name);
	uint64_t value;

	if (!text || !*text)
		return 0;
	if (value_number(text, 1U << 30, &value) || value & (value - 1) || value < min) {
		buf_printf(error, "%s=", name);
		text_add_typed(error, text);
		buf_printf(error, ": must be a power of two from %llu on", (unsigned long long)min);
		return -EINVAL;
	}
	*ret = (uint32_t)value;
	return 0;
}

int record_test_knobs(struct record_options *options, struct buf *error)
{
	return test_knob("BPFPROF_TEST_RING_BYTES", (uint64_t)sysconf(_SC_PAGESIZE),
			 &options->test_ring_bytes, error)
		       ?: test_knob("BPFPROF_TEST_ROW_SLOTS", TEST_ROW_SLOTS_MIN,
				    &options->test_row_slots, error)
		       ?: test_knob("BPFPROF_TEST_WAITER_PLACES", 1, &options->test_waiter_places,
				    error)
		       ?: test_knob("BPFPROF_TEST_LATE_NAMES", 1, &options->test_late_names, error);
}

int record_options_parse(struct record_options *options, int argc, char *const argv[],
			 struct buf *error)
{
	struct record_parse parse = { .options = { .hz = RECORD_HZ_DEFAULT, .findings = true } };
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
		err = record_test_knobs(result, error);
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
	for (size_t i = 0; i < options->nr_workers; i++)
		free(options->workers[i]);
	for (size_t i = 0; i < options->nr_outputs; i++)
		free(options->outputs[i].path);
	free(options->pids);
	container_filter_fini(&options->containers);
	free(options->comms);
	free(options->workers);
	free(options->outputs);
	free(options->stats_path);
	free(options->host_root);
	*options = (struct record_options){ 0 };
}

static int take_top(void *target, int key, const char *value, struct buf *why)
{
	struct top_parse *parse = target;
	uint64_t delay_ns;

	switch ((enum key)key) {
	case KEY_DELAY:
		if (duration_parse(value, &delay_ns) || delay_ns < TOP_DELAY_MIN_NS ||
		    delay_ns > TOP_DELAY_MAX_NS)
			return reason(why, "delay must be a number of seconds from 0.1 to 3600");
		parse->delay_ns = delay_ns;
		return 0;
	case KEY_ONCE:
		parse->once = true;
		return 0;
	default:
		return take_record(&parse->record, key, value, why);
	}
}

static const struct flag top_flags[] = {
	{ KEY_PID, 'p', 0, "pid", "PID", "watch this process, its threads and children", true },
	{ KEY_COMM, 0, 0, "comm", "GLOB", "watch processes with this name ('python*')", true },
	{ KEY_CONTAINER, 0, 0, "container", "ID",
	  "of that, only what lives in this container: its id,\nor how the id begins", true },
	{ KEY_POD, 0, 0, "pod", "[NS/]GLOB",
	  "of that, only pods with this name ('ml/trainer-*');\n-p is then the pid inside the pod",
	  true },
	{ KEY_WORKER, 0, 0, "worker", "LIST",
	  "watch Ray workers whose task, class or name matches\n"
	  "one of the patterns ('*policy*,sort_numbers')",
	  false },
	{ KEY_NO_SUBPROCESSES, 0, 0, "no-subprocesses", NULL, "leave children of -p out", false },
	{ KEY_RATE, 'F', 'r', "rate", "HZ", "samples per second and CPU, 1 to 10000 (99)", false },
	{ KEY_DELAY, 0, 0, "delay", "SECONDS", "time between two pictures, from 0.1 (1)", false },
	{ KEY_ONCE, 0, 0, "once", NULL, "watch for one delay, print one table, exit", false },
	{ KEY_NATIVE, 0, 0, "native", NULL, "native frames in Python programs too", false },
	{ KEY_WALL, 0, 0, "wall", NULL, "all time of every thread: where it waits, too", false },
	{ KEY_PARKED, 0, 0, "parked", NULL,
	  "--wall: idle pool threads and pollers too, not only\n[parked]", false },
	{ KEY_GIL, 0, 0, "gil", NULL, "only Python threads that hold the GIL", false },
	{ KEY_GPU, 0, 0, "gpu", NULL,
	  "CUDA's launches per second and the time that threads are\n"
	  "blocked in its calls and NCCL's, by process",
	  false },
	{ KEY_CLOCK, 0, 0, "clock", "CLOCK",
	  "auto, perf or timer (auto: perf events, and BPF\ntimers where the kernel refuses those)",
	  false },
	{ KEY_HOST_ROOT, 0, 0, "host-root", "DIR",
	  "the node's file system as this container sees it", false },
	{ KEY_VERBOSE, 'v', 0, "verbose", NULL, "say more; -vv libbpf's log too", true },
};

static const struct flag_set top_set = {
	.flags = top_flags,
	.nr_flags = ARRAY_SIZE(top_flags),
	.no_operand = "no such argument; a process id goes after -p",
	.take = take_top,
	.twins = "TOP",
};

int top_options_parse(struct top_options *options, int argc, char *const argv[], struct buf *error)
{
	struct top_parse parse = { .record.options = { .hz = RECORD_HZ_DEFAULT },
				   .delay_ns = TOP_DELAY_DEFAULT_NS };
	int err, command;

	err = flags_parse(&top_set, argc, argv, &parse, &command, error);
	if (!err)
		err = check_waits(&parse.record.options, false, error);
	if (err) {
		record_options_fini(&parse.record.options);
		return err == -ECANCELED ? OPTIONS_HELP : err;
	}
	*options = (struct top_options){ .record = parse.record.options,
					 .delay_ns = parse.delay_ns,
					 .once = parse.once };
	return OPTIONS_RUN;
}

void top_options_fini(struct top_options *options)
{
	record_options_fini(&options->record);
}

static int take_doctor(void *target, int key, const char *value, struct buf *why)
{
	struct doctor_options *options = target;

	switch ((enum key)key) {
	case KEY_PID:
		if (value_pid(value, &options->pid))
			return reason(why, "must be a process id, a whole number from 1");
		return 0;
	case KEY_JSON:
		options->json = true;
		return 0;
	case KEY_HOST_ROOT:
		return value_folder(&options->host_root, value, why);
	case KEY_VERBOSE:
		options->verbose += options->verbose < VERBOSE_MAX;
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
	{ KEY_VERBOSE, 'v', 0, "verbose", NULL, "say more; -vv libbpf's log too", true },
};

static const struct flag_set doctor_set = {
	.flags = doctor_flags,
	.nr_flags = ARRAY_SIZE(doctor_flags),
	.no_operand = "no such argument; a process id goes after --pid",
	.take = take_doctor,
	.twins = "DOCTOR",
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

static int take_dump(void *target, int key, const char *value, struct buf *why)
{
	struct dump_options *options = target;

	switch ((enum key)key) {
	case KEY_PID:
		return value_add_pids(&options->pids, &options->nr_pids, value, why);
	case KEY_CONTAINER:
		return container_filter_add_id(&options->containers, value, why);
	case KEY_POD:
		return container_filter_add_pod(&options->containers, value, why);
	case KEY_WORKER:
		return value_add_patterns(&options->workers, &options->nr_workers, value, why);
	case KEY_NATIVE:
		options->native = true;
		return 0;
	case KEY_KERNEL:
		options->kernel = true;
		return 0;
	case KEY_JSON:
		options->json = true;
		return 0;
	case KEY_FULL_FILENAMES:
		options->full_filenames = true;
		return 0;
	case KEY_LOCALS:
		if (options->locals < DUMP_LOCALS_MAX)
			options->locals++;
		return 0;
	case KEY_SUBPROCESSES:
		options->subprocesses = true;
		return 0;
	case KEY_HOST_ROOT:
		return value_folder(&options->host_root, value, why);
	case KEY_VERBOSE:
		options->verbose += options->verbose < VERBOSE_MAX;
		return 0;
	default:
		return reason(why, "not understood");
	}
}

static const struct flag dump_flags[] = {
	{ KEY_PID, 'p', 0, "pid", "PID", "dump this process; may be given again", true },
	{ KEY_CONTAINER, 0, 0, "container", "ID",
	  "every Python in this container: its id,\nor how the id begins", true },
	{ KEY_POD, 0, 0, "pod", "[NS/]GLOB",
	  "every Python in pods with this name ('ml/trainer-*');\nwith -p that process, by its pid "
	  "inside the pod",
	  true },
	{ KEY_WORKER, 0, 0, "worker", "LIST",
	  "Ray workers whose task, class or name matches one of\nthe patterns "
	  "('*policy*,sort_numbers')",
	  false },
	{ KEY_NATIVE, 'n', 0, "native", NULL, "native frames of Python programs too", false },
	{ KEY_KERNEL, 'k', 0, "kernel", NULL, "the kernel's frames too", false },
	{ KEY_LOCALS, 'l', 0, "locals", NULL,
	  "arguments and local variables; -ll shows more of them", true },
	{ KEY_FULL_FILENAMES, 0, 0, "full-filenames", NULL, "whole names of Python files", false },
	{ KEY_SUBPROCESSES, 's', 0, "subprocesses", NULL, "what descends from it too", false },
	{ KEY_JSON, 'j', 0, "json", NULL, "py-spy's JSON, with more in it", false },
	{ KEY_HOST_ROOT, 0, 0, "host-root", "DIR",
	  "the node's file system as this container sees it", false },
	{ KEY_VERBOSE, 'v', 0, "verbose", NULL, "what each thread waits for; -vv libbpf's log too",
	  true },
};

static const struct flag_set dump_set = {
	.flags = dump_flags,
	.nr_flags = ARRAY_SIZE(dump_flags),
	.operand_key = KEY_PID,
	.take = take_dump,
	.twins = "DUMP",
};

int dump_options_parse(struct dump_options *options, int argc, char *const argv[],
		       struct buf *error)
{
	struct dump_options result = { 0 };
	int err, command;

	err = flags_parse(&dump_set, argc, argv, &result, &command, error);
	if (!err && !result.nr_pids && !result.nr_workers &&
	    !container_filter_is_set(&result.containers))
		err = reason(error, "-p, --pod or --worker is missing: which process?");
	if (err) {
		dump_options_fini(&result);
		return err == -ECANCELED ? OPTIONS_HELP : err;
	}
	*options = result;
	return OPTIONS_RUN;
}

void dump_options_fini(struct dump_options *options)
{
	for (size_t i = 0; i < options->nr_workers; i++)
		free(options->workers[i]);
	free(options->workers);
	free(options->pids);
	container_filter_fini(&options->containers);
	free(options->host_root);
	*options = (struct dump_options){ 0 };
}

const char exit_text[] =
	"\nExit status: 0 done, 1 failed, 2 wrong flag or value, 3 a privilege or a kernel\n"
	"feature is missing (the message says how to get it), 4 no such process.\n";

void record_help(struct buf *dst)
{
	buf_add_str(
		dst,
		"Usage: bpfprof record [FLAG]... [-- CMD ARGS...]\n"
		"Samples every CPU, the kernel's and the programs' stacks, and writes a profile.\n"
		"Without -p, --comm, --worker and CMD the whole machine is recorded; a process is\n"
		"recorded if any of the four names it, and it lives in a pod that --pod "
		"names.\n\n");
	flags_help(dst, &record_set);
	buf_add_str(
		dst,
		"\n"
		"File names: %h host, %p pid, %t UTC time, %w worker, %{NAME} environment "
		"variable;\n"
		"missing folders are made. Every flag can also be set in the environment:\n"
		"BPFPROF_RATE=199, BPFPROF_NATIVE=1, BPFPROF_PID=17,42, or for this command alone\n"
		"BPFPROF_RECORD_RATE=199; the command line wins.\n"
		"\n"
		"Examples:\n"
		"  bpfprof record -d 10                        the whole machine, 10 s, flame "
		"graph\n"
		"  bpfprof record -p 1234 -d 30 -o cpu.pb.gz   one process, for go tool pprof\n"
		"  bpfprof record -p 1234 --wall -d 30         where it waits, and for how long\n"
		"  bpfprof record -p 1234 --wall --waker -d 30 and who ends the waits\n"
		"  bpfprof record -d 60 -o ray.json            when Ray's tasks and calls ran, for "
		"Perfetto\n"
		"  bpfprof record -o gcc.html -- make          a build and all its children\n"
		"  bpfprof record --worker '*policy*' -d 30    Ray workers of these classes\n"
		"  bpfprof record --worker '*policy*' --steps 3:5  calls 3 and 4 of each of them\n"
		"  bpfprof record -d 5 --format folded -o -    stacks to standard output\n"
		"  bpfprof record --gpu -d 30 -o x.html        and x.cuda.html of CUDA's calls\n"
		"  bpfprof record --gpu --tensors -o x.pb.gz   and who holds memory for tensors\n"
		"  bpfprof record -d 10 --pod 'ml/trainer-*'   some pods, whatever runs in them\n"
		"  bpfprof record -d 60 -o '/shared/%h-%t.html' from many nodes into one folder\n");
	buf_add_str(dst, exit_text);
	buf_add_str(dst, "With CMD: CMD's own status once it runs, 128 + the signal if it was "
			 "killed; 127 if\n"
			 "CMD is not found, 126 if it cannot be run.\n");
}

void dump_help(struct buf *dst)
{
	buf_add_str(
		dst,
		"Usage: bpfprof dump -p PID | --pod [NS/]GLOB [-p PID] | --worker LIST [FLAG]...\n"
		"Says what every thread of a process is doing, sleeping ones too, without "
		"stopping\n"
		"it: Python stacks, and with --native the C ones between them. Processes "
		"that run no\n"
		"Python get native stacks.\n\n");
	flags_help(dst, &dump_set);
	buf_add_str(dst,
		    "\n"
		    "The text and the JSON are those of py-spy dump. Every flag can also be set in "
		    "the\n"
		    "environment: BPFPROF_NATIVE=1; the command line wins.\n"
		    "\n"
		    "Examples:\n"
		    "  bpfprof dump -p 1234                   where does it hang?\n"
		    "  bpfprof dump -p 1234 --native --kernel down to the kernel function\n"
		    "  bpfprof dump -p 1234 -l                with the values of variables\n"
		    "  bpfprof dump -p 1234 -s --json         all its children too, for a program\n"
		    "  bpfprof dump --pod ml/trainer-0        every Python process of a pod\n"
		    "  kubectl exec AGENT -- bpfprof dump --pod ml/trainer-0 -p 7 > stacks.txt\n");
	buf_add_str(dst, exit_text);
}

void top_help(struct buf *dst)
{
	buf_add_str(
		dst,
		"Usage: bpfprof top [FLAG]...\n"
		"Shows the functions that use the CPU right now. Without -p, --comm "
		"and\n--worker the whole machine is watched. Press ? for the keys, q to quit.\n\n");
	flags_help(dst, &top_set);
	buf_add_str(dst,
		    "\n"
		    "100% is one CPU core; %Own and %Total are of the last delay, OwnTime and\n"
		    "TotalTime are since the start.\n"
		    "Every flag can also be set in the environment: BPFPROF_DELAY=5; the "
		    "command\nline wins.\n"
		    "\n"
		    "Examples:\n"
		    "  bpfprof top                          the whole machine\n"
		    "  bpfprof top -p 1234                  one process and its children\n"
		    "  bpfprof top -p 1234 --native         C and C++ below Python too\n"
		    "  bpfprof top --pod 'ml/trainer-*'     what runs in some pods\n"
		    "  bpfprof top --worker 'Trainer*'      Ray workers of these classes\n"
		    "  bpfprof top --comm 'ray::*' --gil    who holds the GIL in Ray workers\n"
		    "  bpfprof top --wall -p 1234           where its threads wait right now\n"
		    "  bpfprof top --gpu                    who launches, who waits for the GPU\n"
		    "  bpfprof top -p 1234 --once --delay 5 one table, for scripts\n");
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
