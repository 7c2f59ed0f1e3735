// SPDX-License-Identifier: Apache-2.0
#include "options/memory_options.h"

#include <string.h>

#include "base/buf.h"
#include "base/text.h"
#include "base/time.h"
#include "options/outputs.h"
#include "options/values.h"

#define AT(field) FLAG_AT(struct memory_options, field)
#define ONCE_NS (5 * NS_PER_SECOND)
#define ONE_ANSWER "choose one of --held, --grown, --peak and --leaks"

/* The rows of struct record_options apply to this struct, too. */
_Static_assert(offsetof(struct memory_options, record) == 0, "record is not the first member");

static const struct flag rows[] = {
	{ "pid", "PID", "memory of this process and its children", FLAG_PIDS,
	  FLAG_LIST_AT(struct memory_options, record.capture.pids, record.capture.nr_pids),
	  .letter = 'p', .repeatable = true },
	FLAG_GROUP(pid_start_flags, struct memory_options, record.capture.pid_start),
	{ "comm", "GLOB", "memory of processes with this name ('python*')", FLAG_LIST,
	  FLAG_LIST_AT(struct memory_options, record.capture.comms, record.capture.nr_comms),
	  .repeatable = true, .refusal = "must be a process name or a pattern like 'python*'" },
	FLAG_GROUP(container_flags, struct memory_options, record.capture.containers),
	{ "worker", "LIST",
	  "memory of Ray workers whose task, class or name matches\n"
	  "one of the patterns ('*policy*,sort_numbers')",
	  FLAG_PATTERNS,
	  FLAG_LIST_AT(struct memory_options, record.capture.workers, record.capture.nr_workers) },
	{ "no-subprocesses", NULL, "leave children of -p and CMD out", FLAG_BOOL,
	  AT(record.capture.no_subprocesses) },
	{ "duration", "DURATION", "30, 30s, 1.5, 5m, 2h (until Ctrl-C, or until\nCMD exits)",
	  FLAG_DURATION, AT(record.duration_ns), .letter = 'd',
	  .refusal = "duration must be a number of seconds, or one like 30s, 5m, 2h" },
	FLAG_GROUP(start_flags, struct memory_options, record.capture),
	{ "once", NULL, "watch for 5 s, or as -d says, print the table, exit", FLAG_BOOL,
	  AT(once) },
	{ "sample", "BYTES",
	  "one stack per so many bytes, 4K to 1G (512K); more when\nthe processes hold much",
	  FLAG_BYTES, AT(sample_bytes), .min = 4ULL << 10, .max = 1ULL << 30,
	  .initial = MEMORY_SAMPLE_BYTES,
	  .refusal = "must be a number of bytes from 4K to 1G, like 512K" },
	{ "allocations", NULL,
	  "every block of malloc and its kin, from the start on,\nuntil it is freed, in the "
	  "processes of -p and CMD",
	  FLAG_BOOL, AT(allocations) },
	{ "max-slowdown", "PERCENT",
	  "of --allocations: when calls cost a process more, watch\nit in windows (10%); 0 sets "
	  "no limit",
	  FLAG_PERCENT, AT(max_slowdown), .max = 1000, .initial = 10,
	  .refusal = "must be a percentage up to 1000%, like 10%; 0 sets no limit" },
	{ "held", NULL, "what is resident at the end (this is the default)", FLAG_BOOL, AT(held) },
	{ "grown", NULL, "only what was not resident at the start", FLAG_SET, AT(question),
	  .min = MEMORY_GROWN, .refusal = ONE_ANSWER },
	{ "peak", NULL, "what was resident at the moment when it was the most", FLAG_SET,
	  AT(question), .min = MEMORY_PEAK, .refusal = ONE_ANSWER },
	{ "leaks", NULL,
	  "only what is held for at least half of the time, by\nstacks whose memory never fell by "
	  "more than a tenth",
	  FLAG_SET, AT(question), .min = MEMORY_LEAKS, .refusal = ONE_ANSWER },
	{ "output", "FILE",
	  "write the stacks, too, by bytes; the suffix says how:\n" OUTPUT_SUFFIXES, OUTPUTS_ROW },
	{ "format", "FORMAT", OUTPUT_NAMES ",\nwhere the name does not say it (-o -)",
	  OUTPUTS_FORMAT_ROW },
	{ "stats", "FILE", "write what was counted and lost as JSON", FLAG_TEXT,
	  AT(record.stats_path), .take = record_take_stats },
	{ "rows", "N", "of each process, 0 shows all (20)", FLAG_NUMBER, AT(rows), .max = 100000,
	  .initial = 20, .refusal = "must be a number up to 100000; 0 shows all" },
	FLAG_GROUP(host_root_flags, struct memory_options, record.capture.host_root),
	{ "verbose", NULL, "say more; -vv libbpf's log too", FLAG_COUNT, AT(record.verbose),
	  .letter = 'v', .repeatable = true, .max = 2 },
	{ .type = FLAG_END },
};

static int choose_formats(void *object, struct buf *error)
{
	struct memory_options *options = object;
	int err;

	if (options->record.format == OUTPUT_TRACE)
		return value_refuse(error,
				    "--format trace: memory has no calls that begin and end");
	if (options->allocations && !options->record.capture.nr_pids && !options->record.command)
		return value_refuse(error, "--allocations: needs -p or a program to run after --");
	if (options->once && !options->record.duration_ns)
		options->record.duration_ns = ONCE_NS;
	err = outputs_choose_formats(&options->record, 0, error);
	options->timeline = options->record.html && !options->allocations;
	return err;
}

static const struct flag_rule rules[] = {
	PID_START_RULE,
	{ "held", FLAG_EXCLUDES, "grown peak leaks", .sentence = ONE_ANSWER },
	{ "max-slowdown", FLAG_NEEDS, "allocations",
	  .sentence = "--max-slowdown: goes with --allocations" },
	{ "format", FLAG_NEEDS, "output", .sentence = "--format: goes with -o" },
	{ .check = choose_formats },
	{ .check = record_check_command },
	{ .check = record_check_files },
	{ .check = record_take_test_knobs },
	{ 0 },
};

static const char memory_about[] =
	"Usage: bpfprof memory [FLAG]... [-- CMD ARGS...]\n"
	"Shows which functions hold the resident memory of processes that run already, by\n"
	"Python and native stack, whatever allocates it: the C library, another allocator,\n"
	"Python, NumPy, mmap. A stack is the one that touched the page first. Memory from\n"
	"before the start is one row, [before bpfprof]; what does not add up is another,\n"
	"[drift]. Without -p, --comm, --worker, --pod and CMD all processes of the\n"
	"machine are watched. On a terminal, without -d, --once, -o, --stats,\n"
	"--allocations and CMD, a live screen shows it, and when the limit of the cgroup\n"
	"is reached at this slope.\n";
static const char memory_notes[] =
	"Examples:\n"
	"  bpfprof memory -p 1234                      live: what holds it, and how it changes\n"
	"  bpfprof memory -p 1234 -d 60                what a worker has come to hold in a minute\n"
	"  bpfprof memory -p 1234 -o x.html            a flame graph by bytes, with a time line\n"
	"  bpfprof memory -d 30 -o x.pb.gz -- ./prog   for go tool pprof -inuse_space\n"
	"  bpfprof memory -p 1234 --sample 32K         more stacks: for less than some 100 MiB\n";
static const char memory_statuses[] =
	"With CMD: CMD's own status once it runs, 128 + the signal if it was killed; 127 if\n"
	"CMD is not found, 126 if it cannot be run.\n";

const struct flag_set memory_flags = {
	.flags = rows,
	.rules = rules,
	.size = sizeof(struct memory_options),
	.command = offsetof(struct memory_options, record.command),
	.no_operand = "no such argument; a process id goes after -p, a program to run after --",
	.twins = "MEMORY",
	.about = memory_about,
	.notes = memory_notes,
	.statuses = memory_statuses,
};
