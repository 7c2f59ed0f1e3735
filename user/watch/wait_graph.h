/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_WATCH_WAIT_GRAPH_H
#define BPFPROF_WATCH_WAIT_GRAPH_H

/*
 * Which threads of a job can go on, and which wait for each other? A thread is live if it runs, if something outside
 * of the job or time may end its wait, or if a live thread may end it. A thread that is not live is stuck: no thread
 * that could end its wait will ever run. Pure: the caller fills in what each thread waits for.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum wait_kind {
	WAIT_NONE = 0, /* it runs, or its wait is not known */
	WAIT_OUTSIDE, /* an event, a connection, a terminal, a signal: something outside of the job ends it */
	WAIT_TIME, /* it sleeps for some time */
	WAIT_STOPPED, /* SIGSTOP, or a debugger */
	WAIT_KERNEL, /* an answer of a disk or server: a sleep that signals do not end, or a page fault */
	WAIT_LOCK, /* a lock or condition: any thread of its process may end it */
	WAIT_SHARED, /* the same, in memory that processes share: any thread of the job */
	WAIT_ENDS, /* a pipe, a socket, a child: threads of certain processes */
	WAIT_COLLECTIVE, /* a collective of NCCL: threads of the other ranks that are in none */
};

#define WAIT_NOBODY UINT32_MAX

/* The threads of a process stand together, its first one first. */
struct wait_thread {
	uint32_t process; /* index */
	enum wait_kind kind;
	bool timed; /* it goes on after some time, too */
	bool handled; /* the handler of a signal may end its wait */
	bool helper; /* runs no Python in a process of Python: a thread of a runtime */
	bool of_library; /* all Python that it runs is of libraries, and it is not the first thread */
	bool beyond; /* a process that the graph does not have may end the wait, too */
	uint64_t asleep_ns; /* at least; 0: unknown */
	const uint32_t *ends; /* of WAIT_ENDS: indexes of processes, borrowed */
	size_t nr_ends;

	/* Results */
	bool live;
	uint32_t
		by; /* a thread that may end the wait: the one that makes it live; WAIT_NOBODY: it is live by itself */
};

struct wait_process {
	bool member; /* it has a part in the job now, unlike an idle worker */

	/* Of the caller: zero. Threads of it that are live, also those in no collective; WAIT_NOBODY: none. */
	uint32_t live, live_apart;
};

struct wait_graph {
	struct wait_thread *threads;
	size_t nr_threads;
	struct wait_process *processes;
	size_t nr_processes;
	/*
	 * The processes work on one job, a Ray job or one with ranks. Runtimes of such jobs have threads that always
	 * wait for events and timers, so a helper is live only while it runs, and a time limit of a lock is no life.
	 */
	bool is_job;
	bool ranked; /* of a job with ranks: a sleep of sleep_ns or more is no life while others wait for the rank */
	uint64_t sleep_ns;
	/*
	 * Asks for a suspicion. Then no life is: a time limit of a lock, beyond sleep_ns or in a job; the handler of a
	 * signal; in a job, a sleep of half a minute while others wait, and a thread of a library: Ray has some that
	 * only wait for events.
	 */
	bool doubt;
	bool busy; /* with doubt: asks for threads that may be busy in vain. To run is no life then. */
	uint32_t any_live; /* of the solution: a live thread */
	/* Of the solution: the first member with a thread that is live in no collective, and the next one. */
	uint32_t members_apart[2];
	/* Of the solution: a process with a thread that may wait for others, and whether there is another such process. */
	uint32_t waiting;
	bool waiting_more;
};

/* Sets the results of all threads. */
void wait_graph_solve(struct wait_graph *graph);
/*
 * The stuck thread that explains most: one that is stopped, else in the kernel, a collective, ... If it waits for another
 * process, the thread is that at the end of the chain. With busy, the thread is the first one of a process that has no
 * live thread. WAIT_NOBODY: there is no such thread.
 */
uint32_t wait_graph_root(const struct wait_graph *graph);

#endif
