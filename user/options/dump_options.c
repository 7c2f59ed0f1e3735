// SPDX-License-Identifier: Apache-2.0
#include "options/options.h"

#define DUMP_AT(field) FLAG_AT(struct dump_options, field)
#define DUMP_LIST_AT(list) FLAG_LIST_AT(struct dump_options, list, nr_##list)

static const struct flag dump_rows[] = {
	{ "pid", "PID", "dump this process; may be given again", FLAG_PIDS, DUMP_LIST_AT(pids),
	  .letter = 'p', .repeatable = true },
	FLAG_GROUP(pid_start_flags, struct dump_options, pid_start),
	FLAG_GROUP(dump_container_flags, struct dump_options, containers),
	{ "worker", "LIST",
	  "Ray workers whose task, class or name matches one of\n"
	  "the patterns ('*policy*,sort_numbers')",
	  FLAG_PATTERNS, DUMP_LIST_AT(workers) },
	{ "native", NULL, "native frames of Python programs too", FLAG_BOOL, DUMP_AT(native),
	  .letter = 'n' },
	{ "kernel", NULL, "the kernel's frames too", FLAG_BOOL, DUMP_AT(kernel), .letter = 'k' },
	{ "locals", NULL, "arguments and local variables; -ll shows more of them", FLAG_COUNT,
	  DUMP_AT(locals), .letter = 'l', .repeatable = true, .max = 64 },
	{ "full-filenames", NULL, "whole names of Python files", FLAG_BOOL,
	  DUMP_AT(full_filenames) },
	{ "subprocesses", NULL, "its descendants too", FLAG_BOOL, DUMP_AT(subprocesses),
	  .letter = 's' },
	{ "json", NULL, "py-spy's JSON, with more in it", FLAG_BOOL, DUMP_AT(json), .letter = 'j' },
	{ "pod-pids", NULL, "show pids as the processes themselves see them", FLAG_BOOL,
	  DUMP_AT(pod_pids) },
	{ "waits", NULL,
	  "first say whether these processes can go on, and for\n"
	  "which process each of them waits",
	  FLAG_BOOL, DUMP_AT(waits), .letter = 'w' },
	{ "stall", "DURATION",
	  "in a job with ranks, a sleep this long counts as a\n"
	  "wait, if other ranks wait (300s)",
	  FLAG_DURATION, DUMP_AT(stall.after_ns), .initial = STALL_DEFAULT_NS,
	  .refusal = STALL_REFUSAL },
	{ "stall-busy", NULL,
	  "with --waits: report a process whose first thread runs\n"
	  "while no other one can go on",
	  FLAG_BOOL, DUMP_AT(stall.busy) },
	FLAG_GROUP(host_root_flags, struct dump_options, host_root),
	{ "verbose", NULL, "what each thread waits for; -vv libbpf's log too", FLAG_COUNT,
	  DUMP_AT(verbose), .letter = 'v', .repeatable = true, .max = 2 },
	{ .type = FLAG_END },
};

static const struct flag_rule dump_rules[] = {
	PID_START_RULE,
	{ NULL, FLAG_NEEDS, "pid worker container pod",
	  .sentence = "-p, --pod or --worker is missing: which process?" },
	{ "stall stall-busy", FLAG_NEEDS, "waits",
	  .sentence = "--stall, --stall-busy: go with --waits" },
	{ "waits", FLAG_EXCLUDES, "json", .sentence = "--waits is for people: leave --json out" },
	{ 0 },
};

static const char dump_about[] =
	"Usage: bpfprof dump -p PID | --pod [NS/]GLOB [-p PID] | --worker LIST [FLAG]...\n"
	"Says what every thread of a process is doing, sleeping ones too, without stopping\n"
	"it: Python stacks, and with --native the C ones between them. The tasks of asyncio\n"
	"event loops follow. Processes that run no Python get native stacks.\n";
static const char dump_notes[] =
	"With --waits it begins with \"Stalled:\", \"Suspect:\", \"Busy:\" or \"Alive:\".\n"
	"The text and the JSON are those of py-spy dump. Every flag can also be set in the\n"
	"environment: BPFPROF_NATIVE=1; the command line wins.\n"
	"\n"
	"Examples:\n"
	"  bpfprof dump -p 1234                   where does it hang?\n"
	"  bpfprof dump -p 1234 --native --kernel down to the kernel function\n"
	"  bpfprof dump -p 1234 -l                with the values of variables\n"
	"  bpfprof dump -p 1234 -s --waits        can it go on, or is it a deadlock?\n"
	"  bpfprof dump -p 1234 -s --json         all its children too, for a program\n"
	"  bpfprof dump --pod ml/trainer-0        every Python process of a pod\n"
	"  kubectl exec AGENT -- bpfprof dump --pod ml/trainer-0 -p 7 > stacks.txt\n";

const struct flag_set dump_flags = {
	.flags = dump_rows,
	.rules = dump_rules,
	.size = sizeof(struct dump_options),
	.operand = "pid",
	.twins = "DUMP",
	.about = dump_about,
	.notes = dump_notes,
};
