/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_DAEMON_REMOTE_PROFILE_H
#define BPFPROF_DAEMON_REMOTE_PROFILE_H

/*
 * What clients of `bpfprof daemon` ask for over HTTP while it runs: /profile, /dump and /files/, for
 * who sends the token. A profile counts samples of the running sampler besides the interval; making it, a dump and the
 * reading of files are the work of child processes, few at a time, each under a deadline, of which the
 * bytes go to the client as they come (daemon/http_later.h). A client that goes away ends its child.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/remote_profile_query.h"
#include "profile/stats.h"

struct aggregate;
struct aggregate_input;
struct bpfprof_task_id;
struct buf;
struct daemon;
struct http_later;
struct http_reply;
struct http_request;
struct thread_times;

#define REMOTE_PROFILE_MAX_PROFILES 2
#define REMOTE_PROFILE_MAX_DUMPS 1
#define REMOTE_PROFILE_MAX_FILES 4
#define REMOTE_PROFILE_MAX_JOBS                                                                    \
	(REMOTE_PROFILE_MAX_PROFILES + REMOTE_PROFILE_MAX_DUMPS + REMOTE_PROFILE_MAX_FILES)

enum remote_profile_state {
	REMOTE_PROFILE_FREE,
	REMOTE_PROFILE_SAMPLING,
	REMOTE_PROFILE_WORKING, /* a child has been started */
	REMOTE_PROFILE_SENDING, /* and its first bytes have come */
	REMOTE_PROFILE_DYING, /* nobody waits for it any more */
};

/* What a forked child says first, in one write; a dump, which is a program of its own, says nothing. */
struct remote_profile_head {
	uint32_t status; /* of HTTP */
	uint32_t pad;
	uint64_t size; /* of what follows, or HTTP_LATER_SIZE_UNKNOWN */
	char text[256]; /* why, unless the status is 200 */
};

struct remote_profile_job {
	struct daemon *daemon;
	enum remote_profile_kind kind;
	enum remote_profile_state state;
	struct http_later *later; /* NULL: it is over */
	struct remote_profile_query query;
	struct process_filter filter;
	struct aggregate *aggregate; /* of a profile, until its child has it */
	struct thread_times *times; /* the same with --wall */
	bool bounded_end; /* they know the end */
	uint64_t start_ns, end_ns, offset_ns; /* as of struct interval */
	uint64_t asked_ns, deadline_ns;
	struct run_stats stats; /* of a profile: when it began, then since */
	char *path; /* of a file, below the folder */
	pid_t pid; /* of the child, 0: it is gone */
	int ended; /* what it ended with, as wait(2) has it */
	int fd; /* its pipe, -1: none */
	int said_fd; /* what a dump writes to standard error, -1: none */
	unsigned int status; /* that it was answered with */
	char client[64];
};

/* Numbers since the start, for the metrics. */
struct remote_profile_counts {
	uint64_t requests[REMOTE_PROFILE_NR_KINDS]; /* that were begun */
	struct stats_reasons refused;
	uint64_t nr_cut; /* clients that went away, or were too slow */
};

struct remote_profiles {
	struct remote_profile_job jobs[REMOTE_PROFILE_MAX_JOBS];
	struct remote_profile_counts counts;
};

/* False: nothing of ours, or not allowed at all. */
bool remote_profile_answer(struct daemon *daemon, const struct http_request *request,
			   struct http_reply *reply);
/* Every sample, whatever the daemon itself writes. */
void remote_profile_sample(struct daemon *daemon, const struct aggregate_input *input);
void remote_profile_exit(struct daemon *daemon, const struct bpfprof_task_id *task,
			 uint64_t cpu_ns);
/* What is due. To be called after sampler_run(), every 100 ms at least. */
void remote_profile_run(struct daemon *daemon, uint64_t now_ns);
/* Aggregates that are in use; at most REMOTE_PROFILE_MAX_PROFILES. */
size_t remote_profile_aggregates(const struct daemon *daemon, const struct aggregate **ret);
void remote_profile_metrics(struct buf *dst, const struct daemon *daemon);

/* remote_profile_child.c: starts the child of a job that has none. 0 or -errno. */
int remote_profile_child_start(struct remote_profile_job *job);
/* What it wrote to standard error, cut; "" if nothing. */
void remote_profile_child_said(const struct remote_profile_job *job, struct buf *dst);

/* remote_files.c, in a child: the whole answer to job->path, into fd. False: it was cut. */
bool remote_profile_files_write(struct remote_profile_job *job, int fd);

#endif
