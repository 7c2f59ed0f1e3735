// SPDX-License-Identifier: Apache-2.0
#include "cmd/report_options.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/names.h"
#include "base/time.h"
#include "formats/profile_read.h"
#include "gpu/report_read.h"
#include "options/outputs.h"
#include "options/values.h"

#define AT(field) FLAG_AT(struct report_options, field)

static int take_file(void *object, const char *value, struct buf *why)
{
	struct report_options *options = object;
	size_t i;

	if (!*value)
		return -EINVAL;
	if (options->nr_files >= PROFILE_READ_FILES)
		return value_refuse(why, "at most 16384 files are read");
	for (i = 0; !strcmp(value, "-") && i < options->nr_files; i++)
		if (!strcmp(options->files[i], "-"))
			return value_refuse(why, "standard input is read once");
	return names_add(&options->files, &options->nr_files, value, strlen(value));
}

static int take_at(void *object, const char *value, struct buf *why)
{
	struct report_options *options = object;
	uint64_t ns;

	(void)why;
	if (!report_time(value, time_wall_ns() / NS_PER_SECOND, &options->window.at_s))
		return 0;
	if (value_epoch(value, &ns) || ns < NS_PER_SECOND)
		return -EINVAL;
	options->window.at_s = ns / NS_PER_SECOND;
	return 0;
}

static int take_format(void *object, const char *value, struct buf *why)
{
	struct report_options *options = object;

	(void)why;
	options->record.format = output_format_by_name(value);
	return options->record.format != OUTPUT_INVALID ? 0 : -EINVAL;
}

/* "auto" is the default, but without --diff it is a mistake like the other values. */
static int take_per(void *object, const char *value, struct buf *why)
{
	static const char *const names[] = { "auto", "second", "rank", "process", "share" };
	struct report_options *options = object;

	(void)why;
	options->has_per = true;
	for (options->per = DIFF_PER_AUTO; options->per <= DIFF_PER_SHARE; options->per++)
		if (!strcmp(names[options->per], value))
			return 0;
	return -EINVAL;
}

/* Rows of struct record_options are rows of this one, too. */
_Static_assert(offsetof(struct report_options, record) == 0, "record is not the first member");

/* Marked flags are for profiles: --nccl and --tasks refuse them. */
static const struct flag rows[] = {
	{ "file", "FILE", "the same as FILE alone; - is standard input", FLAG_LIST,
	  FLAG_LIST_AT(struct report_options, files, nr_files), .letter = 'f', .repeatable = true,
	  .take = take_file, .refusal = "must name a file" },
	{ "last", "DURATION", "take the newest 30s, 2m, 1h of a folder", FLAG_DURATION,
	  AT(window.last_s), .marked = true, .unit_ns = NS_PER_SECOND, .whole = true,
	  .refusal = "must be a number of seconds, or one like 30s, 5m, 2h" },
	{ "at", "TIME",
	  "take the interval of a folder that holds this time of UTC\n"
	  "(14:03:20, 2026-01-31T14:03:20Z) or in seconds since 1970",
	  FLAG_CUSTOM, AT(window.at_s), .marked = true, .take = take_at,
	  .refusal = "must be a time like 14:03, 14:03:20, 2026-01-31T14:03:20Z, or seconds "
		     "since 1970" },
	{ "for", "DURATION", "--at: take just so long from then on, to the second", FLAG_DURATION,
	  AT(window.for_s), .marked = true, .unit_ns = NS_PER_SECOND, .whole = true,
	  .refusal = "must be a number of seconds, or one like 30s, 5m, 2h" },
	{ "pid", "PID", "samples of these processes only", FLAG_PIDS,
	  FLAG_LIST_AT(struct report_options, choice.pids, choice.nr_pids), .letter = 'p',
	  .repeatable = true, .marked = true },
	FLAG_GROUP(container_flags, struct report_options, choice.containers),
	{ "output", "FILE",
	  "write all files as one instead of a table; the suffix\n"
	  "says how: " OUTPUT_SUFFIXES,
	  OUTPUTS_ROW, .marked = true },
	{ "format", "FORMAT", OUTPUT_NAMES ", where the\nname does not say it (-o -)", FLAG_CUSTOM,
	  AT(record.format), .marked = true, .take = take_format,
	  .refusal = "must be " OUTPUT_NAMES },
	{ "by", "WHAT",
	  "rows are function, line, library, process, rank, task,\n"
	  "pod or thread (function); with -o, what the first frame\n"
	  "names, as in record",
	  FLAG_CHOICE, AT(by), .marked = true,
	  FLAG_WORDS("function", "line", "library", "process", "rank", "task", "pod", "thread"),
	  .refusal = "must be function, line, library, process, rank, task, pod or thread" },
	{ "sort", "KEY", "by own or total time (own)", FLAG_CHOICE, AT(by_total), .marked = true,
	  FLAG_WORDS("own", "total"), .refusal = "must be own or total" },
	{ "rows", "N", "of each table, 0 shows all (64)", FLAG_NUMBER, AT(rows), .max = 100000,
	  .initial = 64, .refusal = "must be a number up to 100000; 0 shows all" },
	{ "sample-type", "TYPE", "of a pprof that has several (its default one)", FLAG_TEXT,
	  AT(sample_type), .marked = true, .refusal = "must name a type" },
	{ "native", NULL, "native frames in .raw files, too", FLAG_BOOL, AT(record.native),
	  .marked = true },
	{ "threads", NULL, "keep threads apart in written files", FLAG_BOOL, AT(record.threads),
	  .marked = true },
	{ "compare", "WHAT",
	  "each rank, pod or node beside the mean of the others:\n"
	  "which one differs, and in which functions; auto takes\n"
	  "the first kind that occurs more than once",
	  FLAG_CHOICE, AT(compare), .marked = true, .min = REPORT_COMPARE_AUTO,
	  FLAG_WORDS("auto", "rank", "pod", "node"), .refusal = "must be auto, rank, pod or node" },
	{ "diff", NULL,
	  "what grew and shrank from the first FILE to the second;\n"
	  "with -o a flame graph in red and blue (.html, .svg)",
	  FLAG_BOOL, AT(diff), .marked = true },
	{ "per", "WHAT",
	  "compare per second, rank (and second), process (and\n"
	  "second), or share of all (rank if both files have such,\n"
	  "else second; share if they do not say how long they took)",
	  FLAG_CUSTOM, AT(has_per), .marked = true, .take = take_per,
	  .refusal = "must be second, rank, process or share" },
	{ "library", "NAME",
	  "innermost functions of each stack, and the innermost\n"
	  "one whose path has NAME, as itwinai's\n"
	  "generate-py-spy-report has them",
	  FLAG_TEXT, AT(library), .marked = true, .refusal = "must name a library" },
	{ "aggregate-leaf", NULL, "with --library: merge equal rows of different stacks", FLAG_BOOL,
	  AT(aggregate_leaf), .marked = true },
	{ "lines", "FILE", "this source file with the samples of each line", FLAG_TEXT, AT(lines),
	  .marked = true, .refusal = "must name a source file" },
	{ "tasks", NULL,
	  "Ray's tasks and actor calls by name: how many, how long,\n"
	  "CPU; of timelines (.json). Of profiles: CPU only",
	  FLAG_BOOL, AT(tasks) },
	{ "nccl", NULL, "ranks of communicators side by side, from files of gpu\n--once --json",
	  FLAG_BOOL, AT(nccl) },
	{ .type = FLAG_END },
};

static int check_marked(void *object, struct buf *error)
{
	const struct report_options *options = object;
	const struct flag *flag = options->of_profiles;

	if (!flag || !(options->tasks || options->nccl))
		return 0;
	if (flag->letter)
		buf_printf(error, "-%c", flag->letter);
	else
		buf_printf(error, "--%s", flag->name);
	buf_printf(error, ": does not go with --%s", options->tasks ? "tasks" : "nccl");
	return -EINVAL;
}

/* Does the name belong to a timeline? Standard input counts as one. */
static bool is_timeline(const char *file)
{
	return !strcmp(file, "-") || output_has_suffix(file, ".json");
}

static int check_files(void *object, struct buf *error)
{
	struct report_options *options = object;
	size_t i, nr = 0;

	if (options->nccl && options->nr_files > GPU_READ_FILES)
		return value_refuse(error, "--nccl: at most 1024 files are read");
	for (i = 0; i < options->nr_files && options->tasks; i++)
		nr += is_timeline(options->files[i]);
	if (nr && nr < options->nr_files)
		return value_refuse(error,
				    "--tasks: timelines (.json) or profiles, not both: a timeline "
				    "has the CPU time, too");
	options->timelines = nr > 0;
	return 0;
}

static int check_by_and_diff(void *object, struct buf *error)
{
	const struct report_options *options = object;

	if (options->record.nr_outputs && options->by != TALLY_FUNCTION &&
	    (!tally_is_of_groups(options->by) || options->by == TALLY_THREAD))
		return value_refuse(error, "--by: must be process, rank, task or pod with -o");
	if (options->diff && options->nr_files != 2)
		return value_refuse(error, "--diff: compares two files, first the one from before");
	return 0;
}

static int choose_formats(void *object, struct buf *error)
{
	struct report_options *options = object;
	const struct record_output *outputs = options->record.outputs;
	int err = outputs_choose_formats(&options->record, 0, error);

	for (size_t i = 0; i < options->record.nr_outputs && options->diff && !err; i++)
		if (outputs[i].format != OUTPUT_HTML && outputs[i].format != OUTPUT_SVG)
			err = value_refuse(error, "--diff: writes only .html and .svg with -o");
	return err;
}

#define OF_PROFILES "--container, --pod: choose samples of profiles"
#define ONE_AT_A_TIME "--diff, --library, --lines: one of them at a time"

static const struct flag_rule rules[] = {
	{ .check = check_marked },
	{ "tasks", FLAG_EXCLUDES, "nccl", .sentence = "--tasks, --nccl: one of them at a time" },
	{ "tasks", FLAG_NEEDS, "file",
	  .sentence = "--tasks: which files? bpfprof record -o FILE.json writes one" },
	{ "nccl", FLAG_NEEDS, "file",
	  .sentence = "--nccl: which files? bpfprof gpu --once --json writes them" },
	{ NULL, FLAG_NEEDS, "file",
	  .sentence = "which files? bpfprof record -o FILE.pb.gz writes one" },
	{ .check = check_files },
	{ "tasks", FLAG_EXCLUDES, "container pod", .sentence = OF_PROFILES },
	{ "nccl", FLAG_EXCLUDES, "container pod", .sentence = OF_PROFILES },
	{ "last", FLAG_EXCLUDES, "at", .sentence = "--last, --at: one of them at a time" },
	{ "for", FLAG_NEEDS, "at", .sentence = "--for: goes with --at" },
	{ "format", FLAG_NEEDS, "output", .sentence = "--format: goes with -o" },
	{ .check = check_by_and_diff },
	{ "diff", FLAG_EXCLUDES, "library lines", .sentence = ONE_AT_A_TIME },
	{ "library", FLAG_EXCLUDES, "lines", .sentence = ONE_AT_A_TIME },
	{ "library lines", FLAG_EXCLUDES, "output by",
	  .sentence = "--library, --lines: go with neither -o nor --by" },
	{ "compare", FLAG_EXCLUDES, "diff library lines output by",
	  .sentence = "--compare: goes with none of --diff, --library, --lines, --by and -o" },
	{ "aggregate-leaf", FLAG_NEEDS, "library",
	  .sentence = "--aggregate-leaf: goes with --library" },
	{ "per", FLAG_NEEDS, "diff", .sentence = "--per: goes with --diff" },
	{ .check = choose_formats },
	{ 0 },
};

static const char report_about[] =
	"Usage: bpfprof report FILE... [FLAG]...\n"
	"       bpfprof report FILE... -o FILE\n"
	"       bpfprof report --diff BEFORE AFTER [-o FILE.html]\n"
	"       bpfprof report --tasks FILE.json...\n"
	"       bpfprof report --nccl FILE...\n"
	"Says what stored profiles hold: which functions took the time, by themselves\n"
	"(tottime) and with what they called (cumtime). Reads .pb.gz, .folded and .raw of\n"
	"bpfprof, and pprof, collapsed stacks and py-spy's raw of other tools; files of\n"
	"several nodes or intervals become one, and so does a folder of bpfprof daemon. Samples "
	"are counted, not calls: there is no\n"
	"ncalls and no percall. With -o all of it becomes one file of any format.\n"
	"--diff compares two, per second and rank, and marks what is more than the chance of\n"
	"sampling.\n"
	"--compare shows which rank, pod or node of a job differs from the others.\n"
	"--tasks reads what bpfprof record -o FILE.json wrote, on one node or several.\n"
	"--nccl reads what bpfprof gpu --once --json has written on several nodes, or in\n"
	"several runs, and says for each NCCL communicator which rank is behind, and where:\n"
	"the one that is in no collective while the others wait in one, else the one with\n"
	"fewer calls, and those that no file has. Then the time per call of each operation\n"
	"and size, the slowest rank or run against the fastest, and devices whose memory is\n"
	"nearly full. Calls are counted from when bpfprof came: watch all nodes at the same\n"
	"time. Of a call that began before, only its place is known.\n";
static const char report_notes[] =
	"Examples:\n"
	"  bpfprof report cpu.pb.gz --sort total --rows 20        a table of functions\n"
	"  bpfprof report node*.pb.gz --by process                who takes the time?\n"
	"  bpfprof report DIR --last 10m --pod ml/trainer-0       what the daemon has seen\n"
	"  bpfprof report DIR --at 02:14 --for 5m -o night.html   at that time of the night\n"
	"  bpfprof report DIR --at 14:03:20 --for 5s              just these seconds\n"
	"  bpfprof report a.pb.gz b.pb.gz -o both.html            one flame graph\n"
	"  bpfprof report py-spy.raw -o x.speedscope.json         another format\n"
	"  bpfprof report --tasks node*.json                      calls of Ray's workers\n"
	"  bpfprof gpu --once --json -d 30 > $(hostname).json     on each node\n"
	"  bpfprof report --nccl node1.json node2.json            who is behind?\n"
	"  bpfprof report --nccl good.json slow.json              two runs\n"
	"  ssh node1 bpfprof gpu --once --json | bpfprof report --nccl -\n";

const struct flag_set report_flags = {
	.flags = rows,
	.rules = rules,
	.size = sizeof(struct report_options),
	.mark = offsetof(struct report_options, of_profiles),
	.operand = "file",
	.twins = "REPORT",
	.about = report_about,
	.notes = report_notes,
};
