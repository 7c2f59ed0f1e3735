// SPDX-License-Identifier: Apache-2.0
#include "options/watch_options.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/duration.h"
#include "options/values.h"

#define AT(field) FLAG_AT(struct watch_options, field)
#define STALL_AT(field) FLAG_AT(struct stall_options, field)
#define CAPTURE_AT(list) FLAG_LIST_AT(struct watch_options, capture.list, capture.nr_##list)

static int take_stall(void *object, const char *value, struct buf *why)
{
	uint64_t *ns = object;

	(void)why;
	*ns = 0;
	return strcmp(value, "0") != 0 && duration_parse(value, ns) ? -EINVAL : 0;
}

const struct flag stall_flags[] = {
	{ "stall", "DURATION",
	  "stalls of watched processes that have been silent this\n"
	  "long (300s), too: folders stall-...; 0 for none",
	  FLAG_DURATION, STALL_AT(after_ns), .initial = STALL_DEFAULT_NS, .refusal = STALL_REFUSAL,
	  .take = take_stall },
	{ "stall-busy", NULL,
	  "count as stalls, too, silent processes that stay busy\n"
	  "in one place",
	  FLAG_BOOL, STALL_AT(busy) },
	{ .type = FLAG_END },
};

static const struct flag rows[] = {
	{ "pid", "PID", "watch this process and its children", FLAG_PIDS, CAPTURE_AT(pids),
	  .letter = 'p', .repeatable = true },
	FLAG_GROUP(pid_start_flags, struct watch_options, capture.pid_start),
	{ "comm", "GLOB", "watch processes with this name ('python*')", FLAG_LIST,
	  CAPTURE_AT(comms), .repeatable = true,
	  .refusal = "must be a process name or a pattern like 'python*'" },
	FLAG_GROUP(container_flags, struct watch_options, capture.containers),
	{ "worker", "LIST",
	  "watch Ray workers whose task, class or name matches\n"
	  "one of the patterns ('*policy*,sort_numbers')",
	  FLAG_PATTERNS, CAPTURE_AT(workers) },
	{ "no-subprocesses", NULL, "leave children of -p out", FLAG_BOOL,
	  AT(capture.no_subprocesses) },
	{ "duration", "DURATION", "30, 30s, 1.5, 5m, 2h (until Ctrl-C, or until\nall have ended)",
	  FLAG_DURATION, AT(duration_ns), .letter = 'd',
	  .refusal = "duration must be a number of seconds, or one like 30s, 5m, 2h" },
	FLAG_GROUP(stall_flags, struct watch_options, stall),
	{ "output", "DIR", "write the folders death-... and stall-... into this\nfolder (.)",
	  FLAG_TEXT, AT(output), .letter = 'o', .refusal = "must be a folder" },
	FLAG_GROUP(host_root_flags, struct watch_options, capture.host_root),
	{ "verbose", NULL, "say more; -vv libbpf's log too", FLAG_COUNT, AT(verbose), .letter = 'v',
	  .repeatable = true, .max = 2 },
	{ .type = FLAG_END },
};

static int check_target(void *object, struct buf *error)
{
	const struct watch_options *options = object;
	const struct capture_options *capture = &options->capture;

	if (capture->nr_pids || capture->nr_comms || capture->nr_workers ||
	    container_filter_is_set(&capture->containers))
		return 0;
	return value_refuse(error, "which processes? -p, --comm, --worker, --container or --pod");
}

static const struct flag_rule rules[] = {
	PID_START_RULE,
	{ .check = check_target },
	{ 0 },
};

static const char watch_about[] =
	"Usage: bpfprof watch -p PID|--comm GLOB|--worker LIST|--pod [NS/]GLOB [FLAG]...\n"
	"Says why processes die: by which signal or exit code, in which function and\n"
	"line, and which process ended them. It prints a sentence for each death and writes\n"
	"death-<UTC>-<who>-<pid>/summary.txt with the stack at that moment, walked in the\n"
	"kernel: no core file is needed, and the process is not touched. A planned end is\n"
	"not a death: exit code 0, an end by the parent, the end of a pod.\n";
static const char watch_notes[] =
	"Examples:\n"
	"  bpfprof watch -p 1234                       a job and all of its children\n"
	"  bpfprof watch --pod 'ml/trainer-*' -o out   each process of some pods\n"
	"  bpfprof watch --worker 'Trainer*'           Ray workers of a class\n";

const struct flag_set watch_flags = {
	.flags = rows,
	.rules = rules,
	.size = sizeof(struct watch_options),
	.no_operand = "no such argument; a process id goes after -p",
	.twins = "WATCH",
	.about = watch_about,
	.notes = watch_notes,
};
