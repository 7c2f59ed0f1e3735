/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_OPTIONS_OPTIONS_H
#define BPFPROF_OPTIONS_OPTIONS_H

/*
 * Room options: parses flags, the environment and the configuration file.
 *
 * What the command line and the environment ask for, parsed and checked. Every
 * flag has a twin in the environment, BPFPROF_<FLAG>; the command line wins.
 * Nothing here prints: a mistake becomes one sentence that names the flag, the
 * value and what would be right. The caller owns the structs; their strings
 * live until the fini call, those of command until argv goes.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "capture/container_filter.h"
#include "capture/sampler.h"
#include "formats/output.h"
#include "profile/grouping.h"
#include "ray/steps.h"

struct buf;

#define RECORD_HZ_DEFAULT 99U
#define RECORD_HZ_MAX 10000U

enum record_event { RECORD_EVENT_CPU_CLOCK, RECORD_EVENT_CYCLES };
enum record_split { RECORD_SPLIT_NODE, RECORD_SPLIT_POD, RECORD_SPLIT_PROCESS };

/* x.pb.gz is of the CPU, x.cuda.pb.gz of the GPU's calls. */
#define RECORD_CALLS_INFIX ".cuda"

struct record_output {
	char *path; /* pattern with % forms, or "-"; never empty */
	enum output_format format; /* never OUTPUT_INVALID */
};

/*
 * Filters add up: a process is recorded if a pid, a comm glob, a worker pattern or the command
 * names it; without any of the four, all are. --pod and --container take away from that what lives
 * elsewhere.
 */
struct record_options {
	pid_t *pids; /* -p, each once; with pods, as these see them */
	size_t nr_pids;
	char **comms; /* --comm, fnmatch(3) patterns */
	size_t nr_comms;
	struct container_filter containers; /* --container, --pod */
	char **workers; /* --worker, patterns of ray/worker_match.h without blanks around them */
	size_t nr_workers;
	struct steps_range steps; /* --steps, with workers; 0, 0: all of the time */
	char **command; /* after "--": borrowed from argv, ends with NULL; or NULL */
	bool no_subprocesses;
	uint32_t hz;
	uint64_t duration_ns; /* 0: until Ctrl-C, or until the command has exited */
	enum sampler_clock clock;
	enum record_event event;
	struct record_output
		*outputs; /* never empty: "bpfprof-%t.html" where nothing was asked for */
	size_t nr_outputs;
	bool trace; /* one of them is a trace */
	uint64_t max_trace_bytes; /* of it */
	bool native; /* .raw: native frames too */
	bool threads;
	bool gil; /* only samples whose thread held Python's GIL */
	bool gpu; /* calls of CUDA and NCCL, too */
	bool tensors; /* with them, and of bpfprof gpu: PyTorch's allocator tells, too, */
	bool gc; /* and Python's garbage collector */
	bool findings; /* say what stands out: unless --no-findings */
	enum session_waits waits; /* --wall, --off-cpu */
	bool parked; /* with them: stacks of threads that have nothing to do, too */
	bool wakers; /* --waker: and who ends waits */
	enum profile_by by;
	enum record_split split;
	char *stats_path; /* or NULL; "-" is standard output */
	char *host_root; /* or NULL; absolute */
	unsigned int verbose; /* times that --verbose was given */
	/* For tests only, from BPFPROF_TEST_RING_BYTES and so on; 0: the defaults. */
	uint32_t test_ring_bytes; /* a power of two, at least a page */
	uint32_t test_row_slots; /* entries of the row arena, a power of two */
	uint32_t test_waiter_places; /* that are free for threads that wait, a power of two */
	uint32_t test_late_names; /* tries at what runs at the start that name nothing, likewise */
};

/*
 * For whoever writes such files, too: -o, --format, --max-trace-bytes: 0 or as flags.h wants it; and,
 * once all are known, the format of each, by its name or, for one that has none, format; traces:
 * .json is one, OUTPUT_TRACE. 0, or -EINVAL with a sentence.
 */
int record_output_take(struct record_options *options, const char *value, struct buf *why);
int record_format_take(enum output_format *format, const char *value, struct buf *why);
int record_trace_bytes_take(struct record_options *options, const char *value, struct buf *why);
int record_formats_choose(struct record_options *options, enum output_format format, bool traces,
			  struct buf *error);
/* From the environment, as above. 0, or -EINVAL with a sentence. */
int record_test_knobs(struct record_options *options, struct buf *error);
/* --tensors and --gc are parts of --gpu. */
int gpu_parts_check(bool gpu, bool tensors, bool gc, struct buf *error);

#define TOP_DELAY_DEFAULT_NS 1000000000ULL
#define TOP_DELAY_MIN_NS 100000000ULL
#define TOP_DELAY_MAX_NS (3600 * 1000000000ULL)

struct top_options {
	struct record_options record; /* what is sampled, and how; no files, no duration */
	uint64_t delay_ns;
	bool once;
};

struct doctor_options {
	pid_t pid; /* 0: none asked for */
	bool json;
	char *host_root;
	unsigned int verbose; /* times that --verbose was given */
};

struct dump_options {
	pid_t *pids; /* -p, each once; with pods, as these see them; none: every Python in those */
	size_t nr_pids;
	struct container_filter containers; /* --container, --pod */
	char **workers; /* --worker, as of record */
	size_t nr_workers;
	bool native, kernel; /* these frames too */
	bool json;
	bool full_filenames;
	unsigned int locals; /* times that --locals was given */
	bool subprocesses;
	char *host_root;
	unsigned int verbose; /* times that --verbose was given */
};

enum options_result {
	OPTIONS_RUN = 0,
	OPTIONS_HELP = 1, /* --help was asked for; the struct holds nothing useful */
};

/*
 * argv[0] is the name of the subcommand. OPTIONS_RUN, OPTIONS_HELP, -EINVAL with a sentence
 * without newline added to error, or -ENOMEM. Needs no fini unless it returns OPTIONS_RUN.
 */
int record_options_parse(struct record_options *options, int argc, char *const argv[],
			 struct buf *error);
void record_options_fini(struct record_options *options);

int top_options_parse(struct top_options *options, int argc, char *const argv[], struct buf *error);
void top_options_fini(struct top_options *options);

int doctor_options_parse(struct doctor_options *options, int argc, char *const argv[],
			 struct buf *error);
void doctor_options_fini(struct doctor_options *options);

int dump_options_parse(struct dump_options *options, int argc, char *const argv[],
		       struct buf *error);
void dump_options_fini(struct dump_options *options);

/* The last lines of every --help: exit statuses. */
extern const char exit_text[];

/* The texts of `bpfprof record --help` and so on. */
void record_help(struct buf *dst);
void top_help(struct buf *dst);
void dump_help(struct buf *dst);
void doctor_help(struct buf *dst);

#endif
