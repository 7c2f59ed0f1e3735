/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_DAEMON_DAEMON_H
#define BPFPROF_DAEMON_DAEMON_H

/*
 * Room daemon: cuts time into intervals, stores and pushes their profiles, answers HTTP.
 *
 * The state of one `bpfprof daemon`, shared by daemon*.c and remote_*.c only.
 *
 * Times: an interval begins where the one before it ends, both in CLOCK_MONOTONIC. In files an offset
 * makes them Unix time. The offset changes only between two intervals, and only if the clock was set.
 *
 * A child process writes an interval. It has a copy of the whole state at the end of the interval (the
 * kernel copies only pages that one of the two changes), so nothing is locked, and the parent reads
 * samples meanwhile. An ended interval waits until the child before it has ended; the running interval
 * is extended for as long as that takes.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/host_name.h"
#include "capture/memory_watch.h"
#include "capture/process_choice.h"
#include "capture/sampler.h"
#include "daemon/daemon_options.h"
#include "daemon/pusher.h"
#include "daemon/remote_memory.h"
#include "daemon/remote_profile.h"
#include "daemon/store.h"
#include "gpu/monitor.h"
#include "memory/monitor.h"
#include "options/config.h"
#include "profile/stats.h"
#include "watch/deaths.h"
#include "watch/stalls.h"

struct aggregate;
struct http;
struct profile;
struct push_item;
struct seconds;
struct thread_rest;
struct thread_times;

/* Calls of CUDA and NCCL in an interval; all zero without --gpu. */
struct calls_interval {
	struct aggregate *aggregate; /* finished; NULL while it runs */
	struct stats_reasons calls, lost; /* by kind; by reason */
	uint64_t stacks, skipped; /* of calls; skipped: calls over the rate, without a stack */
};

/* An interval that runs, or has ended. */
struct interval {
	struct aggregate *aggregate;
	struct calls_interval calls;
	uint64_t start_ns, end_ns; /* CLOCK_MONOTONIC; end_ns may still change while it runs */
	uint64_t offset_ns; /* to Unix time, modulo 2^64 */
	bool waits_unreported; /* --wall: waits over its end were not reported yet */
	bool clock_step; /* the offset differs from that of the interval before */
};

/* The profiles of one set of files. */
struct profiles {
	const struct profile *cpu;
	const struct profile *calls; /* NULL without --gpu */
	const struct profile *memory; /* NULL without --memory */
	const struct seconds *seconds; /* of the samples of cpu; NULL with --wall */
};

/* The result of a writer, which sends it through a pipe. */
struct write_result {
	int error; /* 0, or -errno and no files */
	bool kernel_names_hidden;
	struct store_counts counts;
	char name[STORE_NAME_MAX];
	uint64_t bytes; /* of the files */
	bool calls; /* the set has files of calls */
	uint64_t pods; /* --split pod: the number of pods whose sets were written */
	uint64_t pods_failed; /* --split pod: the number of pods whose sets could not be written */
	int pods_error; /* of the first of pods_failed */
	uint64_t private_bytes; /* memory of the child that is not shared with us */
	struct stats_reasons files; /* names are constants, at the same addresses in the parent */
};

#define WRITERS_ENDING 64

struct writer {
	pid_t pid; /* 0: no writer runs */
	/* Earlier ones that have not ended: their files are closed, which may wait for a file system. */
	pid_t ending[WRITERS_ENDING];
	uint32_t next_ending;
	int fd; /* its pipe */
	int pods_fd; /* a memory file for the names of the sets of pods; -1: none */
	uint64_t start_ns, aggregate_bytes;
	uint64_t from_s, until_s; /* of the interval that it writes, Unix time */
	struct run_stats stats; /* of the interval that it writes */
	bool killed; /* because it took too long */
};

struct daemon_totals {
	/* Samples and stacks; what aggregates had no room for; problems that writers met. */
	struct run_stats counted;
	uint64_t profiles, write_errors, bytes;
	uint64_t pod_profiles, pod_write_errors;
	uint64_t intervals_extended, clock_steps;
	uint64_t links_failed, sets_removed, stale_removed;
	uint64_t sets, stored_bytes, folders_unread; /* in the folder now */
	uint64_t last_profile_seconds; /* Unix time of the end of the last one written */
	uint64_t write_ns; /* of the last one */
	uint64_t failed_in_a_row;
};

/* The names of a destination in flags, in the log and in metrics. */
struct push_words {
	const char *flag, *token_flag, *ca_flag;
	const char *begun, *failed, *dropped, *again, *left; /* messages of the log */
	const char *things, *done; /* "profiles", "pushed": in fields of the log and in metrics */
	const char *metric; /* "push": a part of the names of metrics */
	bool hides_path; /* the path of the URL may be a secret: the log does not show it */
};

/* --push, or --notify: a server, and the thread that sends to it. */
struct daemon_push {
	const struct push_words *words;
	struct pusher *pusher; /* NULL: nothing is sent */
	struct pusher_options options;
	struct pusher_stats said; /* the counts that were logged */
	char url[PUSH_URL_MAX + 1]; /* as the log shows it */
	char host[HOST_NAME_BYTES];
};

/* --notify. */
struct daemon_notify {
	struct daemon_push push;
	int lines_fd; /* a memory file, where a child puts notifications as lines; -1: none runs */
	off_t lines_at; /* of the next line; the parent takes it, the child writes it */
	uint64_t nr_taken; /* lines of this child that were taken */
};

/* --gpu. The kernel counts from the start of each process. */
struct daemon_calls {
	struct gpu_monitor watch;
	struct call_table_count *before; /* counts when the interval began, by key */
	size_t nr_before;
	/*
	 * Counts of this interval that were removed from the kernel, because their process ended.
	 */
	struct call_table_count *ended;
	size_t nr_ended, cap_ended;
	size_t nr_ended_wanted; /* the first so many of ended pass the filters */
	struct stats_reasons lost_before;
	uint64_t stacks_before, skipped_before;
	struct stats_reasons finished; /* calls by kind, in intervals that ended */
	struct stats_reasons running; /* calls by kind, in the running interval */
	struct stats_reasons lost;
	uint64_t nr_unknown; /* launches of kernels without a name, in intervals that ended */
	uint64_t nr_keys; /* counts in the kernel, at the last poll */
	uint64_t look_ns;
};

/* The work of a child that writes deaths. */
struct deaths_done {
	size_t nr_written; /* folders */
	size_t nr_logged; /* lines of the log; each has a notification */
};

/* --watch. */
struct daemon_deaths {
	struct deaths seen;
	bool learns; /* a job that learns processes runs, or waits */
	pid_t pid; /* of the child that writes; 0: none runs */
	uint64_t child_ns; /* when it was started */
	size_t nr_given; /* deaths that the child writes */
	struct deaths_done *done; /* the child shares it */
	uint64_t
		nr_not_written; /* deaths over the limits of an hour, or that the child could not write */
	uint64_t sum_ns,
		nr_summed; /* the last line of the log about such deaths, and their number then */
};

/* --watch: stalls. */
struct daemon_stalls {
	struct stalls seen;
	pid_t pid; /* of the child that writes; 0: none runs */
	pid_t stuck; /* an earlier child that does not end, as its disk does not answer; 0: none */
	uint64_t child_ns; /* when it was started */
	struct stall stall; /* that it writes, */
	uint64_t wall_ns; /* and when that was found */
	struct buf folder; /* the name; empty: it has none */
	struct pod_counts pods; /* stalls that are no suspicions */
	uint64_t nr_not_written;
};

/* Folders of deaths and stalls that were written since hour_ns. */
struct watch_folders {
	uint64_t hour_ns, nr_hour;
	struct hash_table tenants; /* the same by tenant */
};

/* A file of a folder of a death or stall: the profile, or the text in its place. */
struct folder_file {
	const char *name;
	const struct profile *profile;
	const struct buf *text;
};

struct daemon {
	struct daemon_options *options;
	char *output; /* the folder */
	int argc;
	char *const *argv; /* SIGHUP parses it again */
	struct sampler sampler;
	struct store *store;
	struct interval running;
	struct interval ended; /* waits for a writer; aggregate NULL: none waits */
	struct run_stats before; /* the counts at the end of the last interval */
	struct writer writer;
	struct daemon_totals totals;
	size_t aggregate_bytes; /* of all aggregates together */
	uint64_t sampling_bytes, writer_bytes; /* of all memory but the writer's; the rest */
	struct memory_watch memory;
	struct daemon_push push;
	struct daemon_notify notify;
	struct process_choice choice; /* what is written */
	struct process_filter filter; /* choice in force */
	struct remote_profiles remote; /* requests of HTTP clients */
	struct remote_memory memories[REMOTE_MEMORY_MAX]; /* recordings that they began */
	struct daemon_calls calls;
	struct memory_monitor pages; /* --memory */
	struct daemon_deaths deaths; /* --watch */
	struct daemon_stalls stalls; /* the same */
	struct watch_folders folders; /* of both */
	struct thread_times *times; /* NULL without --wall */
	struct http *http; /* NULL: does not listen */
	struct buf metrics; /* the answer to /metrics that was made at metrics_ns */
	uint64_t metrics_ns;
	bool sweep_due; /* sampler_sweep() has not run since the last writer began */
	bool nothing_matched; /* no process of the filters ran in the last interval */
	uint64_t last_good_ns; /* when a profile was written, or sampling began */
	uint64_t quit_ns; /* when the signal came that ends the daemon */
	bool asked_again; /* another one came: nothing is waited for */
	bool warned_kernel_names;
};

/*
 * daemon_write.c: starts the child for the ended interval, and frees the interval. 0, or -errno: the
 * interval is lost, and that was logged.
 */
int writer_start(struct daemon *daemon);
extern const struct counter daemon_counters[];
/* daemon_set.c: writes a set of files into one folder; limits: see store_begin(). 0 or -errno. */
int set_write(const struct daemon *daemon, struct store *store, const struct store_limits *limits,
	      const struct profiles *profiles, struct store_set *set, struct store_counts *counts);
/* The same: writes the profile, or text in its place, as the file of this name. 0 or -errno. */
int file_fill(int fd, const char *name, const struct profile *profile, const struct buf *text,
	      const struct output_options *options);
/* The pipe of the writer is readable: reads the result, and logs it. */
void writer_done(struct daemon *daemon);
/* Must be called often. Kills a writer that hangs. */
void writer_watch(struct daemon *daemon, uint64_t now_ns);
/* Reads the signals after the one that ends the daemon. True: another one asks for the end. */
bool daemon_asked_again(struct daemon *daemon, int signal_fd);
/* Waits for the writer. False: daemon_asked_again(), and the writer is left alone. */
bool writer_finish(struct daemon *daemon, int signal_fd);
/* Every child calls it first: closes descriptors that must end with the parent, except keep. */
void daemon_child_begin(struct daemon *daemon, int keep);

/* daemon_calls.c. Without --gpu these do nothing, except calls_open() and the stats. */
int calls_open(struct daemon *daemon); /* an exit status */
void calls_close(struct daemon *daemon);
void calls_choose(struct daemon *daemon); /* the filters have changed */
bool calls_run(struct daemon *daemon, uint64_t now_ns); /* true: there is more to do */
/* The interval has ended: moves its calls into it. */
void calls_rotate(struct daemon *daemon, struct interval *interval);
void calls_interval_stats(const struct calls_interval *interval, struct run_stats *stats);
/* Replaces the counts of samples by those of the stacks of calls. */
void calls_profile_stats(const struct calls_interval *interval, struct run_stats *stats);

/* daemon_memory.c. Without --memory these do nothing. */
int pages_open(struct daemon *daemon); /* an exit status; sampler_start() must follow */
int pages_start(struct daemon *daemon); /* the same; samples pages from here on */
void pages_run(struct daemon *daemon, uint64_t now_ns); /* must be called often */
/* For the writer: makes the profile of the memory that the last look found. 0 or -errno. */
int pages_profile(struct daemon *daemon, struct profile *ret, struct run_stats *stats,
		  struct write_result *result);
void pages_stats(const struct daemon *daemon, struct stats_reasons *dst);
/* daemon_kills.c: for the writer, files of the processes that were killed in the interval. The profile is that of memory. */
void kills_write(struct daemon *daemon, const struct profile *memory);
bool kills_is_file(const char *name);
/* The child has what it needs: stacks that hold nothing now are forgotten. */
void pages_next(struct daemon *daemon);

/* daemon_deaths.c. Without --watch these do nothing. */
void daemon_deaths_open(struct daemon *daemon); /* sampler_start() must follow */
void daemon_deaths_start(struct daemon *daemon); /* after it */
void daemon_deaths_run(struct daemon *daemon, uint64_t now_ns); /* must be called often */
/* After sampler_stop(): a child begins to write what is left. False: nothing is left, and no child runs. */
bool daemon_deaths_last(struct daemon *daemon);
/* Waits some seconds for that, or until another signal comes, and counts the rest. */
void daemon_deaths_end(struct daemon *daemon, int signal_fd);
void daemon_deaths_close(struct daemon *daemon);
void daemon_deaths_metrics(struct buf *dst, const struct daemon *daemon);

/* watch_folders.c: folders of deaths and stalls. */
bool deaths_is_file(const char *name); /* in such a folder */
bool deaths_is_path(
	const char *path); /* of such a file below the folder of the daemon, or FOLDER/ */
/* For children: writes a folder, by way of one with the name temporary; *name may get a number. 0 or -errno. */
int watch_folder_write(const struct daemon *daemon, const char *temporary,
		       const struct folder_file *list, size_t nr, struct buf *name);
/* Removes old folders, and those over the limits. */
void watch_folders_prune(const struct daemon *daemon);
/* Takes one of the folders that a tenant may write in an hour. False: none is left. */
bool watch_folder_take(struct watch_folders *folders, uint32_t number, uint64_t now_ns);

/* daemon_stalls.c. Without --watch these do nothing. */
void daemon_stalls_open(struct daemon *daemon); /* after daemon_deaths_open() */
void daemon_stalls_run(struct daemon *daemon, uint64_t now_ns); /* must be called often */
/* Waits a moment for the folder that is being written, and logs and sends what is left. */
void daemon_stalls_end(struct daemon *daemon);
void daemon_stalls_close(struct daemon *daemon);
void daemon_stalls_metrics(struct buf *dst, const struct daemon *daemon);

/*
 * daemon_waits.c. Without --wall these do nothing. The first interval must have an aggregate, and gets
 * its start here. 0 or -ENOMEM.
 */
int daemon_waits_open(struct daemon *daemon);
/* For EVENT_THREAD_END. */
void daemon_waits_thread_end(struct daemon *daemon, const struct aggregate_input *input,
			     const struct thread_rest *rest);
/* The next interval runs now: daemon_waits_rotate() is due soon. */
void daemon_waits_boundary(struct daemon *daemon);
void daemon_waits_rotate(struct daemon *daemon);
/* Before sampler_stop(): the running interval ends. */
void daemon_waits_end(struct daemon *daemon);
/* Adds the counters of thread times. */
void daemon_waits_stats(struct daemon *daemon, struct stats_reasons *waits);
/* Sets the periods of this interval, which are no counts. */
void daemon_waits_periods(struct daemon *daemon, struct stats_reasons *waits);
/* In a child: folds the stacks of idle threads, unless --parked. 0 or -ENOMEM. */
int daemon_waits_idle(const struct daemon *daemon, struct profile *profile,
		      struct stats_reasons *waits);
/* The same for a profile of an HTTP client. */
int job_waits_open(struct remote_profile_job *job);
void job_waits_sample(struct remote_profile_job *job, const struct aggregate_input *input);
void job_waits_rotate(struct remote_profile_job *job);

/*
 * daemon_split.c, for --split pod. The child writes all sets. -errno: the set of the node could not
 * be written.
 */
int split_write(struct daemon *daemon, const struct profiles *profiles,
		struct write_result *result);
/* Repairs and prunes the folders at the start. 0 or -errno. */
int split_repair(struct daemon *daemon, struct store_counts *counts);
/* The child has ended: the parent pushes the sets of so many pods. */
void split_push(struct daemon *daemon, uint64_t pods);

/* daemon_budget.c: divides --max-memory; before anything takes memory. */
void daemon_memory_share(struct daemon *daemon);

/* daemon_push.c. Without --push these do nothing. An exit status. */
int push_start(struct daemon *daemon);
/* A set was written; its path is without suffix. calls: it has files of calls. */
void push_written(struct daemon *daemon, const struct push_item *what, bool calls);

/* daemon_notify.c. Without --notify these do nothing. An exit status. */
int notify_start(struct daemon *daemon);
/*
 * A notification is begun here; the caller adds keys, calls notification_end(), and sends it, or, in a child, puts it.
 * Both free the text.
 */
void notify_begin(const struct daemon *daemon, struct buf *dst, const char *event, const char *why,
		  uint64_t wall_ns);
void notify_send(struct daemon *daemon, struct buf *text);
void notify_child_put(struct daemon *daemon, struct buf *text);
/* The parent calls these before it forks the child, often while it runs, and when it has ended. */
void notify_child_open(struct daemon *daemon);
void notify_child_take(struct daemon *daemon);
void notify_child_close(struct daemon *daemon,
			uint64_t nr); /* nr: that the child should have put */
extern const struct counter notify_counters[];
void notify_stats(const struct daemon *daemon, struct stats_reasons *dst);

/*
 * daemon_pushers.c, for both. The caller sets the fields of push->options that are not in options. An exit status. The
 * others do nothing without --push and --notify.
 */
int daemon_push_start(struct daemon_push *push, const struct push_words *words,
		      const struct push_options *options);
void pushers_watch(struct daemon *daemon); /* must be called often; logs failures and successes */
void pushers_end(struct daemon *daemon); /* sends what waits, for some seconds */
void pushers_metrics(struct buf *dst, const struct daemon *daemon);

/* daemon_refusals.c. The log has a row of sampler.reader.refusals once an hour at most. */
void refusals_metrics(struct buf *dst, struct daemon *daemon);
void refusals_log(struct daemon *daemon, uint64_t now_ns); /* must be called often */

/* daemon_http.c. 0 or -errno. */
int daemon_listen(struct daemon *daemon, const char *address);

#endif
