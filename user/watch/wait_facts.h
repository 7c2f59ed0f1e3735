/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_WATCH_WAIT_FACTS_H
#define BPFPROF_WATCH_WAIT_FACTS_H

/*
 * What each thread of a dump waits for, as a graph: from the system call that it is in and its arguments, the pipes
 * and sockets that processes have open, the parents of processes, the handlers of signals, the tasks of asyncio, and
 * the collectives of NCCL. Names of functions decide nothing. The job is all processes of the dump.
 */

#include <stddef.h>
#include <stdint.h>

#include "bpfprof.h"
#include "proc/ranks.h"
#include "watch/wait_call.h"
#include "watch/wait_graph.h"

struct dump;
struct process_dump;
struct task_dump;
struct thread_dump;
struct thread_reader;

#define WAIT_MAX_WANTS                                                                             \
	256 /* waits for pipes, sockets and children that are looked up; others count as live */

/* A thread that waits for a pipe, a socket or a child. */
struct want {
	uint32_t thread; /* in the graph */
	struct wait_call call;
	bool loop; /* the thread runs a loop of asyncio that watches nothing but this file */
	bool found; /* its own file */
	struct bpfprof_open_file file;
	uint32_t *ends; /* processes that hold the other end */
	size_t nr_ends, cap_ends;
};

struct wait_facts {
	const struct dump *dump; /* borrowed */
	struct wait_graph graph;
	struct ranks *ranks; /* of each process */
	size_t *firsts; /* index in the graph of the first thread of each process, and the number of all */
	struct want wants[WAIT_MAX_WANTS];
	size_t nr_wants, nr_over; /* waits that are looked up, and those that are not */
	uint32_t reading; /* the process whose files are read */
	bool again; /* the file that an epoll watches is to be looked up */
	bool elsewhere; /* the job has ranks that are not in the dump */
};

/*
 * Reads files and ranks, and fills in the graph, without solving it. The reader has thread_reader_waits, and the dump
 * has names. sleep_ns: as in the graph. 0; -ENOMEM; -errno. wait_facts_fini() is due in any case.
 */
int wait_facts_read(struct wait_facts *facts, struct thread_reader *reader, const struct dump *dump,
		    uint64_t sleep_ns);
void wait_facts_fini(struct wait_facts *facts);

const struct process_dump *wait_facts_process(const struct wait_facts *facts, uint32_t thread);
const struct thread_dump *wait_facts_thread(const struct wait_facts *facts, uint32_t thread);
/* A task of the loop of asyncio that the thread runs, best one that awaits no other task; NULL: none. */
const struct task_dump *wait_facts_task(const struct wait_facts *facts, uint32_t thread);

#endif
