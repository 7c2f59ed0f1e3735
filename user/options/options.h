/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_OPTIONS_OPTIONS_H
#define BPFPROF_OPTIONS_OPTIONS_H

/*
 * Room options: parses flags, the environment and the configuration file.
 *
 * The parsed and checked options of record, top, doctor and dump. Every flag has
 * a twin in the environment, BPFPROF_<FLAG>; the command line wins. Nothing here
 * prints: a mistake becomes one sentence with the flag, the value and the right
 * form. The caller owns the structs; their strings live until options_fini(),
 * the words of command as long as argv.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "capture/capture_options.h"
#include "formats/output.h"
#include "options/flags.h"
#include "profile/grouping.h"

struct buf;

#define RECORD_HZ_DEFAULT 99U

enum record_split { RECORD_SPLIT_NODE, RECORD_SPLIT_POD, RECORD_SPLIT_PROCESS };

/* x.pb.gz has the profile of the CPU, x.cuda.pb.gz that of GPU calls. */
#define RECORD_CALLS_INFIX ".cuda"
#define RECORD_MEMORY_INFIX ".memory"

struct record_output {
	char *path; /* pattern with % forms, or "-"; never empty */
	enum output_format format; /* never OUTPUT_INVALID */
};

struct record_options {
	struct capture_options capture;
	char **command; /* after "--": borrowed from argv, ends with NULL; or NULL */
	uint64_t duration_ns; /* 0: until Ctrl-C, or until the command has exited */
	struct record_output *outputs; /* never empty: "bpfprof-%t.html" without -o */
	size_t nr_outputs;
	enum output_format format; /* --format, or OUTPUT_INVALID */
	bool trace; /* one of the outputs is a trace */
	bool html; /* one of the outputs is a flame graph in HTML */
	uint64_t max_trace_bytes; /* the limit of the trace */
	bool native; /* .raw: native frames too */
	bool py_spy; /* files as py-spy writes them, the next three too */
	bool function, no_lines, full_filenames; /* as formats/py_spy.h has them */
	bool pod_pids; /* show pids as their pods see them */
	bool threads; /* keep threads apart */
	bool findings; /* false with --no-findings */
	bool parked; /* with waits: stacks of threads that are idle, too */
	enum profile_by by;
	enum record_split split;
	char *stats_path; /* or NULL; "-" is standard output */
	unsigned int verbose; /* times that --verbose was given */
	/* For tests: searches for names of kernels that find nothing at the start; else 0. */
	uint32_t test_late_names;
};

struct top_options {
	struct capture_options capture;
	uint64_t delay_ns;
	uint64_t duration_ns; /* with batch; 0: until a signal comes */
	bool once, batch; /* without a screen: one table, a table after each delay */
	bool native; /* native frames too */
	bool pod_pids; /* the process of -p has the pid that its pod sees */
	bool parked; /* with waits: stacks of threads that are idle, too */
	unsigned int verbose; /* times that --verbose was given */
};

struct doctor_options {
	pid_t pid; /* 0: none */
	bool json;
	char *host_root;
	unsigned int verbose; /* times that --verbose was given */
};

/* A process that is silent, or sleeps, this long may be stalled. */
#define STALL_DEFAULT_NS (300ULL * 1000000000)
#define STALL_REFUSAL "stall must be a number of seconds, or one like 30s, 5m, 2h"

/* When do processes hang? */
struct stall_options {
	/* dump: the sleep_ns of watch/wait_graph.h. watch, daemon: a process is checked after this silence; 0: none is. */
	uint64_t after_ns;
	bool busy; /* those that stay busy in one place, too */
};

struct dump_options {
	pid_t *pids; /* -p, each once; with pods, as these see them; none: every Python in the pods */
	size_t nr_pids;
	uint64_t pid_start; /* as of capture_options */
	struct container_filter containers; /* --container, --pod */
	char **workers; /* --worker, as of record */
	size_t nr_workers;
	bool native, kernel; /* show these frames, too */
	bool json;
	bool full_filenames;
	unsigned int locals; /* times that --locals was given */
	bool subprocesses;
	bool pod_pids; /* show pids as their pods see them */
	bool waits; /* can the processes go on? */
	struct stall_options stall; /* with waits */
	char *host_root;
	unsigned int verbose; /* times that --verbose was given */
};

extern const struct flag_set record_flags, top_flags, doctor_flags, dump_flags, clock_flag_set;

/* Rows that commands share, of a capture_options. */
extern const struct flag rate_flags[], clock_flags[];
/* Rows that commands share, of a container_filter, of a char *, of an unsigned int. */
extern const struct flag container_flags[], dump_container_flags[], host_root_flags[];
extern const struct flag pid_start_flags[]; /* of a uint64_t */
#define PID_START_RULE                                                                             \
	{                                                                                          \
		"pid-start", FLAG_NEEDS, "pid", .sentence = "--pid-start: is of the process of -p" \
	}
extern const struct flag start_flags[]; /* of a capture_options */

/* Rules for the parts of --gpu, in the table of a command that has that flag. */
#define GPU_PART_RULES                                                                             \
	{ "tensors", FLAG_NEEDS, "gpu",                                                            \
	  .sentence = "--tensors: counts memory of the GPU, add --gpu" },                          \
	{                                                                                          \
		"gc", FLAG_NEEDS, "gpu",                                                           \
			.sentence = "--gc: counts collections between launches, add --gpu"         \
	}

/*
 * For rows and rules of commands that fill a record_options: --steps, --stats, the program to run, files that
 * are named twice, and the fields for tests.
 */
int record_take_steps(void *object, const char *value, struct buf *why);
int record_take_stats(void *object, const char *value, struct buf *why);
int record_check_command(void *object, struct buf *error);
int record_check_files(void *object, struct buf *error);
int record_take_test_knobs(void *object, struct buf *error);

#endif
