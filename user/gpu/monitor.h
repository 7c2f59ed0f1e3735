/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_MONITOR_H
#define BPFPROF_GPU_MONITOR_H

/*
 * Room gpu: counts GPU calls by stack, reports them, and compares the ranks of NCCL jobs.
 *
 * Hooked calls of CUDA and NCCL beside a sampler: the probes, what is counted in the kernel and
 * the stacks that came, for whoever shows or writes them. The sampler has the option gpu; its loop
 * calls gpu_monitor_run(). What goes wrong is said on standard error; statuses are those of
 * base/exit_status.h.
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

/* What the kernel's maps held when they were read, each sorted by process. */
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
	bool no_memory; /* some of it is missing */
	const struct gpu_monitor *only; /* NULL, or counts are those that it wants */
};

/* All zero before gpu_monitor_open(); counts, choose, ended and arg may be set after it. */
struct gpu_monitor {
	struct sampler *sampler; /* borrowed */
	struct aggregate *aggregate;
	struct call_table *table;
	struct gpu_probes *probes;
	struct kernel_names *names;
	struct gpu_waits *waits; /* NULL unless the sampler has gpu_waits */
	uint64_t nr_table_full; /* of aggregates before this one */
	size_t nr_reported; /* libraries */
	uint64_t other_map_bytes; /* for stats: of maps beside the sampler's, the most there were */
	bool chosen; /* only processes count of which the sampler has handed over a stack */
	/* NULL: calls and gaps of every process count. */
	bool (*counts)(void *arg, const struct aggregate_input *input);
	/* NULL is fine. Leaves in a snapshot what is to count; a process that made calls has ended. */
	void (*choose)(void *arg, struct gpu_snapshot *snapshot);
	void (*ended)(void *arg, const struct bpfprof_task_id *task);
	void *arg;
	uint64_t tick_ns;
};

/* Before there are threads: can calls be watched here? If not, that is said. */
int gpu_monitor_check(void);
bool gpu_monitor_may_hook(void); /* does the kernel let us hook functions at all? */
/* Observes an open sampler, which is borrowed. threads, bytes: as of aggregate_new(). */
int gpu_monitor_open(struct gpu_monitor *watch, struct sampler *sampler, bool threads,
		     size_t bytes);
/* Before the sampler is closed. */
void gpu_monitor_close(struct gpu_monitor *watch);

/*
 * What the kernel has counted of a process while its device had nothing to do, to the waits and the
 * table of a watch, which is arg; nothing of a process that does not count.
 */
void gpu_monitor_device_idle(void *arg, const struct bpfprof_gpu_waits *process);

/* Once the sampler has started: hooks all that is mapped by now. */
void gpu_monitor_start(struct gpu_monitor *watch);
/* Hooks what is new and forgets threads that idle. True: there is more to do at once. */
bool gpu_monitor_run(struct gpu_monitor *watch, uint64_t now_ns);
/*
 * For who runs for ever. Ends processes whose end nobody told us of: an event was lost, or came before
 * we knew that they make calls.
 */
void gpu_monitor_find_gone(struct gpu_monitor *watch, const struct gpu_snapshot *snapshot);
/* Deletes in the kernel what belongs to processes that have ended; their counts leave the snapshot. */
void gpu_monitor_forget_ended(struct gpu_monitor *watch, struct gpu_snapshot *snapshot);
/* call_table_next(). The aggregate before is the caller's from now on. */
void gpu_monitor_next(struct gpu_monitor *watch, struct aggregate *next, size_t max_bytes);
/* Which libraries are hooked, or that none is, on standard error. */
void gpu_monitor_tell(struct gpu_monitor *watch);
/* Which of those that came since then or since the last time are not. */
void gpu_monitor_tell_new(struct gpu_monitor *watch);

extern const struct counter gpu_monitor_counters[];
/*
 * Why less is known of calls than there were; counters as of a snapshot; unknown launches of kernels
 * without a name, as of call_table_nr_unknown(). What the sampler has lost is not among it.
 */
void gpu_monitor_lost(const struct gpu_monitor *watch, const uint64_t counters[GPU_NR_COUNTERS],
		      uint64_t unknown, struct stats_reasons *dst);

/* Calls by kind: launch, copy, sync, ... Those that are watched are there, with 0, too. */
void gpu_monitor_kinds(const struct gpu_monitor *watch, const struct call_table_count *counts,
		       size_t nr, struct stats_reasons *dst);

/* stats points to itself: it must not be moved. The caller fills in when it was, and frees profile. */
struct gpu_monitor_profile {
	struct profile profile;
	struct run_stats stats;
};

/*
 * In the end: all calls there were as a profile, with counts of kernels named as far as that can be
 * found out in some seconds. What is told of them all goes to stats, too, unless that is NULL. 0 or
 * -errno.
 */
int gpu_monitor_finish(struct gpu_monitor *watch, struct gpu_monitor_profile *ret,
		       struct run_stats *stats);
/* The same of a snapshot, with nothing to be found out. */
int gpu_monitor_profile_make(struct gpu_monitor *watch, const struct gpu_snapshot *snapshot,
			     struct gpu_monitor_profile *ret);

/* Is it of a process that was chosen? */
bool gpu_monitor_wants(const struct gpu_monitor *watch, const struct bpfprof_gpu_key *key);

/*
 * snapshot.c: 0 or -ENOMEM. Counts are those that the watch wants, split by kernel (call_table_split());
 * or all, as the kernel has them: for who runs for ever, and deletes what has ended, whoever it was.
 */
int gpu_snapshot_take_all(struct gpu_snapshot *snapshot, const struct gpu_monitor *watch);
int gpu_snapshot_take(struct gpu_snapshot *snapshot, const struct gpu_monitor *watch);
void gpu_snapshot_fini(struct gpu_snapshot *snapshot);
/* Of an open call: is it counted, and is its time? */
bool gpu_snapshot_is_waiting(const struct bpfprof_gpu_open *open);
/* The communicator of a collective, or NULL. */
const struct gpu_comm_entry *gpu_snapshot_comm(const struct gpu_snapshot *snapshot,
					       const struct bpfprof_gpu_key *key);
/*
 * Calls that block and have not returned have blocked until the snapshot was taken: adds that to counts,
 * which are of the same time and sorted as its own, and tells the table of it. NULL: none.
 */
void gpu_snapshot_waits(const struct gpu_snapshot *snapshot, struct call_table *table,
			struct call_table_count *counts, size_t nr);
/* Of call_table_finish(), its arg a snapshot. */
void gpu_snapshot_comm_text(void *arg, const struct bpfprof_gpu_key *key, char comm[24],
			    char rank[16]);

/* names.c: tells the table what kernels that it has no name for are called, as far as time allows. */
void gpu_names_find(struct gpu_monitor *watch, const struct gpu_snapshot *snapshot,
		    uint64_t limit_ns);

#endif
