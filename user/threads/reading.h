/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_THREADS_READING_H
#define BPFPROF_THREADS_READING_H

/*
 * One process while it is read: shared by thread_read.c, which goes from round to round, and
 * reading_stack.c, which takes one thread's stack, and by nobody else.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpfprof.h"
#include "kernel/tasks.h"
#include "python/chain.h"
#include "python/heap.h"
#include "python/thread_names.h"
#include "python/tstates.h"
#include "threads/thread_reader.h"
#include "threads/thread_dump.h"

#define DUMP_MAX_NATIVE_FRAMES 16384
#define DUMP_SHORT_SLOTS 64

struct process;
struct python_code_cache;
struct remote;

/* A CPython that runs in the process. */
struct reading_python {
	const struct bpfprof_python_layout *layout;
	uint32_t image;
	struct python_heap heap;
	struct python_tstates tstates;
	struct python_code_cache *codes;
};

/* Frames of the chain that one of them runs. */
struct reading_part {
	struct reading_python *python;
	uint32_t end; /* index of the first frame behind them */
};

/* How far one thread is. */
enum progress { THREAD_TO_READ, THREAD_READ, THREAD_RUNNING, THREAD_GONE, THREAD_LATE };

struct reading_thread {
	enum progress progress;
	uint64_t nr_switches; /* when it was read */
	bool prefetched;
};

/* One process that is being read. */
struct reading {
	struct thread_reader *reader;
	const struct thread_request *request;
	struct strtab *strings;
	struct process_dump *dump;
	struct dump *all; /* that it is part of */
	struct thread_read_counts *counts;
	struct process *process; /* its mappings, NULL: not known */
	struct remote *remote; /* NULL: has no memory */
	bool python_known; /* its thread states could be read */
	struct reading_python pythons[BPFPROF_MAX_RUNTIMES];
	uint32_t nr_pythons; /* that run */
	struct python_thread_names names[BPFPROF_MAX_RUNTIMES]; /* of the threads of each of them */
	struct tasks tasks;
	struct reading_thread *progress; /* of dump->threads */
	struct {
		uint32_t file, short_file;
	} shorts[DUMP_SHORT_SLOTS]; /* short forms: looking at folders takes its time */
	struct python_chain chain;
	struct reading_part parts[BPFPROF_MAX_RUNTIMES]; /* of it, innermost first */
	uint32_t nr_parts;
	uint64_t native[DUMP_MAX_NATIVE_FRAMES];
	uint64_t native_sps[DUMP_MAX_NATIVE_FRAMES +
			    1]; /* where each of them begins, and the last ends */
	struct {
		uint32_t image, comm_rank;
	} nccl; /* where that image has a communicator's rank: cuda/library.h */
	uint64_t python[PYTHON_CHAIN_MAX_FRAMES];
	uint64_t merged[2 * DUMP_MAX_NATIVE_FRAMES + PYTHON_CHAIN_MAX_FRAMES + 1];
};

/* reading_collectives.c */

/* Reads what frames of NCCL's say, of nr native and nr_merged merged ones. first: thread->frames has so many before these. 0 or -ENOMEM. */
int reading_collectives(struct reading *reading, struct thread_dump *thread, uint32_t nr,
			size_t nr_merged, size_t first);
/* The same, and takes nothing of it. */
void reading_collectives_try(struct reading *reading, uint32_t nr);

/* reading_pythons.c */

/* Which of the runtimes of the process run, and their thread states; anew in each round. */
void reading_pythons_begin(struct reading *reading);
void reading_pythons_end(struct reading *reading);
void reading_pythons_fini(struct reading *reading);
/* What Python knows of the thread: name, number, GIL. */
void reading_identify(struct reading *reading, struct thread_dump *thread,
		      const struct bpfprof_task_state *task);
/* Fills in reading->chain: the frames of all states that Python has of the thread. */
void reading_chain(struct reading *reading, const struct bpfprof_task_state *task);
/* The Python that runs the frame of that index. */
struct reading_python *reading_python_of(struct reading *reading, size_t index);

/* reading_stack.c */

/* Are native frames needed: asked for, or all there is? */
bool reading_wants_native(const struct reading *reading);
/* Walks its stacks and takes nothing of it: to learn what memory that needs. */
void reading_walk(struct reading *reading, const struct bpfprof_task_state *task);
/* Fills in its frames, innermost first. 0 or -ENOMEM. */
int reading_stack(struct reading *reading, struct thread_dump *thread,
		  const struct bpfprof_task_state *task);

#endif
