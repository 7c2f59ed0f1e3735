// SPDX-License-Identifier: Apache-2.0
#include "options/gpu_options.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/duration.h"
#include "options/flags.h"
#include "options/values.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define ROWS_DEFAULT 20
#define ROWS_MAX 100000
#define VERBOSE_MAX 2U
#define ONCE_NS 1000000000ULL

enum key {
	KEY_PID = 1,
	KEY_WORKER,
	KEY_STEPS,
	KEY_NO_SUBPROCESSES,
	KEY_DURATION,
	KEY_OUTPUT,
	KEY_FORMAT,
	KEY_MAX_TRACE_BYTES,
	KEY_ONCE,
	KEY_JSON,
	KEY_TENSORS,
	KEY_GC,
	KEY_SORT,
	KEY_ROWS,
	KEY_THREADS,
	KEY_HOST_ROOT,
	KEY_VERBOSE,
};

static const char *const sorts[] = { "calls", "bytes", "blocked" };

static int reason(struct buf *why, const char *text)
{
	buf_add_str(why, text);
	return -EINVAL;
}

static int take_rows(struct gpu_options *options, const char *value, struct buf *why)
{
	uint64_t rows;

	if (value_number(value, ROWS_MAX, &rows))
		return reason(why, "must be a number up to 100000; 0 shows all");
	options->rows = rows;
	return 0;
}

static int take_sort(struct gpu_options *options, const char *value, struct buf *why)
{
	int choice = value_choice(value, sorts, ARRAY_SIZE(sorts));

	if (choice < 0)
		return reason(why, "must be calls, bytes or blocked");
	options->sort = sorts[choice];
	return 0;
}

/* Parsing in progress: outputs get their formats once all flags are known. */
struct parse {
	struct gpu_options options;
	enum output_format format; /* --format, or OUTPUT_INVALID */
};

static int take(void *target, int key, const char *value, struct buf *why)
{
	struct parse *parse = target;
	struct gpu_options *options = &parse->options;
	struct record_options *record = &options->record;

	switch ((enum key)key) {
	case KEY_PID:
		return value_add_pids(&record->pids, &record->nr_pids, value, why);
	case KEY_WORKER:
		return value_add_patterns(&record->workers, &record->nr_workers, value, why);
	case KEY_STEPS:
		if (steps_range_parse(&record->steps, value))
			return reason(why, "must be START:STOP, whole numbers from 1 on, STOP the "
					   "greater, or windows:START:STOP, or calls:START:STOP");
		return 0;
	case KEY_NO_SUBPROCESSES:
		record->no_subprocesses = true;
		return 0;
	case KEY_DURATION:
		if (duration_parse(value, &record->duration_ns))
			return reason(why, "must be a number of seconds, or one like 30s, 5m, 2h");
		return 0;
	case KEY_OUTPUT:
		return record_output_take(record, value, why);
	case KEY_FORMAT:
		return record_format_take(&parse->format, value, why);
	case KEY_MAX_TRACE_BYTES:
		return record_trace_bytes_take(record, value, why);
	case KEY_ONCE:
		options->once = true;
		return 0;
	case KEY_JSON:
		options->json = true;
		return 0;
	case KEY_TENSORS:
		record->tensors = true;
		return 0;
	case KEY_GC:
		record->gc = true;
		return 0;
	case KEY_SORT:
		return take_sort(options, value, why);
	case KEY_ROWS:
		return take_rows(options, value, why);
	case KEY_THREADS:
		record->threads = true;
		return 0;
	case KEY_HOST_ROOT:
		return value_folder(&record->host_root, value, why);
	case KEY_VERBOSE:
		record->verbose += record->verbose < VERBOSE_MAX;
		return 0;
	default:
		return reason(why, "not understood");
	}
}

static const struct flag flags[] = {
	{ KEY_PID, 'p', 0, "pid", "PID", "calls of this process and its children", true },
	{ KEY_WORKER, 0, 0, "worker", "LIST",
	  "Ray workers whose task, class or name matches one of\nthe patterns '*policy*,Trainer', "
	  "and their children",
	  true },
	{ KEY_STEPS, 0, 0, "steps", "START:STOP",
	  "count only in these windows that a program makes with\ncudaProfilerStart; where it "
	  "makes none, in these calls\nof the workers' methods. 3:5 is the third and the fourth;\n"
	  "ends after them. windows:3:5 or calls:3:5: only these\nare steps, for jobs that do both",
	  false },
	{ KEY_NO_SUBPROCESSES, 0, 0, "no-subprocesses", NULL,
	  "leave children of -p and --worker out", false },
	{ KEY_DURATION, 'd', 0, "duration", "TIME",
	  "stop after so many seconds, or 30s, 5m, 2h; without\nit Ctrl-C ends it", false },
	{ KEY_OUTPUT, 'o', 0, "output", "FILE",
	  "write calls by stack, too; the suffix says how: .pb.gz,\n.folded, .html, .svg, "
	  ".speedscope.json or .raw; .json is a\ntrace of each call, for Perfetto",
	  true },
	{ KEY_FORMAT, 0, 0, "format", "FORMAT",
	  "trace, pprof, folded, html, svg, speedscope or raw,\n"
	  "where the name does not say it (-o -)",
	  false },
	{ KEY_MAX_TRACE_BYTES, 0, 0, "max-trace-bytes", "BYTES",
	  "of a trace: the newest calls are kept (256M)", false },
	{ KEY_ONCE, 0, 0, "once", NULL,
	  "watch for 1 s or as -d or --steps says, print one table,\nexit", false },
	{ KEY_JSON, 0, 0, "json", NULL, "with --once: JSON instead of a table", false },
	{ KEY_TENSORS, 0, 0, "tensors", NULL,
	  "memory that PyTorch hands out for tensors, too, by stack", false },
	{ KEY_GC, 0, 0, "gc", NULL,
	  "garbage collections of Python, too, in processes that\nlaunch; for Pythons that have "
	  "probes for it",
	  false },
	{ KEY_SORT, 0, 0, "sort", "KEY", "tables by calls, bytes or blocked time (calls)", false },
	{ KEY_ROWS, 0, 0, "rows", "N", "of each table, 0 shows all (20)", false },
	{ KEY_THREADS, 0, 0, "threads", NULL, "keep threads apart in the files", false },
	{ KEY_HOST_ROOT, 0, 0, "host-root", "DIR",
	  "the node's file system as this container sees it", false },
	{ KEY_VERBOSE, 'v', 0, "verbose", NULL,
	  "say which libraries are hooked; -vv libbpf's log too", true },
};

static const struct flag_set set = {
	.flags = flags,
	.nr_flags = ARRAY_SIZE(flags),
	.no_operand = "no such argument; a process id goes after -p",
	.take = take,
	.twins = "GPU",
};

int gpu_options_parse(struct gpu_options *options, int argc, char *const argv[], struct buf *error)
{
	struct parse parse = { .options = { .sort = sorts[0], .rows = ROWS_DEFAULT } };
	struct gpu_options *result = &parse.options;
	int err, command;

	err = flags_parse(&set, argc, argv, &parse, &command, error);
	if (!err && result->json && !result->once)
		err = reason(error, "--json: goes with --once");
	if (!err && parse.format != OUTPUT_INVALID && !result->record.nr_outputs)
		err = reason(error, "--format: goes with -o");
	if (!err && result->record.steps.kind == STEPS_CALLS && !result->record.nr_workers)
		err = reason(error, "--steps calls: counts the calls of Ray workers, --worker must "
				    "name them");
	if (!err)
		err = record_formats_choose(&result->record, parse.format, true, error);
	if (!err)
		err = record_test_knobs(&result->record, error);
	if (err) {
		gpu_options_fini(result);
		return err == -ECANCELED ? OPTIONS_HELP : err;
	}
	if (result->once && !result->record.duration_ns && !result->record.steps.stop)
		result->record.duration_ns = ONCE_NS;
	*options = *result;
	return OPTIONS_RUN;
}

void gpu_options_fini(struct gpu_options *options)
{
	record_options_fini(&options->record);
}

void gpu_help(struct buf *dst)
{
	buf_add_str(
		dst,
		"Usage: bpfprof gpu [FLAG]...\n"
		"Shows what programs ask of their GPUs: kernel launches by name, grid and stream,\n"
		"bytes copied, memory allocated and not freed (the device's, and apart from it\n"
		"page-locked memory of the host), time that threads wait in\n"
		"synchronizing calls, NCCL's collectives, and calls that have not returned, by\n"
		"Python and native stack. It watches calls of libcuda and libnccl in programs "
		"that\n"
		"run already, without a restart, CUPTI or a change of them. What the GPU itself\n"
		"does, how long a kernel runs there, cannot be seen from outside, nor can NVTX\n"
		"ranges. Without -p and --worker all programs of the machine are watched.\n\n");
	flags_help(dst, &set);
	buf_add_str(dst,
		    "\n"
		    "Examples:\n"
		    "  bpfprof gpu                                 a live table of the machine\n"
		    "  bpfprof gpu -p 1234 --once -d 10            one table of ten seconds\n"
		    "  bpfprof gpu -p 1234 -d 30 -o gpu.html       launches as a flame graph\n"
		    "  bpfprof gpu -p 1234 -d 5 -o gpu.json        every call, to be opened in "
		    "Perfetto\n"
		    "  bpfprof gpu --worker '*policy*' -d 60       Ray workers of these classes\n"
		    "  bpfprof gpu --worker '*policy*' --steps 3:5  two steps of each of them\n"
		    "  bpfprof gpu --once --json                   for scripts\n");
	buf_add_str(dst, exit_text);
}
