/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_DAEMON_DAEMON_H
#define BPFPROF_DAEMON_DAEMON_H

/*
 * Room daemon: cuts time into intervals, stores and pushes their profiles, answers HTTP.
 *
 * The state of one `bpfprof daemon`, shared by daemon*.c and nobody else.
 *
 * Times: an interval runs from one moment of CLOCK_MONOTONIC to another; the next one begins where
 * it ends. In files both are moved by one offset, so that they are Unix time; the offset is
 * made anew at the border of two intervals, and only when the clock was set.
 *
 * Writing is the work of a child process: it has a copy of everything as it was at
 * the border (the kernel copies only pages that one of the two changes), so nothing is locked, and
 * the parent goes on reading samples however long names and disks take. An interval that
 * has ended waits until the child before it is done; one more may run meanwhile, which
 * goes on past its border for as long as that takes.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/host_name.h"
#include "capture/process_choice.h"
#include "capture/sampler.h"
#include "daemon/daemon_options.h"
#include "daemon/pusher.h"
#include "daemon/remote_profile.h"
#include "daemon/store.h"
#include "gpu/monitor.h"
#include "options/config.h"
#include "profile/stats.h"

struct aggregate;
struct http;
struct profile;
struct push_item;
struct thread_rest;
struct thread_times;

/* Calls of CUDA and NCCL in an interval; all zero without --gpu. */
struct calls_interval {
	struct aggregate *aggregate; /* finished; NULL while it runs */
	struct stats_reasons calls, lost; /* by kind; by reason */
	uint64_t stacks, skipped; /* of calls: taken, and not, over the rate */
};

/* One that has ended, or runs. */
struct interval {
	struct aggregate *aggregate;
	struct calls_interval calls;
	uint64_t start_ns, end_ns; /* CLOCK_MONOTONIC; end_ns of a running one: when it is to end */
	uint64_t offset_ns; /* to Unix time, modulo 2^64 */
	bool waits_unreported; /* --wall: of waits over its end nothing was told yet */
	bool clock_step; /* the offset is not that of the interval before */
};

/* Of one set of files. */
struct profiles {
	const struct profile *cpu;
	const struct profile *calls; /* NULL without --gpu */
};

/* What the child that writes has to say; sent through a pipe. */
struct write_result {
	int error; /* 0 or -errno: no files */
	bool kernel_names_hidden;
	struct store_counts counts;
	char name[STORE_NAME_MAX];
	uint64_t bytes; /* of the files */
	bool calls; /* there are such of calls */
	uint64_t pods,
		pods_failed; /* --split pod: sets of pods that are there, or could not be made */
	int pods_error; /* of the first of those */
	uint64_t private_bytes; /* memory of the child that is not shared with us */
	struct stats_reasons
		files; /* problems of files met by it: names are constants, at the same places */
};

struct writer {
	pid_t pid; /* 0: none runs */
	int fd; /* its pipe */
	int pods_fd; /* a memory file for the names of what it has made of pods; -1: none */
	uint64_t start_ns, aggregate_bytes;
	uint64_t from_s, until_s; /* of the interval that it writes, Unix time */
	struct run_stats stats; /* of the interval that it writes */
	bool killed; /* it took too long */
};

struct daemon_totals {
	/* Samples and stacks; samples that an aggregate had no room for; problems that writers met. */
	struct run_stats counted;
	uint64_t profiles, write_errors, bytes;
	uint64_t pod_profiles, pod_write_errors;
	uint64_t intervals_extended, clock_steps;
	uint64_t links_failed, sets_removed, stale_removed;
	uint64_t sets, stored_bytes, folders_unread; /* there now */
	uint64_t last_profile_seconds; /* Unix time of the end of the last one written */
	uint64_t write_ns; /* of the last one */
	uint64_t failed_in_a_row;
};

struct daemon_push {
	struct pusher *pusher; /* NULL: nothing is pushed */
	struct pusher_options options;
	struct pusher_stats said; /* what the log knows */
	char host[HOST_NAME_BYTES];
};

/* --gpu. Counts are the kernel's, of the lives of processes. */
struct daemon_calls {
	struct gpu_monitor watch;
	struct call_table_count *before; /* as they were when the interval began, by key */
	size_t nr_before;
	struct call_table_count
		*ended; /* in this interval: what came in it, not in the kernel any more */
	size_t nr_ended, cap_ended;
	size_t nr_ended_wanted; /* the first so many: known to be wanted */
	struct stats_reasons lost_before;
	uint64_t stacks_before, skipped_before;
	struct stats_reasons finished,
		running; /* calls by kind: of intervals that ended, and since */
	struct stats_reasons lost;
	uint64_t nr_unknown; /* launches of kernels without a name, in intervals that ended */
	uint64_t nr_keys; /* counts in the kernel, when it was last looked */
	uint64_t look_ns;
};

struct daemon {
	struct daemon_options *options;
	char *output; /* the folder */
	int argc;
	char *const *argv; /* to be parsed again */
	struct sampler sampler;
	struct store *store;
	struct interval running;
	struct interval ended; /* waits for being written; aggregate NULL: none does */
	struct run_stats before; /* what was counted when the last interval ended */
	struct writer writer;
	struct daemon_totals totals;
	size_t aggregate_bytes; /* of all aggregates together */
	struct daemon_push push;
	struct process_choice choice; /* what is written */
	struct process_filter filter; /* it, in force */
	struct remote_profiles remote; /* what clients of http ask for */
	struct daemon_calls calls;
	struct thread_times *times; /* NULL without --wall */
	struct http *http; /* NULL: does not listen */
	struct buf metrics; /* as they were at metrics_ns */
	uint64_t metrics_ns;
	bool nothing_matched; /* in the last interval: nobody whom the filters name ran */
	uint64_t last_good_ns; /* when a profile was written, or sampling began */
	uint64_t quit_ns; /* when we were told to end */
	bool warned_kernel_names;
};

/*
 * daemon_write.c. Starts the child for the interval that has ended, which is freed. 0 or -errno,
 * then it is freed and lost, and that has been said.
 */
int writer_start(struct daemon *daemon);
extern const struct counter daemon_counters[];
/* daemon_set.c: a whole set of files in one folder; limits as store_begin() wants them. 0 or -errno. */
int set_write(const struct daemon *daemon, struct store *store, const struct store_limits *limits,
	      const struct profiles *profiles, struct store_set *set, struct store_counts *counts);
/* To be called when its pipe is readable: takes note of what it says. */
void writer_done(struct daemon *daemon);
/* Now and then: kills one that hangs. */
void writer_watch(struct daemon *daemon, uint64_t now_ns);
/* First of all in any child: lets go of what must end with its parent, but for keep. */
void daemon_child_begin(struct daemon *daemon, int keep);

/* daemon_calls.c, all of it nothing without --gpu, but for open and stats. */
int calls_open(struct daemon *daemon); /* an exit status */
void calls_close(struct daemon *daemon);
void calls_choose(struct daemon *daemon); /* the filters are others now */
bool calls_run(struct daemon *daemon, uint64_t now_ns); /* true: there is more to do */
/* The interval has ended: its calls become its own. */
void calls_rotate(struct daemon *daemon, struct interval *interval);
void calls_interval_stats(const struct calls_interval *interval, struct run_stats *stats);
/* What is of samples in stats becomes what is of stacks of calls. */
void calls_profile_stats(const struct calls_interval *interval, struct run_stats *stats);

/*
 * daemon_waits.c, all of it nothing without --wall. 0 or -ENOMEM; when the first interval has an
 * aggregate, of which it sets the start.
 */
int daemon_waits_open(struct daemon *daemon);
/* For EVENT_THREAD_END. */
void daemon_waits_thread_end(struct daemon *daemon, const struct aggregate_input *input,
			     const struct thread_rest *rest);
/* The next interval is the running one: soon daemon_waits_rotate() is due, which samples meanwhile. */
void daemon_waits_boundary(struct daemon *daemon);
void daemon_waits_rotate(struct daemon *daemon);
/* Before sampler_stop(): the running interval ends. */
void daemon_waits_end(struct daemon *daemon);
/* Adds what the sampler does not count. */
void daemon_waits_stats(struct daemon *daemon, struct stats_reasons *waits);
/* What is no count, and not to be told since the last interval; of this one. */
void daemon_waits_periods(struct daemon *daemon, struct stats_reasons *waits);
/* In a child: what threads do that have nothing to do. 0 or -ENOMEM. */
int daemon_waits_idle(const struct daemon *daemon, struct profile *profile,
		      struct stats_reasons *waits);
/* The same for what a client asks for. */
int job_waits_open(struct remote_profile_job *job);
void job_waits_sample(struct remote_profile_job *job, const struct aggregate_input *input);
void job_waits_rotate(struct remote_profile_job *job);

/* daemon_split.c, of --split pod. In the child: all sets of an interval. 0 or -errno: none of the node. */
int split_write(struct daemon *daemon, const struct profiles *profiles,
		struct write_result *result);
/* At start: repairs and prunes the folders. 0 or -errno. */
int split_repair(struct daemon *daemon, struct store_counts *counts);
/* In the parent, once it is done: what it has made of so many pods is pushed. */
void split_push(struct daemon *daemon, uint64_t pods);

/* daemon_push.c, all of it nothing without --push. An exit status. */
int push_start(struct daemon *daemon);
/* A set is there: below the folder, without suffix. calls: with a profile of calls. */
void push_written(struct daemon *daemon, const struct push_item *what, bool calls);
void push_watch(struct daemon *daemon); /* now and then: says what happened */
void push_end(struct daemon *daemon); /* tries for some seconds to push what waits */
void push_metrics(struct buf *dst, struct daemon *daemon);

/* daemon_http.c. 0 or -errno. */
int daemon_listen(struct daemon *daemon, const char *address);

#endif
