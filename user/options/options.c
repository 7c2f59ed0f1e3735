// SPDX-License-Identifier: Apache-2.0
#include "options/options.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "base/time.h"
#include "options/outputs.h"
#include "options/values.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define RECORD_AT(field) FLAG_AT(struct record_options, field)
#define TOP_AT(field) FLAG_AT(struct top_options, field)
#define CAPTURE_LIST_AT(object, list) FLAG_LIST_AT(object, capture.list, capture.nr_##list)
#define ONE_KIND_OF_WAITS "--wall and --off-cpu cannot be combined: --wall holds both"
/* The rest of the rows --container and --pod, after name, value and help. */
#define CONTAINER_ROW                                                                              \
	FLAG_CUSTOM, FLAG_AT(struct container_filter, nr_ids),                                     \
		.repeatable = true, .take = take_container, .release = release_containers
#define POD_ROW                                                                                    \
	FLAG_CUSTOM, FLAG_AT(struct container_filter, nr_pods), .repeatable = true, .take = take_pod
#define START_AT_MAX_NS (3600 * NS_PER_SECOND) /* a later start is taken for a mistake */
#define VERBOSE_MAX 2 /* a third -v changes nothing */

static int take_container(void *object, const char *value, struct buf *why)
{
	return container_filter_add_id(object, value, why);
}

static int take_pod(void *object, const char *value, struct buf *why)
{
	return container_filter_add_pod(object, value, why);
}

static void release_containers(void *object)
{
	container_filter_fini(object);
}

const struct flag container_flags[] = {
	{ "container", "ID",
	  "of those, only processes in this container: its id,\nor how the id begins",
	  CONTAINER_ROW },
	{ "pod", "[NS/]GLOB",
	  "of those, only processes in pods with this name\n('ml/trainer-*'); -p is then the pid "
	  "inside the pod",
	  POD_ROW },
	{ .type = FLAG_END },
};

const struct flag dump_container_flags[] = {
	{ "container", "ID", "every Python in this container: its id,\nor how the id begins",
	  CONTAINER_ROW },
	{ "pod", "[NS/]GLOB",
	  "every Python in pods with this name ('ml/trainer-*');\n"
	  "with -p that process, by its pid inside the pod",
	  POD_ROW },
	{ .type = FLAG_END },
};

const struct flag rate_flags[] = {
	{ "rate", "HZ", "samples per second and CPU, 1 to 10000 (99)", FLAG_NUMBER,
	  FLAG_AT(struct capture_options, session.hz), .letter = 'F', .alias = 'r', .min = 1,
	  .max = 10000, .initial = RECORD_HZ_DEFAULT,
	  .refusal = "rate must be a whole number between 1 and 10000 Hz" },
	{ .type = FLAG_END },
};

const struct flag clock_flags[] = {
	{ "clock", "CLOCK",
	  "auto, perf or timer (auto: perf events, and BPF\ntimers where the kernel refuses those)",
	  FLAG_CHOICE, FLAG_AT(struct capture_options, session.clock),
	  FLAG_WORDS("auto", "perf", "timer"), .refusal = "clock must be auto, perf or timer" },
	{ .type = FLAG_END },
};

const struct flag host_root_flags[] = {
	{ "host-root", "DIR", "the node's file system as this container sees it", FLAG_FOLDER,
	  .size = sizeof(char *) },
	{ .type = FLAG_END },
};

const struct flag pid_start_flags[] = {
	{ "pid-start", "TICKS",
	  "-p: only if the process was started then (field 22 of\n/proc/PID/stat)", FLAG_NUMBER,
	  .size = sizeof(uint64_t), .min = 1, .max = INT64_MAX,
	  .refusal = "must be a number of clock ticks from 1" },
	{ .type = FLAG_END },
};

static int take_start_at(void *object, const char *value, struct buf *why)
{
	struct capture_options *options = object;
	uint64_t start_ns, now_ns = time_wall_ns();
	int err = value_epoch(value, &start_ns);

	if (err)
		return err;
	if (start_ns > now_ns && start_ns - now_ns <= START_AT_MAX_NS) {
		options->start_at_ns = start_ns;
		return 0;
	}
	buf_printf(why, "is %s the clock of this machine (%llu.%03llu)",
		   start_ns <= now_ns ? "in the past of" : "more than an hour ahead of",
		   (unsigned long long)(now_ns / NS_PER_SECOND),
		   (unsigned long long)(now_ns % NS_PER_SECOND / 1000000));
	return -EINVAL;
}

static int take_ready_fd(void *object, const char *value, struct buf *why)
{
	struct capture_options *options = object;
	uint64_t fd;
	int err = value_number(value, INT_MAX, &fd);

	if (err || !fd)
		return -EINVAL;
	/* A program after -- does not get it. */
	if (fcntl((int)fd, F_GETFD) < 0 ||
	    (fd > STDERR_FILENO && fcntl((int)fd, F_SETFD, FD_CLOEXEC)))
		return value_refuse(why, "is not open");
	options->ready_fd = (int)fd;
	return 0;
}

const struct flag start_flags[] = {
	{ "start-at", "EPOCH",
	  "begin at this time, in seconds since 1970 (1764447000.5),\n"
	  "for the same moment on several machines",
	  FLAG_CUSTOM, FLAG_AT(struct capture_options, start_at_ns), .take = take_start_at,
	  .refusal = "must be a number of seconds since 1970, like 1764447000.5" },
	{ "ready-fd", "FD", "write a newline to this open descriptor once the\nrecording runs",
	  FLAG_CUSTOM, FLAG_AT(struct capture_options, ready_fd), .take = take_ready_fd,
	  .refusal = "must be the number of an open file descriptor, from 1" },
	{ "end-with-stdin", NULL,
	  "end as Ctrl-C does when standard input ends: at the far\n"
	  "end of ssh or kubectl exec -i nothing stays behind",
	  FLAG_BOOL, FLAG_AT(struct capture_options, end_with_stdin) },
	{ .type = FLAG_END },
};

static const struct flag verbose_flags[] = {
	{ "verbose", NULL, "say more; -vv libbpf's log too", FLAG_COUNT,
	  .size = sizeof(unsigned int), .letter = 'v', .repeatable = true, .max = VERBOSE_MAX },
	{ .type = FLAG_END },
};

int record_take_steps(void *object, const char *value, struct buf *why)
{
	struct record_options *options = object;

	(void)why;
	return steps_range_parse(&options->capture.steps, value);
}

int record_take_stats(void *object, const char *value, struct buf *why)
{
	struct record_options *options = object;

	return outputs_check_path(value, why) ?: value_string(&options->stats_path, value);
}

static const struct flag record_rows[] = {
	{ "pid", "PID", "record this process, its threads and children", FLAG_PIDS,
	  CAPTURE_LIST_AT(struct record_options, pids), .letter = 'p', .repeatable = true },
	FLAG_GROUP(pid_start_flags, struct record_options, capture.pid_start),
	{ "comm", "GLOB", "record processes with this name ('python*')", FLAG_LIST,
	  CAPTURE_LIST_AT(struct record_options, comms), .repeatable = true,
	  .refusal = "must be a process name or a pattern like 'python*'" },
	FLAG_GROUP(container_flags, struct record_options, capture.containers),
	{ "worker", "LIST",
	  "record Ray workers whose task, class or name matches\n"
	  "one of the patterns ('*policy*,sort_numbers')",
	  FLAG_PATTERNS, CAPTURE_LIST_AT(struct record_options, workers) },
	{ "steps", "START:STOP",
	  "of --worker, only these calls of each: 3:5 is the third\n"
	  "and the fourth that it begins; of one that makes windows\n"
	  "with cudaProfilerStart, these windows; ends after them.\n"
	  "windows:3:5 or calls:3:5: only these are steps",
	  FLAG_CUSTOM, RECORD_AT(capture.steps.stop), .take = record_take_steps,
	  .refusal = "must be START:STOP, counted from 1 and without STOP itself: 3:5 is steps 3 "
		     "and 4; or windows:START:STOP, or calls:START:STOP" },
	{ "no-subprocesses", NULL, "leave children of -p and CMD out", FLAG_BOOL,
	  RECORD_AT(capture.no_subprocesses) },
	FLAG_GROUP(rate_flags, struct record_options, capture),
	{ "duration", "DURATION", "30, 30s, 1.5, 5m, 2h (until Ctrl-C, or until\nCMD exits)",
	  FLAG_DURATION, RECORD_AT(duration_ns), .letter = 'd',
	  .refusal = "duration must be a number of seconds, or one like 30s, 5m, 2h",
	  .out_of_range =
		  "duration must be more than 0 and at most 366 days; leave -d out to record "
		  "until Ctrl-C" },
	FLAG_GROUP(start_flags, struct record_options, capture),
	FLAG_GROUP(clock_flags, struct record_options, capture),
	{ "event", "EVENT", "cpu-clock or cycles (cpu-clock)", FLAG_CHOICE,
	  RECORD_AT(capture.session.cycles), FLAG_WORDS("cpu-clock", "cycles"),
	  .refusal = "event must be cpu-clock or cycles" },
	{ "output", "FILE",
	  "write FILE, may be given again; its suffix chooses\n"
	  "the format: " OUTPUT_SUFFIX_LIST " (bpfprof-%t.html);\n"
	  ".json is the timeline of Ray's tasks and actor calls,\n"
	  "for Perfetto",
	  OUTPUTS_ROW },
	{ "format", "FORMAT",
	  OUTPUT_NAME_LIST " or trace:\n"
			   "for -o - and names whose suffix says nothing; with a\n"
			   "single -o it wins over the suffix",
	  OUTPUTS_FORMAT_ROW },
	{ "max-trace-bytes", "BYTES", "of a timeline: the newest calls are kept (256M)",
	  OUTPUTS_TRACE_BYTES_ROW },
	{ "native", NULL, ".raw and --py-spy: native frames too", FLAG_BOOL, RECORD_AT(native) },
	{ "py-spy", NULL,
	  ".svg, .speedscope.json and .raw as py-spy writes them:\n"
	  "frames of Python alone, no frame of the process",
	  FLAG_BOOL, RECORD_AT(py_spy) },
	{ "function", NULL, "--py-spy: the first line of each function, not the\none that runs",
	  FLAG_BOOL, RECORD_AT(function) },
	{ "nolineno", NULL, "--py-spy: no lines", FLAG_BOOL, RECORD_AT(no_lines) },
	{ "full-filenames", NULL, "--py-spy: whole names of Python files", FLAG_BOOL,
	  RECORD_AT(full_filenames) },
	{ "pod-pids", NULL, "--py-spy: pids as the processes themselves see them", FLAG_BOOL,
	  RECORD_AT(pod_pids) },
	{ "threads", NULL, "keep threads apart", FLAG_BOOL, RECORD_AT(threads) },
	{ "wall", NULL, "all time of every thread: on a CPU, waiting for one,\nand blocked",
	  FLAG_SET, RECORD_AT(capture.session.waits), .min = SESSION_WALL,
	  .refusal = ONE_KIND_OF_WAITS },
	{ "off-cpu", NULL, "only time that threads are blocked", FLAG_SET,
	  RECORD_AT(capture.session.waits), .min = SESSION_OFF_CPU, .refusal = ONE_KIND_OF_WAITS },
	{ "parked", NULL,
	  "--wall, --off-cpu: stacks of idle pool threads and pollers\ntoo, not only [parked]",
	  FLAG_BOOL, RECORD_AT(parked) },
	{ "waker", NULL,
	  "--wall, --off-cpu: above each wait the thread that ended\nit, and its stack", FLAG_BOOL,
	  RECORD_AT(capture.session.wakers) },
	{ "gil", NULL, "only Python threads that hold the GIL", FLAG_BOOL, RECORD_AT(capture.gil) },
	{ "async", NULL,
	  "a coroutine of asyncio stands under the tasks that await\nit; with --wall tasks "
	  "that wait, too",
	  FLAG_BOOL, RECORD_AT(capture.session.async) },
	{ "memory", NULL,
	  "which functions hold resident memory, too: x.pb.gz is\nof the CPU, x.memory.pb.gz of "
	  "memory",
	  FLAG_BOOL, RECORD_AT(capture.session.pages) },
	{ "gpu", NULL,
	  "CUDA and NCCL calls too, in files beside the others:\n"
	  "x.pb.gz is of the CPU, x.cuda.pb.gz of the calls",
	  FLAG_BOOL, RECORD_AT(capture.session.gpu) },
	{ "tensors", NULL, "--gpu: memory that PyTorch hands out for tensors, too,\nby stack",
	  FLAG_BOOL, RECORD_AT(capture.session.gpu_tensors) },
	{ "gc", NULL, "--gpu: garbage collections of Python, too, in processes\nthat launch",
	  FLAG_BOOL, RECORD_AT(capture.session.gpu_gc) },
	{ "by", "WHAT",
	  "task: stacks begin with a Ray task or a process name;\n"
	  "process: with NAME-PID; rank: with RANK of a\n"
	  "distributed job; pod: with NAMESPACE/POD (task)",
	  FLAG_CHOICE, RECORD_AT(by), FLAG_WORDS("task", "process", "rank", "pod"),
	  .refusal = "by must be task, process, rank or pod" },
	{ "split", "HOW",
	  "node: one profile; process: one file each; pod: one\n"
	  "per pod in NAMESPACE/POD beside that of the rest (node)",
	  FLAG_CHOICE, RECORD_AT(split), FLAG_WORDS("node", "pod", "process"),
	  .refusal = "split must be node, pod or process" },
	{ "stats", "FILE", "write what was counted and lost as JSON", FLAG_TEXT,
	  RECORD_AT(stats_path), .take = record_take_stats },
	{ "no-findings", NULL,
	  "report no findings: tiny tasks, one that takes far\n"
	  "longer, too many threads, a limit that stops them,\n"
	  "growing memory, one thread that keeps the GIL",
	  FLAG_SET, RECORD_AT(findings), .min = false, .initial = true },
	FLAG_GROUP(host_root_flags, struct record_options, capture.host_root),
	FLAG_GROUP(verbose_flags, struct record_options, verbose),
	{ .type = FLAG_END },
};

static int choose_formats(void *object, struct buf *error)
{
	struct record_options *options = object;
	char path[64];
	int err = 0;

	snprintf(path, sizeof(path), "bpfprof-%%t%s",
		 output_suffix(options->format ?: OUTPUT_HTML));
	if (!options->nr_outputs)
		err = outputs_take(options, path, error);
	return err ?: outputs_choose_formats(options, OUTPUTS_TRACES, error);
}

static int check_timeline(void *object, struct buf *error)
{
	const struct record_options *options = object;

	return options->capture.steps.stop && options->trace
		       ? value_refuse(error,
				      "--steps: a timeline has all calls, leave -o FILE.json out")
		       : 0;
}

static int check_tasks(void *object, struct buf *error)
{
	const struct record_options *options = object;

	return options->py_spy && options->capture.session.async &&
			       options->capture.session.waits != SESSION_NO_WAITS
		       ? value_refuse(error,
				      "--py-spy: its files have no frame that keeps tasks that "
				      "wait apart from threads, leave --async out")
		       : 0;
}

int record_check_command(void *object, struct buf *error)
{
	const struct record_options *options = object;

	if (options->command && !*options->command[0])
		return value_refuse(error, "--: the program to run has an empty name");
	if (options->command && container_filter_is_set(&options->capture.containers))
		return value_refuse(error,
				    "--: the program to run is in no container, leave --pod and "
				    "--container out");
	return 0;
}

/* Checks that the file that a flag adds beside path is not another file of the command line. */
static int check_beside(const struct record_options *options, const char *path, const char *infix,
			const char *flag, struct buf *error)
{
	__cleanup(buf_fini) struct buf calls = { .max = PATH_MAX };
	bool taken;
	size_t i;

	if (!strcmp(path, "-"))
		return 0;
	output_path_insert(&calls, path, infix);
	if (buf_error(&calls)) {
		buf_printf(error, "%s: a file name is too long", flag);
		return -EINVAL;
	}
	taken = options->stats_path && outputs_same_path(options->stats_path, calls.data);
	for (i = 0; i < options->nr_outputs; i++)
		taken |= outputs_same_path(options->outputs[i].path, calls.data);
	if (!taken)
		return 0;
	buf_printf(error, "%s: ", flag);
	text_add_typed(error, calls.data);
	buf_add_str(error, " is written beside another, and a flag names it, too");
	return -EINVAL;
}

int record_check_files(void *object, struct buf *error)
{
	const struct record_options *options = object;
	const char *stats = options->stats_path;

	for (size_t i = 0; i < options->nr_outputs; i++) {
		const char *path = options->outputs[i].path;

		if (stats && outputs_same_path(path, stats)) {
			buf_add_str(error, "--stats ");
			text_add_typed(error, stats);
			buf_add_str(error, ": this file is already named by -o");
			return -EINVAL;
		}
		if (options->outputs[i].format != OUTPUT_TRACE &&
		    ((options->capture.session.gpu &&
		      check_beside(options, path, RECORD_CALLS_INFIX, "--gpu", error)) ||
		     (options->capture.session.pages &&
		      check_beside(options, path, RECORD_MEMORY_INFIX, "--memory", error))))
			return -EINVAL;
		if (options->split != RECORD_SPLIT_NODE && !strcmp(path, "-") &&
		    options->outputs[i].format != OUTPUT_TRACE)
			return value_refuse(
				error, "-o -: --split writes several files and needs a file name");
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

int record_take_test_knobs(void *object, struct buf *error)
{
	struct record_options *options = object;
	struct session_options *session = &options->capture.session;
	const struct {
		const char *name;
		uint64_t min;
		uint32_t *knob;
	} knobs[] = {
		{ "BPFPROF_TEST_RING_BYTES", (uint64_t)sysconf(_SC_PAGESIZE),
		  &session->ring_bytes },
		{ "BPFPROF_TEST_ROW_SLOTS", 64, &session->nr_rows },
		{ "BPFPROF_TEST_WAITER_PLACES", 1, &session->waiter_places },
		{ "BPFPROF_TEST_LATE_NAMES", 1, &options->test_late_names },
	};
	int err = 0;

	for (size_t i = 0; i < ARRAY_SIZE(knobs) && !err; i++)
		err = test_knob(knobs[i].name, knobs[i].min, knobs[i].knob, error);
	return err;
}

static const struct flag_rule record_rules[] = {
	PID_START_RULE,
	{ .check = choose_formats },
	{ "function nolineno full-filenames pod-pids", FLAG_NEEDS, "py-spy",
	  .sentence = "--py-spy is missing: --function, --nolineno, --full-filenames and "
		      "--pod-pids change its files" },
	{ "function", FLAG_EXCLUDES, "nolineno",
	  .sentence = "--function and --nolineno cannot be used together" },
	{ "event=cycles", FLAG_EXCLUDES, "clock=timer",
	  .sentence =
		  "--event cycles: the timer clock cannot count cycles, leave --clock timer out" },
	{ "steps", FLAG_NEEDS, "worker",
	  .sentence = "--steps: counts the calls of Ray workers, --worker must name them" },
	{ "steps", FLAG_EXCLUDES, "pid comm",
	  .sentence = "--steps: only Ray workers have steps, leave -p and --comm out" },
	{ "parked", FLAG_NEEDS, "wall off-cpu",
	  .sentence = "--parked: shows stacks of threads that wait, add --wall or --off-cpu" },
	{ "gil", FLAG_EXCLUDES, "wall off-cpu",
	  .sentence =
		  "--gil cannot be combined with --wall and --off-cpu: a waiting thread does not "
		  "hold the GIL" },
	{ "gpu", FLAG_EXCLUDES, "wall off-cpu",
	  .sentence = "--gpu: waits and hooked calls cannot be recorded together, leave --wall and "
		      "--off-cpu out" },
	GPU_PART_RULES,
	{ "waker", FLAG_NEEDS, "wall off-cpu",
	  .sentence = "--waker: shows the threads that end waits, add --wall or --off-cpu" },
	{ .check = check_timeline },
	{ .check = check_tasks },
	{ "steps", FLAG_EXCLUDES, "wall off-cpu",
	  .sentence = "--steps: waits are not cut where steps begin and end, leave --wall and "
		      "--off-cpu out" },
	{ "event=cycles", FLAG_EXCLUDES, "wall off-cpu",
	  .sentence = "--event cycles: waits have no cycles, leave --wall and --off-cpu out" },
	{ .check = record_check_command },
	{ .check = record_check_files },
	{ .check = record_take_test_knobs },
	{ 0 },
};

static const char record_about[] =
	"Usage: bpfprof record [FLAG]... [-- CMD ARGS...]\n"
	"Samples every CPU, the kernel's and the programs' stacks, and writes a profile.\n"
	"Without -p, --comm, --worker and CMD the whole machine is recorded; a process is\n"
	"recorded if any of the four names it, and it lives in a pod that --pod names.\n";
static const char record_notes[] =
	"File names: %h host, %p pid, %t UTC time, %w worker, %{NAME} environment variable;\n"
	"missing folders are made. Every flag can also be set in the environment:\n"
	"BPFPROF_RATE=199, BPFPROF_NATIVE=1, BPFPROF_PID=17,42, or for this command alone\n"
	"BPFPROF_RECORD_RATE=199; the command line wins.\n"
	"\n"
	"Examples:\n"
	"  bpfprof record -d 10                        the whole machine, 10 s, flame graph\n"
	"  bpfprof record -p 1234 -d 30 -o cpu.pb.gz   one process, for go tool pprof\n"
	"  bpfprof record -p 1234 --wall -d 30         where it waits, and for how long\n"
	"  bpfprof record -p 1234 --wall --waker -d 30 and which thread ends each wait\n"
	"  bpfprof record -d 60 -o ray.json            when Ray's tasks and calls ran, for "
	"Perfetto\n"
	"  bpfprof record -o gcc.html -- make          a build and all its children\n"
	"  bpfprof record --worker '*policy*' -d 30    Ray workers of these classes\n"
	"  bpfprof record --worker '*policy*' --steps 3:5  calls 3 and 4 of each of them\n"
	"  bpfprof record -d 5 --format folded -o -    stacks to standard output\n"
	"  bpfprof record --gpu -d 30 -o x.html        and x.cuda.html of CUDA's calls\n"
	"  bpfprof record --gpu --tensors -o x.pb.gz   and the memory of tensors, by stack\n"
	"  bpfprof record -d 10 --pod 'ml/trainer-*'   some pods, whatever runs in them\n"
	"  bpfprof record -d 60 -o '/shared/%h-%t.html' from many nodes into one folder\n";
static const char record_statuses[] =
	"With CMD: CMD's own status once it runs, 128 + the signal if it was killed; 127 if\n"
	"CMD is not found, 126 if it cannot be run.\n";

const struct flag_set record_flags = {
	.flags = record_rows,
	.rules = record_rules,
	.size = sizeof(struct record_options),
	.command = offsetof(struct record_options, command),
	.no_operand = "no such argument; a process id goes after -p, a program to run after --",
	.twins = "RECORD",
	.about = record_about,
	.notes = record_notes,
	.statuses = record_statuses,
};

static const struct flag top_rows[] = {
	{ "pid", "PID", "watch this process, its threads and children", FLAG_PIDS,
	  CAPTURE_LIST_AT(struct top_options, pids), .letter = 'p', .repeatable = true },
	FLAG_GROUP(pid_start_flags, struct top_options, capture.pid_start),
	{ "comm", "GLOB", "watch processes with this name ('python*')", FLAG_LIST,
	  CAPTURE_LIST_AT(struct top_options, comms), .repeatable = true,
	  .refusal = "must be a process name or a pattern like 'python*'" },
	FLAG_GROUP(container_flags, struct top_options, capture.containers),
	{ "worker", "LIST",
	  "watch Ray workers whose task, class or name matches\n"
	  "one of the patterns ('*policy*,sort_numbers')",
	  FLAG_PATTERNS, CAPTURE_LIST_AT(struct top_options, workers) },
	{ "no-subprocesses", NULL, "leave children of -p out", FLAG_BOOL,
	  TOP_AT(capture.no_subprocesses) },
	FLAG_GROUP(rate_flags, struct top_options, capture),
	{ "delay", "SECONDS", "time between two pictures, from 0.1 (1)", FLAG_DURATION,
	  TOP_AT(delay_ns), .min = NS_PER_SECOND / 10, .max = 3600 * NS_PER_SECOND,
	  .initial = NS_PER_SECOND,
	  .refusal = "delay must be a number of seconds from 0.1 to 3600" },
	{ "once", NULL, "watch for one delay, print one table, exit", FLAG_BOOL, TOP_AT(once) },
	{ "batch", NULL, "print a table after each delay, for scripts and pipes", FLAG_BOOL,
	  TOP_AT(batch) },
	{ "duration", "DURATION", "--batch: end after 30, 30s, 1.5, 5m, 2h", FLAG_DURATION,
	  TOP_AT(duration_ns), .letter = 'd',
	  .refusal = "duration must be a number of seconds, or one like 30s, 5m, 2h" },
	{ "native", NULL, "native frames in Python programs too", FLAG_BOOL, TOP_AT(native) },
	{ "pod-pids", NULL, "show the pid of -p as the process itself sees it", FLAG_BOOL,
	  TOP_AT(pod_pids) },
	{ "wall", NULL, "all time of every thread: where it waits, too", FLAG_SET,
	  TOP_AT(capture.session.waits), .min = SESSION_WALL },
	{ "parked", NULL, "--wall: idle pool threads and pollers too, not only\n[parked]",
	  FLAG_BOOL, TOP_AT(parked) },
	{ "gil", NULL, "only Python threads that hold the GIL", FLAG_BOOL, TOP_AT(capture.gil) },
	{ "gpu", NULL,
	  "CUDA's launches per second and the time that threads are\n"
	  "blocked in its calls and NCCL's, by process",
	  FLAG_BOOL, TOP_AT(capture.session.gpu) },
	FLAG_GROUP(clock_flags, struct top_options, capture),
	FLAG_GROUP(host_root_flags, struct top_options, capture.host_root),
	FLAG_GROUP(verbose_flags, struct top_options, verbose),
	{ .type = FLAG_END },
};

static const struct flag_rule top_rules[] = {
	PID_START_RULE,
	{ "once", FLAG_EXCLUDES, "batch",
	  .sentence = "--once prints one table, --batch many: choose one" },
	{ "duration", FLAG_NEEDS, "batch", .sentence = "--duration: goes with --batch" },
	{ "parked", FLAG_NEEDS, "wall",
	  .sentence = "--parked: shows stacks of threads that wait, add --wall" },
	{ "gil", FLAG_EXCLUDES, "wall",
	  .sentence =
		  "--gil cannot be combined with --wall: a waiting thread does not hold the GIL" },
	{ "gpu", FLAG_EXCLUDES, "wall",
	  .sentence =
		  "--gpu: waits and hooked calls cannot be recorded together, leave --wall out" },
	{ 0 },
};

static const char top_about[] =
	"Usage: bpfprof top [FLAG]...\n"
	"Shows the functions that use the CPU right now. Without -p, --comm and\n"
	"--worker the whole machine is watched. Press ? for the keys, q to quit.\n";
static const char top_notes[] =
	"100% is one CPU core; %Own and %Total are of the last delay, OwnTime and\n"
	"TotalTime are since the start.\n"
	"Every flag can also be set in the environment: BPFPROF_DELAY=5; the command\n"
	"line wins.\n"
	"\n"
	"Examples:\n"
	"  bpfprof top                          the whole machine\n"
	"  bpfprof top -p 1234                  one process and its children\n"
	"  bpfprof top -p 1234 --native         C and C++ below Python too\n"
	"  bpfprof top --pod 'ml/trainer-*'     the processes of some pods\n"
	"  bpfprof top --worker 'Trainer*'      Ray workers of these classes\n"
	"  bpfprof top --comm 'ray::*' --gil    threads that hold the GIL in Ray workers\n"
	"  bpfprof top --wall -p 1234           where its threads wait right now\n"
	"  bpfprof top --gpu                    launches and waits for the GPU, by process\n"
	"  bpfprof top -p 1234 --once --delay 5 one table, for scripts\n"
	"  bpfprof top -p 1234 --batch -d 60    a table each second, for a file or a pipe\n";

const struct flag_set top_flags = {
	.flags = top_rows,
	.rules = top_rules,
	.size = sizeof(struct top_options),
	.no_operand = "no such argument; a process id goes after -p",
	.twins = "TOP",
	.about = top_about,
	.notes = top_notes,
};

static const struct flag doctor_rows[] = {
	{ "pid", "PID", "look at this process too: can it be recorded?", FLAG_NUMBER,
	  FLAG_AT(struct doctor_options, pid), .letter = 'p', .min = 1, .max = INT_MAX,
	  .refusal = "must be a process id, a whole number from 1" },
	{ "json", NULL, "an array of {name, status, found, remedy}", FLAG_BOOL,
	  FLAG_AT(struct doctor_options, json) },
	FLAG_GROUP(host_root_flags, struct doctor_options, host_root),
	FLAG_GROUP(verbose_flags, struct doctor_options, verbose),
	{ .type = FLAG_END },
};

static const char doctor_about[] =
	"Usage: bpfprof doctor [FLAG]...\n"
	"Says for each thing that record needs whether it is there, and how to get it.\n";
static const char doctor_notes[] = "Examples:\n"
				   "  bpfprof doctor\n"
				   "  bpfprof doctor --pid 1234\n"
				   "  bpfprof doctor --json\n";

const struct flag_set doctor_flags = {
	.flags = doctor_rows,
	.size = sizeof(struct doctor_options),
	.no_operand = "no such argument; a process id goes after --pid",
	.twins = "DOCTOR",
	.about = doctor_about,
	.notes = doctor_notes,
};

static const struct flag no_rows[] = { { .type = FLAG_END } };

const struct flag_set clock_flag_set = {
	.flags = no_rows,
	.size = 1,
	.no_operand = "no such argument",
	.twins = "CLOCK",
	.about = "Usage: bpfprof clock\n"
		 "Prints the time of this machine in seconds since 1970, and once more for each "
		 "line\n"
		 "of standard input: for --start-at, and to see how far clocks differ.\n",
	.notes = "Examples:\n"
		 "  ssh node1 bpfprof clock\n"
		 "  kubectl -n bpfprof exec AGENT -- bpfprof clock\n",
};
