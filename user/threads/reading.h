/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_THREADS_READING_H
#define BPFPROF_THREADS_READING_H

/* One process while it is read: what thread_read.c and the reading_*.c files share. */

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
#define DUMP_MARKER_BYTES 160

struct process;
struct python_code_cache;
struct remote;
struct strtab;

/* A CPython that runs in the process. */
struct reading_python {
	const struct bpfprof_python_layout *layout;
	uint32_t image;
	struct python_heap heap;
	struct python_tstates tstates;
	struct python_code_cache *codes;
};

/* The frames of the chain that one runtime runs. */
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
	bool tasks_older; /* the tasks were read before the thread was read for the last time */
};

/* One process that is being read. */
struct reading {
	struct thread_reader *reader;
	const struct thread_request *request;
	struct strtab *strings;
	struct process_dump *dump;
	struct dump *all; /* the dump that gets the process */
	struct thread_read_counts *counts;
	struct process *process; /* with its mappings; NULL: these are unknown */
	struct remote *remote; /* its memory; NULL: it has none */
	bool python_known; /* its thread states could be read */
	bool tasks_due; /* those of asyncio are to be read (again) */
	uint64_t tasks_ns; /* what reading them took */
	size_t nr_task_frames; /* of theirs in the process */
	struct reading_python pythons[BPFPROF_MAX_RUNTIMES];
	uint32_t nr_pythons; /* runtimes that run */
	struct python_thread_names names[BPFPROF_MAX_RUNTIMES]; /* threads of each runtime */
	struct tasks tasks;
	struct reading_thread *progress; /* of dump->threads */
	struct {
		uint32_t file, short_file;
	} shorts[DUMP_SHORT_SLOTS]; /* short forms of file names: finding them reads folders */
	struct python_chain chain;
	struct reading_part parts[BPFPROF_MAX_RUNTIMES]; /* of the chain, innermost first */
	uint32_t nr_parts;
	uint64_t native[DUMP_MAX_NATIVE_FRAMES];
	uint64_t native_sps[DUMP_MAX_NATIVE_FRAMES +
			    1]; /* where each native frame begins, and the last ends */
	struct {
		uint32_t image, comm_rank;
	} nccl; /* offset of a communicator's rank in that image: cuda/library.h */
	uint64_t python[PYTHON_CHAIN_MAX_FRAMES];
	uint64_t merged[2 * DUMP_MAX_NATIVE_FRAMES + PYTHON_CHAIN_MAX_FRAMES + 1];
};

/* thread_read.c */

/* Starts the child that reads memory, if it does not run: one for all owners. 0 or -errno. */
int reading_child_need(struct thread_reader *reader, enum thread_owner owner);
/* A thread that still has the memory of the process; 0: there is none. */
uint32_t reading_memory_tid(const struct tasks *tasks);

/* reading_collectives.c */

/*
 * Reads the collectives that frames of NCCL hold, of nr native and nr_merged merged frames. thread->frames has
 * `first` frames before these. 0 or -ENOMEM.
 */
int reading_collectives(struct reading *reading, struct thread_dump *thread, uint32_t nr,
			size_t nr_merged, size_t first);
/* The same, only to learn which memory that needs. */
void reading_collectives_try(struct reading *reading, uint32_t nr);

/* reading_pythons.c */

/* Finds the runtimes that run, and their thread states; anew in each round. */
void reading_pythons_begin(struct reading *reading);
void reading_pythons_end(struct reading *reading);
void reading_pythons_fini(struct reading *reading);
/* Sets what Python knows about the thread: name, number, GIL. */
void reading_identify(struct reading *reading, struct thread_dump *thread,
		      const struct bpfprof_task_state *task);
/* Fills in reading->chain: the frames of all states that Python has of the thread. */
void reading_chain(struct reading *reading, const struct bpfprof_task_state *task);
/* The Python that runs the frame of that index. */
struct reading_python *reading_python_of(struct reading *reading, size_t index);

/* python_version.c */

/*
 * "3.11.7" as an id of strings: version as in python/layout.h. Up to 3.10 it lacks the bug fix number: then
 * sys.version of the interpreter at interpreter_va (0: unknown) has it.
 */
uint32_t python_version_name(struct strtab *strings, uint32_t version, struct python_heap *heap,
			     uint64_t interpreter_va);

/* reading_stack.c */

/* Are native frames needed: asked for, or all there is? */
bool reading_wants_native(const struct reading *reading);
/* Walks its stacks only to learn which memory that needs. */
void reading_walk(struct reading *reading, const struct bpfprof_task_state *task);
/* Fills in its frames, innermost first. 0 or -ENOMEM. */
int reading_stack(struct reading *reading, struct thread_dump *thread,
		  const struct bpfprof_task_state *task);
/*
 * Fills in the frames of reading->chain alone, behind one that is `marker` ("": none), and a mark if the
 * chain is not complete. 0 or -ENOMEM.
 */
int reading_python_frames(struct reading *reading, struct thread_dump *thread, const char *marker);

/* reading_tasks.c */

/* Reads the tasks of asyncio, in place of those that were read before. 0 or -ENOMEM. */
int reading_async_tasks(struct reading *reading);
/* Marks those whose thread ran meanwhile. The threads are still in the order of reading->progress. */
void reading_async_finish(struct reading *reading);

#endif
