/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_THREADS_TASK_STACKS_H
#define BPFPROF_THREADS_TASK_STACKS_H

/*
 * Time of asyncio tasks by stack, from repeated reads of the tasks of a process. The stack of a task begins with the
 * frames of the tasks that await it. The time between two reads counts once for each task, also if several tasks await
 * it: each of these has a part. A task that only waits for tasks has no time of its own. Bounds: TASK_STACKS_MAX stacks,
 * 3 MiB of their frames, TASK_STACKS_BYTES of their names; other tasks count for one stack without frames.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash_table.h"
#include "bpfprof.h"

struct strtab;
struct thread_reader;

#define TASK_STACKS_MAX 8192
#define TASK_STACKS_BYTES (2U << 20)
#define TASK_STACKS_MAX_FRAMES 1024 /* of one stack */
#define TASK_STACKS_MAX_PAGES 2048 /* of memory that are kept of one process */
#define TASK_STACKS_MAX_LOOPS 64 /* of a process whose threads are asked for alone */

struct task_stack_frame {
	uint32_t name, file; /* strings of the table */
	uint32_t line;
};

struct task_stack {
	struct hash_node node;
	uint64_t hash;
	struct bpfprof_task_id thread; /* in which the loop runs */
	char comm[BPFPROF_COMM_LEN], leader_comm[BPFPROF_COMM_LEN];
	const char *wait; /* names the reason: "timer", "socket", ...; static */
	bool parked; /* it has nothing to do */
	struct task_stack_frame *frames; /* outermost first */
	size_t nr_frames;
	double ns;
	uint64_t count; /* times that a task was seen there; 0: not yet */
};

struct task_stacks_counts {
	uint64_t snapshots; /* reads of the tasks of a process that runs a loop */
	uint64_t tasks; /* seen, in all snapshots together */
	uint64_t over; /* tasks that were not read, for lack of time or too many */
	uint64_t cut; /* stacks cut short, or without a place of their own */
	uint64_t torn; /* snapshots whose list of tasks changed while it was read */
	uint64_t moved; /* tasks whose stack changed while it was read */
	uint64_t unread; /* tasks whose memory could not be read, or made no sense */
	uint64_t undescribed; /* snapshots of a Python whose tasks cannot be read */
	uint64_t failed; /* processes that could not be read at that moment */
	uint64_t
		late_ns; /* time between two snapshots beyond the limit, which counts for no task */
};

struct task_stacks {
	struct hash_table table; /* struct task_stack */
	struct strtab *strings;
	struct task_stacks_counts counts;
	uint64_t seed;
	size_t nr_frames; /* of all stacks */
};

/* What is known of a process between two reads. Zeroed but for pid and last_ns, it is fresh. */
struct task_watch {
	uint32_t pid; /* as we see it */
	uint32_t kernel_pid;
	uint64_t last_ns; /* CLOCK_MONOTONIC: its tasks have their time until then */
	uint64_t learn_ns; /* when its mappings are read again */
	uint32_t tids[TASK_STACKS_MAX_LOOPS]; /* of the threads of its loops */
	size_t nr_tids; /* 0: not known */
	bool has_loop;
	/* The pages of its memory that the last read needed. The next one begins with them: it takes fewer passes. */
	uint64_t *pages;
	size_t nr_pages;
	unsigned int nr_large; /* reads to come for which the list would be too long */
};

void task_watch_fini(struct task_watch *watch);

int task_stacks_init(struct task_stacks *stacks); /* 0 or -ENOMEM */
void task_stacks_fini(struct task_stacks *stacks);
/* Drops all stacks and strings, not the counts. 0 or -ENOMEM. */
int task_stacks_clear(struct task_stacks *stacks);
/*
 * Reads the tasks of the process, and adds the time since watch->last_ns, at most max_ns, to their stacks. 0; -ESRCH
 * (there is no such process); -ENOMEM; -errno.
 */
int task_stacks_read(struct task_stacks *stacks, struct thread_reader *reader,
		     struct task_watch *watch, uint64_t max_ns);

#endif
