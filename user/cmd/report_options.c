// SPDX-License-Identifier: Apache-2.0
#include "cmd/report_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/vec.h"
#include "formats/profile_read.h"
#include "gpu/report_read.h"
#include "options/flags.h"
#include "options/options.h"
#include "options/values.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define ROWS_DEFAULT 64
#define ROWS_MAX 100000

enum key {
	KEY_NCCL = 1,
	KEY_TASKS,
	KEY_FILE,
	KEY_ROWS,
	KEY_OUTPUT,
	KEY_FORMAT,
	KEY_BY,
	KEY_SORT,
	KEY_SAMPLE_TYPE,
	KEY_NATIVE,
	KEY_THREADS,
	KEY_DIFF,
	KEY_PER,
	KEY_LIBRARY,
	KEY_AGGREGATE_LEAF,
	KEY_LINES,
};

/* Parsing in progress: outputs get their formats once all flags are known. */
struct parse {
	struct report_options options;
	enum output_format format; /* --format, or OUTPUT_INVALID */
	bool has_per;
	const char *profiles_only; /* a flag that --nccl and --tasks do not go with, or NULL */
};

static int reason(struct buf *why, const char *text)
{
	buf_add_str(why, text);
	return -EINVAL;
}

static int take_file(struct report_options *options, const char *value, struct buf *why)
{
	size_t i;

	if (!*value)
		return reason(why, "must name a file");
	if (options->nr_files >= PROFILE_READ_FILES)
		return reason(why, "at most 16384 files are read");
	for (i = 0; !strcmp(value, "-") && i < options->nr_files; i++)
		if (!strcmp(options->files[i], "-"))
			return reason(why, "standard input is read once");
	if (!vec_fit(options->files, options->nr_files + 1))
		return -ENOMEM;
	options->files[options->nr_files] = strdup(value);
	if (!options->files[options->nr_files])
		return -ENOMEM;
	options->nr_files++;
	return 0;
}

static int take_rows(struct report_options *options, const char *value, struct buf *why)
{
	uint64_t rows;

	if (value_number(value, ROWS_MAX, &rows))
		return reason(why, "must be a number up to 100000; 0 shows all");
	options->rows = rows;
	return 0;
}

static int take_by(struct report_options *options, const char *value, struct buf *why)
{
	static const char *const names[] = { "function", "line", "library", "process",
					     "rank",	 "task", "pod",	    "thread" };
	int choice = value_choice(value, names, ARRAY_SIZE(names));

	if (choice < 0)
		return reason(why, "must be function, line, library, process, rank, task, pod or "
				   "thread");
	options->by = (enum tally_by)choice;
	return 0;
}

static int take_sort(struct report_options *options, const char *value, struct buf *why)
{
	static const char *const names[] = { "own", "total" };
	int choice = value_choice(value, names, ARRAY_SIZE(names));

	if (choice < 0)
		return reason(why, "must be own or total");
	options->by_total = choice;
	return 0;
}

static int take_per(struct parse *parse, const char *value, struct buf *why)
{
	static const char *const names[] = { "auto", "second", "rank", "process", "share" };
	int choice = value_choice(value, names, ARRAY_SIZE(names));

	if (choice < 0)
		return reason(why, "must be second, rank, process or share");
	parse->options.per = (enum diff_per)choice;
	parse->has_per = true;
	return 0;
}

static int take_format(struct parse *parse, const char *value, struct buf *why)
{
	parse->format = output_format_by_name(value);
	return parse->format != OUTPUT_INVALID
		       ? 0
		       : reason(why, "must be pprof, folded, html, svg, speedscope or raw");
}

/* What profiles alone have. */
static int take_of_profiles(struct parse *parse, int key, const char *value, struct buf *why)
{
	struct report_options *options = &parse->options;

	switch ((enum key)key) {
	case KEY_OUTPUT:
		parse->profiles_only = "-o";
		return record_output_take(&options->record, value, why);
	case KEY_FORMAT:
		parse->profiles_only = "--format";
		return take_format(parse, value, why);
	case KEY_BY:
		parse->profiles_only = "--by";
		return take_by(options, value, why);
	case KEY_SORT:
		parse->profiles_only = "--sort";
		return take_sort(options, value, why);
	case KEY_SAMPLE_TYPE:
		parse->profiles_only = "--sample-type";
		return *value ? value_string(&options->sample_type, value)
			      : reason(why, "must name a type");
	case KEY_NATIVE:
		parse->profiles_only = "--native";
		options->record.native = true;
		return 0;
	case KEY_DIFF:
		parse->profiles_only = "--diff";
		options->diff = true;
		return 0;
	case KEY_LIBRARY:
		parse->profiles_only = "--library";
		return *value ? value_string(&options->library, value)
			      : reason(why, "must name a library");
	case KEY_AGGREGATE_LEAF:
		parse->profiles_only = "--aggregate-leaf";
		options->aggregate_leaf = true;
		return 0;
	case KEY_LINES:
		parse->profiles_only = "--lines";
		return *value ? value_string(&options->lines, value)
			      : reason(why, "must name a source file");
	case KEY_PER:
		parse->profiles_only = "--per";
		return take_per(parse, value, why);
	case KEY_THREADS:
		parse->profiles_only = "--threads";
		options->record.threads = true;
		return 0;
	default:
		return reason(why, "not understood");
	}
}

static int take(void *target, int key, const char *value, struct buf *why)
{
	struct parse *parse = target;
	struct report_options *options = &parse->options;

	switch ((enum key)key) {
	case KEY_NCCL:
		options->nccl = true;
		return 0;
	case KEY_TASKS:
		options->tasks = true;
		return 0;
	case KEY_FILE:
		return take_file(options, value, why);
	case KEY_ROWS:
		return take_rows(options, value, why);
	default:
		return take_of_profiles(parse, key, value, why);
	}
}

static const struct flag flags[] = {
	{ KEY_FILE, 'f', 0, "file", "FILE", "the same as FILE alone; - is standard input", true },
	{ KEY_OUTPUT, 'o', 0, "output", "FILE",
	  "write all files as one instead of a table; the suffix\nsays how: .pb.gz, .folded, "
	  ".html, .svg,\n.speedscope.json or .raw",
	  true },
	{ KEY_FORMAT, 0, 0, "format", "FORMAT",
	  "pprof, folded, html, svg, speedscope or raw, where the\nname does not say it (-o -)",
	  false },
	{ KEY_BY, 0, 0, "by", "WHAT",
	  "rows are function, line, library, process, rank, task,\npod or thread (function); with "
	  "-o, what the first frame\ntells apart, as record has it",
	  false },
	{ KEY_SORT, 0, 0, "sort", "KEY", "by own or total time (own)", false },
	{ KEY_ROWS, 0, 0, "rows", "N", "of each table, 0 shows all (64)", false },
	{ KEY_SAMPLE_TYPE, 0, 0, "sample-type", "TYPE",
	  "of a pprof that has several (its default one)", false },
	{ KEY_NATIVE, 0, 0, "native", NULL, "native frames in .raw files, too", false },
	{ KEY_THREADS, 0, 0, "threads", NULL, "keep threads apart in written files", false },
	{ KEY_DIFF, 0, 0, "diff", NULL,
	  "what grew and shrank from the first FILE to the second;\nwith -o a flame graph in red "
	  "and blue (.html, .svg)",
	  false },
	{ KEY_PER, 0, 0, "per", "WHAT",
	  "compare per second, rank (and second), process (and\nsecond), or share of all (rank if "
	  "both files have such,\nelse second; share if they do not say how long they took)",
	  false },
	{ KEY_LIBRARY, 0, 0, "library", "NAME",
	  "innermost functions of each stack, and the innermost\none whose path has NAME, as "
	  "itwinai's\ngenerate-py-spy-report has them",
	  false },
	{ KEY_AGGREGATE_LEAF, 0, 0, "aggregate-leaf", NULL,
	  "with --library: equal ones of different stacks are one", false },
	{ KEY_LINES, 0, 0, "lines", "FILE", "this source file with the samples of each line",
	  false },
	{ KEY_TASKS, 0, 0, "tasks", NULL,
	  "Ray's tasks and actor calls by name: how many, how long,\nCPU; of timelines (.json). Of "
	  "profiles: CPU only",
	  false },
	{ KEY_NCCL, 0, 0, "nccl", NULL,
	  "ranks of communicators side by side, from files of gpu\n--once --json", false },
};

static const struct flag_set set = {
	.flags = flags,
	.nr_flags = ARRAY_SIZE(flags),
	.operand_key = KEY_FILE,
	.take = take,
	.twins = "REPORT",
};

/* A timeline by its name: standard input is taken for one. */
static bool is_timeline(const char *file)
{
	return !strcmp(file, "-") || output_has_suffix(file, ".json");
}

static int check_tasks(struct parse *parse, struct buf *error)
{
	struct report_options *options = &parse->options;
	size_t i, nr = 0;

	if (parse->profiles_only) {
		buf_printf(error, "%s: does not go with --tasks", parse->profiles_only);
		return -EINVAL;
	}
	if (options->nccl)
		return reason(error, "--tasks, --nccl: one of them at a time");
	if (!options->nr_files)
		return reason(error,
			      "--tasks: which files? bpfprof record -o FILE.json writes one");
	for (i = 0; i < options->nr_files; i++)
		nr += is_timeline(options->files[i]);
	if (nr && nr < options->nr_files)
		return reason(error, "--tasks: timelines (.json) or profiles, not both: a timeline "
				     "has the CPU time, too");
	options->timelines = nr > 0;
	return 0;
}

static int check(struct parse *parse, struct buf *error)
{
	struct report_options *options = &parse->options;
	size_t i;
	int err;

	if (options->tasks)
		return check_tasks(parse, error);
	if (options->nccl && parse->profiles_only) {
		buf_printf(error, "%s: does not go with --nccl", parse->profiles_only);
		return -EINVAL;
	}
	if (options->nccl && options->nr_files > GPU_READ_FILES)
		return reason(error, "--nccl: at most 1024 files are read");
	if (options->nccl && !options->nr_files)
		return reason(error, "--nccl: which files? bpfprof gpu --once --json writes them");
	if (!options->nr_files)
		return reason(error, "which files? bpfprof record -o FILE.pb.gz writes one");
	if (parse->format != OUTPUT_INVALID && !options->record.nr_outputs)
		return reason(error, "--format: goes with -o");
	if (options->record.nr_outputs && options->by != TALLY_FUNCTION &&
	    (!tally_is_of_groups(options->by) || options->by == TALLY_THREAD))
		return reason(error, "--by: with -o it must be process, rank, task or pod");
	if (options->diff && options->nr_files != 2)
		return reason(error, "--diff: compares two files, first the one from before");
	if (options->diff + (options->library != NULL) + (options->lines != NULL) > 1)
		return reason(error, "--diff, --library, --lines: one of them at a time");
	if ((options->library || options->lines) &&
	    (options->record.nr_outputs || options->by != TALLY_FUNCTION))
		return reason(error, "--library, --lines: go with neither -o nor --by");
	if (options->aggregate_leaf && !options->library)
		return reason(error, "--aggregate-leaf: goes with --library");
	if (parse->has_per && !options->diff)
		return reason(error, "--per: goes with --diff");
	err = record_formats_choose(&options->record, parse->format, false, error);
	for (i = 0; i < options->record.nr_outputs && options->diff && !err; i++)
		if (options->record.outputs[i].format != OUTPUT_HTML &&
		    options->record.outputs[i].format != OUTPUT_SVG)
			err = reason(error, "--diff: with -o it writes .html and .svg only");
	return err;
}

int report_options_parse(struct report_options *options, int argc, char *const argv[],
			 struct buf *error)
{
	struct parse parse = { .options = { .rows = ROWS_DEFAULT } };
	int err, command;

	err = flags_parse(&set, argc, argv, &parse, &command, error);
	if (!err)
		err = check(&parse, error);
	if (err) {
		report_options_fini(&parse.options);
		return err == -ECANCELED ? OPTIONS_HELP : err;
	}
	*options = parse.options;
	return OPTIONS_RUN;
}

void report_options_fini(struct report_options *options)
{
	size_t i;

	for (i = 0; i < options->nr_files; i++)
		free(options->files[i]);
	free(options->files);
	free(options->sample_type);
	free(options->library);
	free(options->lines);
	record_options_fini(&options->record);
}

void report_help(struct buf *dst)
{
	buf_add_str(
		dst,
		"Usage: bpfprof report FILE... [FLAG]...\n"
		"       bpfprof report FILE... -o FILE\n"
		"       bpfprof report --diff BEFORE AFTER [-o FILE.html]\n"
		"       bpfprof report --tasks FILE.json...\n"
		"       bpfprof report --nccl FILE...\n"
		"Says what stored profiles hold: which functions took the time, by themselves\n"
		"(tottime) and with what they called (cumtime). Reads .pb.gz, .folded and .raw of\n"
		"bpfprof, and pprof, collapsed stacks and py-spy's raw of other tools; files of\n"
		"several nodes or intervals become one. Samples are counted, not calls: there is "
		"no\n"
		"ncalls and no percall. With -o all of it becomes one file of any format.\n"
		"--diff compares two, per second and rank, and marks what is more than the chance "
		"of\nsampling.\n"
		"--tasks reads what bpfprof record -o FILE.json wrote, on one node or several.\n"
		"--nccl reads what bpfprof gpu --once --json has written on several nodes, or in\n"
		"several runs, and says for each NCCL communicator which rank is behind, and "
		"where:\n"
		"the one that is in no collective while the others wait in one, else the one with\n"
		"fewer calls, and those that no file has. Then the time per call of each "
		"operation\n"
		"and size, the slowest rank or run against the fastest, and devices whose memory "
		"is\n"
		"nearly full. Calls are counted from when bpfprof came: watch all nodes at the "
		"same\n"
		"time. Of a call that began before only where it is is known.\n\n");
	flags_help(dst, &set);
	buf_add_str(
		dst,
		"\n"
		"Examples:\n"
		"  bpfprof report cpu.pb.gz --sort total --rows 20        a table of functions\n"
		"  bpfprof report node*.pb.gz --by process                who takes the time?\n"
		"  bpfprof report a.pb.gz b.pb.gz -o both.html            one flame graph\n"
		"  bpfprof report py-spy.raw -o x.speedscope.json         another format\n"
		"  bpfprof report --tasks node*.json                      calls of Ray's workers\n"
		"  bpfprof gpu --once --json -d 30 > $(hostname).json     on each node\n"
		"  bpfprof report --nccl node1.json node2.json            who is behind?\n"
		"  bpfprof report --nccl good.json slow.json              two runs\n"
		"  ssh node1 bpfprof gpu --once --json | bpfprof report --nccl -\n");
	buf_add_str(dst, exit_text);
}
