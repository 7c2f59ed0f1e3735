/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_DAEMON_REMOTE_MEMORY_H
#define BPFPROF_DAEMON_REMOTE_MEMORY_H

/*
 * Recordings of memory that a client begins (/memory/attach), ends (/memory/detach) and reads
 * (/memory/report), as memray does. Two executions of `bpfprof memory` watch the process: one answers --peak, the
 * other --grown. They end by themselves after the lease, since a client may never come back. Their results are
 * kept in memory for REMOTE_MEMORY_KEEP_SECONDS, or until a new recording of the same owner needs the place.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/remote_right.h"

struct buf;
struct daemon;

#define REMOTE_MEMORY_MAX 4
#define REMOTE_MEMORY_MAX_RUNNING 2
#define REMOTE_MEMORY_OF_ONE 2 /* places of an owner: its running one, and results */
#define REMOTE_MEMORY_KEEP_SECONDS 600
#define REMOTE_MEMORY_ID 33

enum remote_memory_state {
	REMOTE_MEMORY_FREE,
	REMOTE_MEMORY_RUNNING,
	REMOTE_MEMORY_OVER, /* its results are there */
};

enum remote_memory_question { REMOTE_MEMORY_PEAK, REMOTE_MEMORY_GROWN, REMOTE_MEMORY_QUESTIONS };

struct remote_memory {
	enum remote_memory_state state;
	char id[REMOTE_MEMORY_ID]; /* random; who knows it may read the results */
	char owner[REMOTE_OWNER_MAX]; /* of the right with which it was begun */
	pid_t pid, pod_pid; /* as we, and as the client sees it */
	uint64_t start_ticks;
	uint64_t until_ns; /* RUNNING: the lease; OVER: it is kept so long */
	int ready_fd; /* each child writes a byte when its recording runs; -1: none */
	size_t nr_ready; /* children that have written theirs */
	struct remote_memory_child {
		pid_t pid; /* 0: it has ended */
		int status; /* then: from wait(2) */
		int html_fd, table_fd, said_fd; /* files in memory */
	} children[REMOTE_MEMORY_QUESTIONS];
};

struct remote_memory_request {
	struct remote_target target;
	pid_t pod_pid;
	const char *owner;
	bool subprocesses, allocations;
	uint64_t lease_ns;
};

/* 0; -EBUSY: too many, -EEXIST: the owner records the process already, both with a sentence added to why; or -errno. */
int remote_memory_begin(struct remote_memory **ret, struct daemon *daemon,
			const struct remote_memory_request *request, struct buf *why);
/*
 * The recording of a process, to be ended: that of the owner which runs, else its newest that is over, else with
 * of_others one that runs. start_ticks 0: not known. NULL: none.
 */
struct remote_memory *remote_memory_find(struct daemon *daemon, pid_t pod_pid, uint64_t start_ticks,
					 const char *owner, bool of_others);
struct remote_memory *remote_memory_by_id(struct daemon *daemon, const char *id);
/* Its children, if they run, get the signal. SIGINT: they write their results. Its state becomes OVER later. */
void remote_memory_end(struct remote_memory *memory, int signal);
/* Do all its children record, or have they recorded? False: not yet, or one of them failed. */
bool remote_memory_is_ready(struct remote_memory *memory);
/* The first sentence of a child that failed; "" if none did. */
void remote_memory_said(const struct remote_memory *memory, struct buf *dst);
/* Ends leases, takes the children that have ended, and frees what was kept long enough. */
void remote_memory_run(struct daemon *daemon, uint64_t now_ns);
/* The flame graph, and the table, as pages of HTML: a new descriptor at its begin, or -errno. */
int remote_memory_html(const struct remote_memory *memory, enum remote_memory_question question);
int remote_memory_table(const struct remote_memory *memory, enum remote_memory_question question);

#endif
