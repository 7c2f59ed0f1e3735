/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_WALK_H
#define BPFPROF_KERNEL_WALK_H

/*
 * Finishes in user space the walks that the kernel could not: a miss brings the registers and
 * a copy of the stack. What was missing (mappings, rows) is made resident on the way,
 * so that the next sample does not miss.
 */

#include <linux/types.h>
#include <stdint.h>

#include "base/budget.h"
#include "python/merge.h"

struct anon_code;
struct bpfprof_miss_point;
struct bpfprof_return;
struct bpfprof_sample;
struct bpfprof_python_entry;
struct bpfprof_task_id;
struct deadline_runner;
struct images;
struct processes;
struct python_maps;
struct pythons;
struct session;
struct tables;
struct unwind_reader;

struct walker {
	struct session *session;
	struct deadline_runner *runner;
	struct processes *processes;
	struct images *images;
	struct tables *tables;
	struct pythons *pythons;
	struct python_maps *python_maps;
	uint64_t *row_buffer; /* CFI_PAGE_MAX_ROWS */
	struct anon_code *anon_code;
	/* Mappings; pages of rows; rules from code; steps by complete rules. */
	struct budget reading, building, learning, stepping;
	uint64_t vma_reads, vma_deferred, vma_timeouts, vmas_too_many;
	/* Code without tables: read and understood, not understood, put off; of any kind. */
	uint64_t code_learned, code_unexplained, code_deferred;
	uint64_t pythons_too_many; /* processes that there was no element of the map pythons for */
};

/* What a native frame is to python_merge(); arg: the walker. */
enum python_native walker_frame_kind(void *arg, uint64_t frame);

int walker_init(struct walker *walker); /* after the borrowed members are set: 0 or -ENOMEM */
void walker_fini(struct walker *walker);

/* Reads the mappings of a live process again and puts them in force. 0 or -errno. */
struct process;
int walker_refresh(struct walker *walker, struct process *process, uint64_t now_ns);
/*
 * The same for a process that no sample or event has named yet, by the pid that we know it by.
 * *ret_task, unless NULL, is what the kernel calls it. 0 or -errno.
 */
int walker_learn(struct walker *walker, uint32_t pid, uint64_t now_ns,
		 struct bpfprof_task_id *ret_task);
/* A process whose mappings are its parent's until they are read has its files where that has them. */
void walker_forked(struct walker *walker, const struct process *parent,
		   const struct process *child);
/* Puts what is known of process in force for the kernel. 0 or -errno. */
int walker_publish(struct walker *walker, struct process *process, uint64_t now_ns);

/* A miss as it was received; all borrowed. */
struct walker_miss {
	const struct bpfprof_sample *sample;
	const struct bpfprof_miss_point *at;
	const struct bpfprof_python_entry *entries;
	const uint8_t *stack;
};

/*
 * frames[0..nr) holds what the kernel walked already; more are appended up to cap, with those
 * of Python's eval loop marked. *stop becomes why the stack ends. Returns the new number.
 */
uint32_t walker_finish(struct walker *walker, const struct walker_miss *miss, uint64_t *frames,
		       uint32_t nr, uint32_t cap, uint32_t *stop, uint64_t now_ns);

/* Where a walk begins, and what it walks over. */
struct walker_stack {
	const __u64 *regs; /* BPFPROF_NR_REGS */
	uint32_t regs_valid; /* bit n: regs[n] is known */
	uint32_t pc_exact; /* 1: pc is the interrupted instruction, not a return address */
	struct unwind_reader *reader;
	const struct bpfprof_python_entry *entries; /* C calls of the eval loop, leaf first */
	uint32_t nr_entries, next_entry;
	const struct bpfprof_return *returns; /* that were replaced on it */
	uint32_t nr_returns;
	uint64_t ts_ns; /* when the registers were taken */
	/*
	 * The stack pointer in each frame, as frames, and behind them in what the last one returns
	 * to, or the last one's again: room for cap and 1. NULL: not wanted.
	 */
	uint64_t *sps;
};

/* The same for any stack: that of a thread that sleeps. *stop: why it ended before, or 0. */
uint32_t walker_walk(struct walker *walker, struct process *process,
		     const struct walker_stack *stack, uint64_t *frames, uint32_t nr, uint32_t cap,
		     uint32_t *stop, uint64_t now_ns);

#endif
