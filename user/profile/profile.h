/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_PROFILE_H
#define BPFPROF_PROFILE_PROFILE_H

/*
 * One finished, symbolized profile, which the writers of formats/ read. Plain arrays refer to each other by
 * index; strings are ids of the strtab of the profile (0 = ""). The maker owns it; writers borrow it and
 * change nothing.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"
#include "proc/ranks.h"
#include "profile/stack_set.h"

struct strtab;
struct profile_history;
struct run_stats;
struct stats_reasons;

enum location_kind {
	LOCATION_INVALID = 0,
	LOCATION_KERNEL = 1,
	LOCATION_NATIVE = 2,
	LOCATION_PYTHON = 3,
	LOCATION_MARKER = 4, /* "[truncated]", "[unmerged]", "[no stack]" */
	LOCATION_CALL = 5, /* a call of CUDA or NCCL, or the GPU kernel that it launches */
};

/* Rows of memory that has no stack: a location of the kind CALL. */
#define MEMORY_BEFORE "[before bpfprof]"
#define MEMORY_SHARED "[shared with parent]"
#define MEMORY_LOST "[stack lost]"
#define MEMORY_SWAPPED "[swapped out]"
#define MEMORY_DRIFT "[drift]"

/* The numbers of the calls that a sample stands for. */
enum profile_call_value {
	PROFILE_CALLS,
	PROFILE_BLOCKED_NS, /* host time inside calls that block */
	PROFILE_MOVED_BYTES,
	PROFILE_ALLOCATED_BYTES,
	PROFILE_INUSE_BYTES, /* the part of the allocated bytes that is not yet freed */
	PROFILE_DEVICE_IDLE_NS, /* the device was idle before this launch */
	PROFILE_HOST_ALLOCATED_BYTES, /* page-locked memory of the host */
	PROFILE_HOST_INUSE_BYTES,
	PROFILE_TENSOR_ALLOCATED_BYTES, /* memory that PyTorch hands out for tensors */
	PROFILE_TENSOR_INUSE_BYTES,
	PROFILE_GC_NS, /* garbage collections of Python */
	PROFILE_COMPLETED, /* collectives known to be complete */
	PROFILE_COMPLETE_NS, /* of these, from the call until completion was seen: an upper bound */
	PROFILE_NR_CALL_VALUES
};

/* Their names in stored profiles. */
extern const struct profile_call_type {
	const char *type, *unit;
} profile_call_types[PROFILE_NR_CALL_VALUES];

struct profile_mapping {
	uint32_t path; /* as the target sees it; or "[kernel.kallsyms]", "[vdso]" */
	uint32_t build_id; /* hex */
	uint64_t start; /* image-relative (or kernel) address of the first byte of code */
	uint64_t limit;
	uint64_t off; /* file offset of start */
	bool has_functions;
};

/* One frame of some stack; equal frames share one location. */
struct profile_location {
	uint8_t kind; /* enum location_kind */
	bool has_symbol; /* false: name is `libfoo.so.1+0x1f00` or `[kernel]` */
	bool has_start; /* without a symbol: name has the start address of the function */
	uint32_t name; /* without `_[k]` and without (file:line): the writers add them */
	uint32_t system_name; /* mangled; Python: name */
	uint32_t file; /* full path of the source; Python: co_filename */
	uint32_t short_file; /* Python only: the short form (python/text.h) */
	uint32_t line; /* Python: the line that runs; 0 = unknown */
	uint32_t start_line;
	uint32_t mapping; /* index + 1, 0 = none */
	uint64_t address; /* image-relative or kernel address (callers minus one) */
	/* Addresses from same_start up to same_end have this name too; both 0: not known. */
	uint64_t same_start, same_end;
};

/* The container of processes; a text that is not known is "". */
struct profile_container {
	uint32_t id; /* in full */
	uint32_t name; /* in its pod */
	uint32_t pod, namespace, image;
	uint32_t ray_cluster, ray_group, ray_node_type;
};

/* The place in a distributed job, from the environment; a text that is not known is "". */
struct profile_ranks {
	union {
		struct {
			uint32_t rank, local_rank, world_size, slurm_job, slurm_node, slurm_task;
		};
		uint32_t texts[RANKS_NR];
	};
};

/* Has it a number in its job? */
static inline bool profile_ranks_number(const struct profile_ranks *ranks)
{
	return ranks->rank || ranks->slurm_task;
}

/* A process, for the time in which it had one name or title. */
struct profile_process {
	uint32_t pid; /* in our own pid namespace, 0: it has none there */
	uint32_t kernel_pid; /* in the outermost pid namespace: identifies the process */
	uint32_t parent; /* its pid; 0 = not known, or not in this profile */
	uint32_t pod_pid; /* in its own pid namespace, 0 = not known */
	uint32_t container; /* index + 1, 0 = none, or not known */
	uint32_t program; /* mapping of its executable: index + 1, 0 = not known */
	uint32_t comm; /* of the first thread */
	uint32_t task; /* Ray title; "" = not a Ray worker */
	uint32_t title; /* PROCESS in collapsed files: task or comm, or a group (grouping.h) */
	struct profile_ranks ranks; /* its own, or else those of its container */
	uint32_t ray_role; /* "" = not in a Ray cluster */
	uint32_t host; /* in a profile of several hosts; "" = that of the profile */
	uint32_t cmdline; /* arguments with blanks between them; "" = not known */
	uint64_t cpu_ns; /* CPU time in the interval by the counters of the kernel, 0 = not known */
	uint32_t nr_threads; /* threads that were sampled */
	int64_t rss_growth_bytes;
	bool rss_known;
	bool asked_for; /* named by -p */
};

enum profile_gil {
	PROFILE_GIL_UNKNOWN = 0, /* not a Python thread, or not available */
	PROFILE_GIL_HELD = 1,
	PROFILE_GIL_NOT_HELD = 2, /* the thread waits for it, or has released it */
};

/* In time that includes waiting. */
enum profile_sleeper {
	PROFILE_NOT_ASLEEP = 0,
	PROFILE_FIRST_SLEEPS = 1, /* the first thread of a process waits, and not for a CPU */
	PROFILE_HELPER_SLEEPS = 2, /* another thread waits, and not for a CPU */
	PROFILE_FIRST_RUNS = 3, /* the first thread is on a CPU */
};

/* The description of a call beside its stack; texts, "" = it has no such part. */
struct profile_call {
	uint32_t function; /* as shown: without version and twin */
	uint32_t kernel; /* of the GPU */
	uint32_t stream;
	uint32_t comm, rank, op; /* NCCL: communicator, our rank in it, operation */
};

/* The time that value_ns of samples counts; not for calls. */
enum profile_time {
	PROFILE_TIME_CPU = 0,
	PROFILE_TIME_OFF_CPU, /* blocked */
	PROFILE_TIME_WALL, /* on a CPU, waiting for one, and blocked */
};

struct profile_sample {
	uint32_t process; /* index */
	uint32_t stack; /* number, 0 = it has no frames */
	uint32_t tid; /* 0 unless threads are kept apart */
	uint32_t thread; /* its name */
	uint32_t gil; /* enum profile_gil */
	uint32_t call; /* index + 1, 0 = an ordinary sample */
	uint64_t count; /* samples; calls */
	uint64_t value_ns; /* time that the samples stand for; blocked time of calls */
	uint32_t sleeper; /* enum profile_sleeper; not stored */
	uint32_t entry; /* index + 1 in the aggregate (seconds.h), 0 = none; not stored */
};

/* The value that a stored profile counts, if not CPU time; texts. */
struct profile_value {
	uint32_t count_type; /* "" = samples */
	uint32_t type, unit; /* of value_ns; "" = cpu, nanoseconds */
	bool only_counts; /* no value_ns: the time that a sample stands for is not known */
};

/* One more count and value of a sample. */
struct profile_beside {
	uint64_t count, value;
};

struct profile {
	struct strtab *strings;
	struct profile_mapping *mappings;
	size_t nr_mappings;
	struct profile_location *locations;
	size_t nr_locations;
	/* Stacks as stack_set.h has them: indexes of locations. */
	uint32_t *stack_locations, *stack_callers;
	size_t nr_stacks;
	struct profile_process *processes;
	size_t nr_processes;
	struct profile_container *containers;
	size_t nr_containers;
	struct profile_sample *samples;
	size_t nr_samples;
	struct profile_call *calls;
	size_t nr_calls;
	/* Per sample, 0 for ordinary ones; NULL: there are no samples of calls. */
	uint64_t (*call_values)[PROFILE_NR_CALL_VALUES];
	uint64_t time_ns; /* start, Unix time */
	uint64_t duration_ns;
	uint32_t hz;
	enum profile_time time;
	bool threads; /* --threads */
	uint32_t host;
	uint32_t target_program; /* mapping of the target: index + 1, 0 = none, or not known */
	struct profile_value value;
	struct profile_history *history; /* NULL: there is none */
	struct profile_beside
		*beside; /* per sample, written before count and value_ns; NULL: none */
	struct profile_value beside_value; /* all three texts */
	const struct run_stats *stats; /* borrowed; may be NULL */
};

static inline const struct profile_location *profile_frame(const struct profile *profile,
							   uint32_t stack)
{
	return &profile->locations[profile->stack_locations[stack]];
}

/*
 * The part of a stack that waits: without the frames of a waker (profile/wakers.h), which stand above it.
 * Other stacks are that part as a whole.
 */
uint32_t profile_wait_part(const struct profile *profile, uint32_t stack);
/* The number of frames of the deepest stack of a sample. */
uint32_t profile_max_depth(const struct profile *profile);
/* Room for `nr` more stacks, besides the empty one, which is there afterwards. 0 or -ENOMEM. */
int profile_stacks_fit(struct profile *profile, size_t nr);
/* The number of a new stack, for which there is room: that of its caller and one more location. */
uint32_t profile_stack_put(struct profile *profile, uint32_t caller, uint32_t location);
/* The root of stacks whose time is that of tasks of asyncio, and not of threads. */
#define PROFILE_TASKS_FRAME "[tasks]"
bool profile_stack_is_of_tasks(const struct profile *profile, uint32_t stack);
/* Does it count calls, and no samples? */
bool profile_counts_calls(const struct profile *profile);
/* "calls" or "samples". */
const char *profile_counted(const struct profile *profile);
/* Is value_ns time, in ns? */
bool profile_is_time(const struct profile *profile);

/*
 * Puts the main program in front of all mappings, where readers of pprof expect it: the one with the most
 * samples among the processes pids if any of them ran, else target_program, else the one with the most
 * samples.
 */
void profile_lead(struct profile *profile, const int *pids, size_t nr_pids);

/* Frees what the arrays and the strtab hold, not the struct itself. */
void profile_fini(struct profile *profile);

/* Makes the arrays of calls even if there is no sample. 0 or -ENOMEM. */
int profile_of_calls(struct profile *profile);
/*
 * The weight of a sample in stacks that are drawn or listed: its count for samples of the clock, else its
 * value, with time in microseconds.
 */
uint64_t profile_weight(const struct profile *profile, size_t sample);

/* The number of frames without a name in all samples: code without symbols, unknown Python code. */
uint64_t profile_nameless(const struct profile *profile);
extern const struct counter profile_counters[];
void profile_count_nameless(const struct profile *profile, struct stats_reasons *walk);

#endif
