/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_DAEMON_REMOTE_PROFILE_H
#define BPFPROF_DAEMON_REMOTE_PROFILE_H

/*
 * The answers of `bpfprof daemon` to /profile, /dump, /record, /top, /memory/ and /files/ over HTTP, for clients
 * that send a token. A profile counts samples of the running sampler beside the interval. Child processes make
 * profiles, run commands, and read files: a few at a time, each under a deadline. Their output is streamed to the
 * client (daemon/http_later.h). When the client disconnects, its child is ended.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/remote_memory.h"
#include "daemon/remote_profile_query.h"
#include "daemon/remote_right.h"
#include "daemon/token_tries.h"
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

#define REMOTE_PROFILE_MAX_JOBS 24 /* at least the sum of the places of all kinds */

enum remote_profile_state {
	REMOTE_PROFILE_FREE,
	REMOTE_PROFILE_SAMPLING,
	REMOTE_PROFILE_WORKING, /* the child runs */
	REMOTE_PROFILE_SENDING, /* the child has written its first bytes */
	REMOTE_PROFILE_DYING, /* the client is answered or has disconnected; the child has not ended */
};

/* A forked child writes this first, in one write. A command is a program of its own and writes none. */
struct remote_profile_head {
	uint32_t status; /* of HTTP */
	uint32_t pad;
	uint64_t size; /* of the body, or HTTP_LATER_SIZE_UNKNOWN */
	struct remote_target target; /* of an attach */
	char text[256]; /* the reason of a status other than 200; of a peer: its container */
};

struct remote_profile_job {
	struct daemon *daemon;
	enum remote_profile_kind kind;
	enum remote_profile_state state;
	struct http_later *later; /* the open answer; NULL: it is complete */
	struct remote_profile_query query;
	struct remote_right
		right; /* of the client; used until the child runs, its owner later, too */
	struct remote_memory *memory; /* of an attach, a detach or a report */
	struct process_filter filter;
	struct aggregate *aggregate; /* of a profile, until its child is forked */
	struct thread_times *times; /* the same with --wall */
	bool bounded_end; /* times has the end of the profile */
	uint64_t start_ns, end_ns, offset_ns; /* as of struct interval */
	uint64_t asked_ns, deadline_ns;
	struct run_stats stats; /* of a profile: the counts at its begin, later those since then */
	char *path; /* of a file, below the folder */
	pid_t pid; /* of the child; 0: none runs */
	int ended; /* the status of the child, from wait(2) */
	int fd; /* its pipe, -1: none */
	int said_fd; /* the standard error of a command, -1: none */
	unsigned int status; /* of the answer */
	char client[64];
};

/* Counts since the start, for /metrics. */
struct remote_profile_counts {
	uint64_t requests[REMOTE_PROFILE_NR_KINDS]; /* jobs that began */
	struct stats_reasons refused;
	uint64_t nr_cut; /* clients that disconnected, or were too slow */
};

struct remote_profiles {
	struct remote_profile_job jobs[REMOTE_PROFILE_MAX_JOBS];
	struct remote_profile_counts counts;
	struct token_tries tries;
};

/* False: the path is none of these, or the daemon has no token. */
bool remote_profile_answer(struct daemon *daemon, const struct http_request *request,
			   struct http_reply *reply);
/* Gets every sample, also those that the filters of the daemon leave out. */
void remote_profile_sample(struct daemon *daemon, const struct aggregate_input *input);
void remote_profile_exit(struct daemon *daemon, const struct bpfprof_task_id *task,
			 uint64_t cpu_ns);
/* Ends and starts what is due. Must be called after sampler_run(), every 100 ms at least. */
void remote_profile_run(struct daemon *daemon, uint64_t now_ns);
/* The aggregates of profiles that are sampled; at most REMOTE_PROFILE_MAX_PROFILES. */
size_t remote_profile_aggregates(const struct daemon *daemon, const struct aggregate **ret);
void remote_profile_metrics(struct buf *dst, const struct daemon *daemon);

/*
 * remote_target.c, in the child of a command: its process as we see it, out of the pid and the start of the
 * query, as the client sees them. 0, or with a sentence added to why: -ENOENT (there is none), -EACCES (the
 * client may not ask about it), -ENOTUNIQ (there are several); or -errno.
 */
int remote_target_find(struct remote_target *ret, const struct remote_profile_job *job,
		       struct buf *why);
/*
 * In a child: the container of the peer of a Unix socket, of whose pod it may ask. 0, with its id in owner ("" for root of the
 * node, which may ask about all); or -EACCES with a sentence added to why.
 */
int remote_target_peer(char owner[REMOTE_OWNER_MAX], const struct remote_profile_job *job,
		       struct buf *why);
#define REMOTE_TARGET_REFUSED 64 /* exit status of a child after -EACCES */

/* remote_profile_child.c: starts the child of a job. 0 or -errno. */
int remote_profile_child_start(struct remote_profile_job *job);
/* In a child: variables that set flags of the daemon must not set flags of a command that it executes. */
void remote_environment_clear(void);
/* The first bytes that the child wrote to standard error; "" if none. */
void remote_profile_child_said(const struct remote_profile_job *job, struct buf *dst);

/* remote_files.c, in a child: writes the answer for job->path into fd. False: not all of it. */
bool remote_profile_files_write(struct remote_profile_job *job, int fd);

#endif
