// SPDX-License-Identifier: Apache-2.0
#include "cli/report_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "cli/values.h"
#include "profile/gpu_read.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define ROWS_DEFAULT 64
#define ROWS_MAX 100000

enum key { KEY_NCCL = 1, KEY_FILE, KEY_ROWS };

static int reason(struct buf *why, const char *text)
{
	buf_add_str(why, text);
	return -EINVAL;
}

static int take_file(struct report_options *options, const char *value, struct buf *why)
{
	char **files;
	size_t i;

	if (!*value)
		return reason(why, "must name a file");
	if (options->nr_files >= GPU_READ_FILES)
		return reason(why, "at most 1024 files are read");
	for (i = 0; !strcmp(value, "-") && i < options->nr_files; i++)
		if (!strcmp(options->files[i], "-"))
			return reason(why, "standard input is read once");
	files = reallocarray(options->files, options->nr_files + 1, sizeof(*files));
	if (!files)
		return -ENOMEM;
	options->files = files;
	files[options->nr_files] = strdup(value);
	if (!files[options->nr_files])
		return -ENOMEM;
	options->nr_files++;
	return 0;
}

static int take(void *target, int key, const char *value, struct buf *why)
{
	struct report_options *options = target;
	uint64_t rows;

	switch ((enum key)key) {
	case KEY_NCCL:
		options->nccl = true;
		return 0;
	case KEY_FILE:
		return take_file(options, value, why);
	case KEY_ROWS:
		if (value_number(value, ROWS_MAX, &rows))
			return reason(why, "must be a number up to 100000; 0 shows all");
		options->rows = rows;
		return 0;
	default:
		return reason(why, "not understood");
	}
}

static const struct flag flags[] = {
	{ KEY_NCCL, 0, 0, "nccl", NULL, "ranks of communicators side by side", false },
	{ KEY_FILE, 'f', 0, "file", "FILE", "the same as FILE alone; - is standard input", true },
	{ KEY_ROWS, 0, 0, "rows", "N", "of each table, 0 shows all (64)", false },
};

static const struct flag_set set = {
	.flags = flags,
	.nr_flags = ARRAY_SIZE(flags),
	.operand_key = KEY_FILE,
	.take = take,
	.twins = "REPORT",
};

int report_options_parse(struct report_options *options, int argc, char *const argv[],
			 struct buf *error)
{
	struct report_options result = { .rows = ROWS_DEFAULT };
	int err, command;

	err = flags_parse(&set, argc, argv, &result, &command, error);
	if (!err && !result.nccl)
		err = reason(error, "--nccl is missing: bpfprof report --nccl FILE...");
	if (!err && !result.nr_files)
		err = reason(error, "--nccl: which files? bpfprof gpu --once --json writes them");
	if (err) {
		report_options_fini(&result);
		return err == -ECANCELED ? OPTIONS_HELP : err;
	}
	*options = result;
	return OPTIONS_RUN;
}

void report_options_fini(struct report_options *options)
{
	size_t i;

	for (i = 0; i < options->nr_files; i++)
		free(options->files[i]);
	free(options->files);
}

void report_help(struct buf *dst)
{
	buf_add_str(
		dst,
		"Usage: bpfprof report --nccl FILE...\n"
		"Reads what bpfprof gpu --once --json has written on several nodes, or in several\n"
		"runs, and says for each NCCL communicator which rank is behind, and where it is:\n"
		"the one that is in no collective while the others wait in one, else the one with\n"
		"fewer calls, and those that no file has. Then the time per call of each "
		"operation\n"
		"and size, the slowest rank or run against the fastest, and devices whose memory "
		"is\n"
		"nearly full. Calls are counted from when bpfprof came: watch all nodes at the "
		"same\n"
		"time. A call that began before is not seen.\n\n");
	flags_help(dst, &set);
	buf_add_str(dst, "\n"
			 "Examples:\n"
			 "  bpfprof gpu --once --json -d 30 > $(hostname).json     on each node\n"
			 "  bpfprof report --nccl node1.json node2.json            who is behind?\n"
			 "  bpfprof report --nccl good.json slow.json              two runs\n"
			 "  ssh node1 bpfprof gpu --once --json | bpfprof report --nccl -\n");
	buf_add_str(dst, exit_text);
}
