/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_THREADS_THREAD_READER_H
#define BPFPROF_THREADS_THREAD_READER_H

/*
 * Room threads: reads the stacks of all threads of a process without stopping it.
 *
 * The kernel gives states and kernel stacks first, which always works; then memory, over which the
 * walkers of the sampler run. A thread that ran meanwhile, by its context switches, is read again, and
 * marked if it never holds still. A thread on a CPU has no registers to read: the sampler takes its
 * stack (capture/dump_burst.h).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/deadline.h"
#include "base/refusals.h"
#include "kernel/session.h"
#include "kernel/walk.h"

struct containers;
struct dump;
struct images;
struct private_files;
struct process;
struct process_part;
struct processes;
struct remote_child;
struct tasks_choice;

/* The parts that ask for stacks. The child that reads memory lives until no part needs it. */
enum thread_owner {
	THREAD_OWNER_DUMP,
	THREAD_OWNER_WAITS, /* of --wall and --off-cpu, where an interval ends */
	THREAD_OWNER_INFLIGHT, /* GPU calls that began before the hooks were attached */
	THREAD_OWNER_GAPS, /* threads that sleep while their GPU is idle */
	THREAD_OWNER_ASYNC, /* asyncio in sampled processes */
	THREAD_OWNER_ABSENT, /* ranks without a call, while others wait for them */
	THREAD_OWNER_TASKS, /* of asyncio, again and again (task_stacks.h) */
};

/*
 * What reading threads takes: the loaded BPF programs, and the facts about processes and their files.
 * `dump` opens it alone; a sampler has one inside. The caller owns it; it must not move.
 */
struct thread_reader {
	struct session session;
	struct walker walker;
	struct refusals refusals;
	struct deadline_runner *runner;
	struct processes *processes;
	struct images *images;
	struct private_files *private_files;
	struct containers *containers;
	struct remote_child
		*child; /* reads memory of other processes; NULL while no owner needs it */
	uint32_t owners; /* that need the child: bits 1 << enum thread_owner */
	unsigned int ready_ms; /* of remote_child_patience(), for the next child */
};

/* Options of a session that only reads threads, and of one that reads open files and environments, too. */
extern const struct session_options thread_reader_alone, thread_reader_waits;

/*
 * Opens the session, then the rest. options: NULL for thread_reader_alone. parts: the
 * state that rooms keep for each process. 0 or -errno; reader->session.skel is NULL if the session
 * failed. thread_reader_close() is due in any case; it also closes a zeroed reader.
 */
int thread_reader_open(struct thread_reader *reader, const struct session_options *options,
		       const struct process_part *parts, size_t nr_parts, const char *host_root);
/* Frees all that naming frames does not need: programs, maps, processes. */
void thread_reader_let_go(struct thread_reader *reader);
void thread_reader_close(struct thread_reader *reader);

/* One process to be read. Limits of 0 are those of thread_dump.h and kernel/remote.h. */
struct thread_request {
	enum thread_owner owner;
	uint32_t pid; /* as we see it */
	const struct tasks_choice *threads; /* these alone; NULL: all of the process */
	bool native; /* native frames, also of threads that run Python */
	bool waits; /* frames that say what a thread waits for */
	bool tasks; /* the tasks of asyncio, too */
	unsigned int
		locals; /* 0: no variables; else PYTHON_REPR_CHARS times this many characters */
	uint64_t deadline_ns; /* CLOCK_MONOTONIC */
	size_t max_frames; /* that the dump may hold */
	size_t max_pages; /* of memory, kept while the process is read */
};

/* Problems while one process was read. */
struct thread_read_counts {
	uint64_t nr_rounds; /* times that threads were read */
	uint64_t nr_inconsistent; /* threads that ran all the time */
	uint64_t nr_late; /* threads not read before the deadline */
	uint64_t nr_hung; /* reads of memory that hung */
	uint64_t nr_refused; /* pages beyond what is kept of one process, or after reads hung */
	uint64_t nr_unreadable; /* Python objects */
	uint64_t nr_bad; /* objects that make no sense, cyclic lists, more than our limits */
	uint64_t nr_beyond; /* places where a Python may run, beyond those that are checked */
	uint64_t nr_cut; /* stacks and lists of variables longer than our limits */
	bool too_many_threads; /* more than TASKS_MAX: the dump has the first of them */
	bool ended; /* the process ended while it was read: the dump is incomplete */
	const char *other_python; /* an interpreter that is not CPython; NULL: none. Never freed */
	struct deadline_wait hung; /* what the last of nr_hung waited for */
	int mappings_error; /* -errno: why the mappings are unknown; 0 */
	struct deadline_wait mappings_wait; /* after -ETIMEDOUT: what that read waited for */
	int python_error; /* -errno: why the state of Python is unknown; 0 */
	uint64_t nr_passes, nr_pages; /* of reading memory */
	uint64_t read_ns; /* from the first state to the last memory */
};

/*
 * Adds the process to dump; native and kernel frames have no names yet (stack_names.h). 0; -ESRCH no such
 * process; -ENODATA it has ended and waits for its parent; -ETIME after the deadline; -ENOMEM; -errno.
 */
int thread_read(struct thread_reader *reader, const struct thread_request *request,
		struct dump *dump, struct thread_read_counts *ret_counts);
/*
 * Finds asyncio in a sampled process and publishes it (python_maps_async()). 0; -ENODATA: the process has not
 * imported it (yet); -ENOTSUP: its _asyncio is not known; -errno.
 */
int thread_reader_async(struct thread_reader *reader, struct process *process);
/* The owner reads no more for now. The child ends with its last owner. */
void thread_read_end(struct thread_reader *reader, enum thread_owner owner);

#endif
