/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_MONITOR_H
#define BPFPROF_GPU_MONITOR_H

/*
 * Room gpu: counts GPU calls by stack, reports them, and compares the ranks of NCCL jobs.
 *
 * Hooks calls of CUDA and NCCL beside a sampler that has the option gpu: the probes, the counts
 * of the kernel and the stacks that came. The loop of the sampler calls gpu_monitor_run(). Failures
 * are logged; statuses are those of base/exit_status.h.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"
#include "gpu_calls.h"
#include "gpu/call_table.h"
#include "profile/profile.h"
#include "profile/stats.h"

struct aggregate;
struct gpu_probes;
struct gpu_waits;
struct kernel_names;
struct sampler;

/* A call that has not returned. */
struct gpu_open_call {
	uint32_t tid;
	char thread[BPFPROF_COMM_LEN + 1];
	struct bpfprof_gpu_open open;
	uint32_t groups, grouped; /* of the thread: as in struct bpfprof_gpu_thread */
};

struct gpu_comm_entry {
	struct bpfprof_gpu_comm_key key;
	struct bpfprof_gpu_comm comm;
};

struct gpu_memory_entry {
	struct bpfprof_gpu_process_key key;
	struct bpfprof_gpu_memory memory;
};

/* The content of the kernel's maps at one time, each array sorted by process. */
struct gpu_snapshot {
	struct call_table_count *counts;
	size_t nr_counts, cap_counts;
	struct gpu_open_call *open; /* the outermost call of each thread */
	size_t nr_open, cap_open;
	struct gpu_open_call
		*waiting; /* all that block; one may be in another: the driver's, in NCCL's */
	size_t nr_waiting, cap_waiting;
	struct gpu_comm_entry *comms;
	size_t nr_comms, cap_comms;
	struct gpu_memory_entry *memory;
	size_t nr_memory, cap_memory;
	uint64_t counters[GPU_NR_COUNTERS];
	uint64_t ts_ns;
	bool no_memory; /* some elements are missing */
	const struct gpu_monitor *only; /* if not NULL, counts has only those that it wants */
};

/* All zero before gpu_monitor_open(); counts, choose, ended and arg may be set after it. */
struct gpu_monitor {
	struct sampler *sampler; /* borrowed */
	struct aggregate *aggregate;
	struct call_table *table;
	struct gpu_probes *probes;
	struct kernel_names *names;
	struct gpu_waits *waits; /* NULL unless the sampler has gpu_waits */
	uint64_t nr_table_full; /* of earlier aggregates */
	size_t nr_reported; /* libraries */
	uint64_t other_map_bytes; /* for stats: the most bytes of maps beside the sampler's */
	bool chosen; /* a process counts once the sampler has passed a stack of it */
	/* NULL: calls and gaps of every process count. */
	bool (*counts)(void *arg, const struct aggregate_input *input);
	/*
	 * NULL is fine. choose() drops counts from a snapshot; ended() is for a process that made
	 * calls.
	 */
	void (*choose)(void *arg, struct gpu_snapshot *snapshot);
	void (*ended)(void *arg, const struct bpfprof_task_id *task);
	void *arg;
	uint64_t tick_ns;
};

/* Can calls be hooked here? Logs why not. Called before there are threads. */
int gpu_monitor_check(void);
bool gpu_monitor_may_hook(void); /* does the kernel allow hooks of functions at all? */
/* Observes an open sampler, which is borrowed. threads, bytes: as for aggregate_new(). */
int gpu_monitor_open(struct gpu_monitor *watch, struct sampler *sampler, bool threads,
		     size_t bytes);
/* Called before the sampler is closed. */
void gpu_monitor_close(struct gpu_monitor *watch);

/*
 * Passes what the kernel has counted of a process's idle device to the waits and the table of arg,
 * a gpu_monitor, unless the process does not count.
 */
void gpu_monitor_device_idle(void *arg, const struct bpfprof_gpu_waits *process);

/* Hooks all libraries that are mapped now. Called when the sampler has started. */
void gpu_monitor_start(struct gpu_monitor *watch);
/* Hooks new libraries and forgets idle threads. True: there is more to do at once. */
bool gpu_monitor_run(struct gpu_monitor *watch, uint64_t now_ns);
/*
 * For a program without an end: finds processes that have ended without an event, because it was
 * lost, or came before their first call was known.
 */
void gpu_monitor_find_ended(struct gpu_monitor *watch, const struct gpu_snapshot *snapshot);
/* Deletes the entries of ended processes in the kernel, and their counts in the snapshot. */
void gpu_monitor_forget_ended(struct gpu_monitor *watch, struct gpu_snapshot *snapshot);
/* As call_table_next(). The last aggregate is then the caller's. */
void gpu_monitor_next(struct gpu_monitor *watch, struct aggregate *next, size_t max_bytes);
/* Logs how many libraries are hooked, and those that are not. */
void gpu_monitor_log(struct gpu_monitor *watch);
/* Logs the new libraries, since the last time, that are not hooked. */
void gpu_monitor_log_new(struct gpu_monitor *watch);

extern const struct counter gpu_monitor_counters[];
/*
 * Adds the counters of losses, without those of the sampler. counters: of a snapshot; unknown:
 * launches of kernels without a name, of call_table_nr_unknown().
 */
void gpu_monitor_lost(const struct gpu_monitor *watch, const uint64_t counters[GPU_NR_COUNTERS],
		      uint64_t unknown, struct stats_reasons *dst);

/* Adds calls by kind: launch, copy, sync, ... also kinds without a call. */
void gpu_monitor_kinds(const struct gpu_monitor *watch, const struct call_table_count *counts,
		       size_t nr, struct stats_reasons *dst);

/* profile points to stats: this must not be moved. The caller sets the times and frees profile. */
struct gpu_monitor_profile {
	struct profile profile;
	struct run_stats stats;
};

/*
 * At the end: makes a profile of all calls, after some seconds at most for names of kernels. Adds
 * the counters of calls to stats, too, unless it is NULL. 0 or -errno.
 */
int gpu_monitor_finish(struct gpu_monitor *watch, struct gpu_monitor_profile *ret,
		       struct run_stats *stats);
/* The same of a snapshot, without a search for names. */
int gpu_monitor_profile_make(struct gpu_monitor *watch, const struct gpu_snapshot *snapshot,
			     struct gpu_monitor_profile *ret);

/* Does a key belong to a process that counts? */
bool gpu_monitor_wants(const struct gpu_monitor *watch, const struct bpfprof_gpu_key *key);

/*
 * snapshot.c: 0 or -ENOMEM. gpu_snapshot_take(): counts of the processes that count, split by
 * kernel (call_table_split()). gpu_snapshot_take_all(): all counts of the kernel, for a program
 * that deletes those of any process that has ended.
 */
int gpu_snapshot_take_all(struct gpu_snapshot *snapshot, const struct gpu_monitor *watch);
int gpu_snapshot_take(struct gpu_snapshot *snapshot, const struct gpu_monitor *watch);
void gpu_snapshot_fini(struct gpu_snapshot *snapshot);
/* Is the open call counted, with its time? */
bool gpu_snapshot_is_waiting(const struct bpfprof_gpu_open *open);
/* The communicator of a collective, or NULL. */
const struct gpu_comm_entry *gpu_snapshot_comm(const struct gpu_snapshot *snapshot,
					       const struct bpfprof_gpu_key *key);
/*
 * Adds the time that open calls have blocked, until the snapshot, to counts, which are of the same
 * time and sorted like its own, and to the stacks of table, unless that is NULL.
 */
void gpu_snapshot_waits(const struct gpu_snapshot *snapshot, struct call_table *table,
			struct call_table_count *counts, size_t nr);
/* comm_text() of call_table_finish(); arg is a snapshot. */
void gpu_snapshot_comm_text(void *arg, const struct bpfprof_gpu_key *key, char comm[24],
			    char rank[16]);

/* names.c: finds names of kernels that the table has none for, until limit_ns have passed. */
void gpu_names_find(struct gpu_monitor *watch, const struct gpu_snapshot *snapshot,
		    uint64_t limit_ns);

#endif
