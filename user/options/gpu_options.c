// SPDX-License-Identifier: Apache-2.0
#include "options/gpu_options.h"

#include <errno.h>
#include <string.h>

#include "base/time.h"
#include "options/outputs.h"
#include "options/values.h"

#define AT(field) FLAG_AT(struct gpu_options, field)
#define LIST_AT(list)                                                                              \
	FLAG_LIST_AT(struct gpu_options, record.capture.list, record.capture.nr_##list)
#define ONCE_NS NS_PER_SECOND

static int take_sort(void *object, const char *value, struct buf *why)
{
	static const char *const sorts[] = { "calls", "bytes", "blocked" };
	struct gpu_options *options = object;
	size_t i;

	(void)why;
	for (i = 0; i < 3; i++)
		if (!strcmp(sorts[i], value))
			options->sort = sorts[i];
	return options->sort && !strcmp(options->sort, value) ? 0 : -EINVAL;
}

/* The rows of struct record_options apply to this struct, too. */
_Static_assert(offsetof(struct gpu_options, record) == 0, "record is not the first member");

static const struct flag rows[] = {
	{ "pid", "PID", "calls of this process and its children", FLAG_PIDS, LIST_AT(pids),
	  .letter = 'p', .repeatable = true },
	FLAG_GROUP(container_flags, struct gpu_options, record.capture.containers),
	{ "worker", "LIST",
	  "Ray workers whose task, class or name matches one of\n"
	  "the patterns '*policy*,Trainer', and their children",
	  FLAG_PATTERNS, LIST_AT(workers), .repeatable = true },
	{ "steps", "START:STOP",
	  "count only in these windows that a program makes with\n"
	  "cudaProfilerStart; where it makes none, in these calls\n"
	  "of the workers' methods. 3:5 is the third and the fourth;\n"
	  "ends after them. windows:3:5 or calls:3:5: only these\n"
	  "are steps, for jobs that do both",
	  FLAG_CUSTOM, AT(record.capture.steps.stop), .take = record_take_steps,
	  .refusal = "must be START:STOP, whole numbers from 1 on, STOP the greater, or "
		     "windows:START:STOP, or calls:START:STOP" },
	{ "no-subprocesses", NULL, "leave children of -p and --worker out", FLAG_BOOL,
	  AT(record.capture.no_subprocesses) },
	{ "duration", "TIME",
	  "stop after so many seconds, or 30s, 5m, 2h; without\nit Ctrl-C ends it", FLAG_DURATION,
	  AT(record.duration_ns), .letter = 'd',
	  .refusal = "must be a number of seconds, or one like 30s, 5m, 2h" },
	FLAG_GROUP(start_flags, struct gpu_options, record.capture),
	{ "output", "FILE",
	  "write calls by stack, too; the suffix says how:\n" OUTPUT_SUFFIXES
	  ";\n.json is a trace of each call, for Perfetto; .pickle\n"
	  "is memory over time, for PyTorch's memory viewer",
	  OUTPUTS_ROW },
	{ "format", "FORMAT",
	  OUTPUT_NAME_LIST ",\n"
			   "trace or pickle, where the name does not say it (-o -)",
	  OUTPUTS_FORMAT_ROW },
	{ "max-trace-bytes", "BYTES", "of a trace: the newest calls are kept (256M)",
	  OUTPUTS_TRACE_BYTES_ROW },
	{ "once", NULL, "watch for 1 s or as -d or --steps says, print one table,\nexit", FLAG_BOOL,
	  AT(once) },
	{ "json", NULL, "with --once: JSON instead of a table", FLAG_BOOL, AT(json) },
	{ "tensors", NULL, "memory that PyTorch hands out for tensors, too, by stack", FLAG_BOOL,
	  AT(record.capture.session.gpu_tensors) },
	{ "gc", NULL,
	  "garbage collections of Python, too, in processes that\n"
	  "launch; for Pythons that have probes for it",
	  FLAG_BOOL, AT(record.capture.session.gpu_gc) },
	{ "sort", "KEY", "tables by calls, bytes or blocked time (calls)", FLAG_CUSTOM,
	  .take = take_sort, .refusal = "must be calls, bytes or blocked" },
	{ "rows", "N", "of each table, 0 shows all (20)", FLAG_NUMBER, AT(rows), .max = 100000,
	  .initial = 20, .refusal = "must be a number up to 100000; 0 shows all" },
	{ "threads", NULL, "keep threads apart in the files", FLAG_BOOL, AT(record.threads) },
	FLAG_GROUP(host_root_flags, struct gpu_options, record.capture.host_root),
	{ "verbose", NULL, "say which libraries are hooked; -vv libbpf's log too", FLAG_COUNT,
	  AT(record.verbose), .letter = 'v', .repeatable = true, .max = 2 },
	{ .type = FLAG_END },
};

static int check_calls(void *object, struct buf *error)
{
	const struct capture_options *capture =
		&((const struct gpu_options *)object)->record.capture;

	return capture->steps.kind == STEPS_CALLS && !capture->nr_workers
		       ? value_refuse(error,
				      "--steps calls: counts the calls of Ray workers, --worker "
				      "must name them")
		       : 0;
}

static int choose_formats(void *object, struct buf *error)
{
	return outputs_choose_formats(object, OUTPUTS_TRACES | OUTPUTS_PICKLES, error);
}

static int fill(void *object, struct buf *error)
{
	struct gpu_options *options = object;

	(void)error;
	options->sort = options->sort ?: "calls";
	if (options->once && !options->record.duration_ns && !options->record.capture.steps.stop)
		options->record.duration_ns = ONCE_NS;
	return 0;
}

static const struct flag_rule rules[] = {
	{ "pod container", FLAG_EXCLUDES, "worker",
	  .sentence = "--worker: names processes of all pods, leave --pod and --container out" },
	{ "json", FLAG_NEEDS, "once", .sentence = "--json: goes with --once" },
	{ "format", FLAG_NEEDS, "output", .sentence = "--format: goes with -o" },
	{ .check = check_calls },
	{ .check = choose_formats },
	{ .check = record_take_test_knobs },
	{ .check = fill },
	{ 0 },
};

static const char gpu_about[] =
	"Usage: bpfprof gpu [FLAG]...\n"
	"Shows what programs ask of their GPUs: kernel launches by name, grid and stream,\n"
	"bytes copied, memory allocated and not freed (the device's, and apart from it\n"
	"page-locked memory of the host), time that threads wait in\n"
	"synchronizing calls, NCCL's collectives, and calls that have not returned, by\n"
	"Python and native stack. It watches calls of libcuda and libnccl in programs that\n"
	"run already, without a restart, CUPTI or a change of them. What the GPU itself\n"
	"does, how long a kernel runs there, cannot be seen from outside, nor can NVTX\n"
	"ranges. Without -p and --worker all programs of the machine are watched.\n";
static const char gpu_notes[] =
	"Examples:\n"
	"  bpfprof gpu                                 a live table of the machine\n"
	"  bpfprof gpu -p 1234 --once -d 10            one table of ten seconds\n"
	"  bpfprof gpu -p 1234 -d 30 -o gpu.html       launches as a flame graph\n"
	"  bpfprof gpu -p 1234 -d 5 -o gpu.json        every call, to be opened in Perfetto\n"
	"  bpfprof gpu -p 1234 --tensors -o gpu.pickle  memory, for pytorch.org/memory_viz\n"
	"  bpfprof gpu --worker '*policy*' -d 60       Ray workers of these classes\n"
	"  bpfprof gpu --worker '*policy*' --steps 3:5  two steps of each of them\n"
	"  bpfprof gpu --once --json                   for scripts\n";

const struct flag_set gpu_flags = {
	.flags = rows,
	.rules = rules,
	.size = sizeof(struct gpu_options),
	.no_operand = "no such argument; a process id goes after -p",
	.twins = "GPU",
	.about = gpu_about,
	.notes = gpu_notes,
};
