/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_WALK_H
#define BPFPROF_KERNEL_WALK_H

/*
 * Finishes walks that the kernel could not: a miss has the registers and a copy of the stack.
 * Missing mappings and rows become resident on the way, so that the next sample does not miss.
 */

#include <linux/types.h>
#include <stdint.h>

#include "base/budget.h"
#include "kernel/image_copy.h"
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
	struct refusals *refusals; /* or NULL */
	struct tables *tables;
	struct pythons *pythons;
	struct python_maps *python_maps; /* NULL where nothing is sampled */
	uint64_t *row_buffer; /* CFI_PAGE_MAX_ROWS */
	struct anon_code *anon_code;
	struct image_copies copies; /* files that are read from memory */
	/* Time budgets: mappings; pages of rows; rules from code; steps by complete rules. */
	struct tenant_budgets reading, building, learning, stepping;
	uint64_t vma_reads, vma_deferred, vma_timeouts, vmas_too_many;
	/*
	 * Pieces of code without tables: with a rule found, without one, put off for lack of time.
	 */
	uint64_t code_learned, code_unexplained, code_deferred;
	uint64_t pythons_too_many; /* processes without an element of the map pythons */
};

/* Classifies a native frame for python_merge(); arg: the walker. */
enum python_native walker_frame_kind(void *arg, uint64_t frame);

/* Call it after the borrowed members are set: 0 or -ENOMEM. */
int walker_init(struct walker *walker);
void walker_fini(struct walker *walker);

/* Reads the mappings of a live process again and publishes them. 0 or -errno. */
struct process;
int walker_refresh(struct walker *walker, struct process *process, uint64_t now_ns);
/*
 * The same for an unknown process, by its pid in our pid namespace. *ret_task, unless NULL: its
 * identity in the kernel. 0 or -errno.
 */
int walker_learn(struct walker *walker, uint32_t pid, uint64_t now_ns,
		 struct bpfprof_task_id *ret_task);
/*
 * A child has its parent's mappings until its own are read, so its files lie where the parent's do.
 */
void walker_forked(struct walker *walker, const struct process *parent,
		   const struct process *child);
/* Publishes the facts about process to the kernel. 0 or -errno. */
int walker_publish(struct walker *walker, struct process *process, uint64_t now_ns);

/* The parts of a received miss; all borrowed. */
struct walker_miss {
	const struct bpfprof_sample *sample;
	const struct bpfprof_miss_point *at;
	const struct bpfprof_python_entry *entries;
	const uint8_t *stack;
};

/*
 * frames[0..nr) are from the kernel's walk; more are appended, up to cap, with Python's eval loop
 * marked. *stop: why the stack ends. Returns the new number.
 */
uint32_t walker_finish(struct walker *walker, const struct walker_miss *miss, uint64_t *frames,
		       uint32_t nr, uint32_t cap, uint32_t *stop, uint64_t now_ns);

/* The start of a walk, and its stack. */
struct walker_stack {
	const __u64 *regs; /* BPFPROF_NR_REGS */
	uint32_t regs_valid; /* bit n: regs[n] is known */
	uint32_t pc_exact; /* 1: pc is the interrupted instruction, not a return address */
	struct unwind_reader *reader;
	const struct bpfprof_python_entry *entries; /* C calls of the eval loop, leaf first */
	uint32_t nr_entries, next_entry;
	const struct bpfprof_return *returns; /* return addresses that were replaced on it */
	uint32_t nr_returns;
	uint64_t ts_ns; /* when the registers were taken */
	/*
	 * Stack pointer in each frame, and one more: in the caller of the last frame, or of the
	 * last frame again. Room for cap + 1. NULL: not wanted.
	 */
	uint64_t *sps;
};

/* The same for any stack, such as one of a sleeping thread. *stop: why it ended early, or 0. */
uint32_t walker_walk(struct walker *walker, struct process *process,
		     const struct walker_stack *stack, uint64_t *frames, uint32_t nr, uint32_t cap,
		     uint32_t *stop, uint64_t now_ns);

#endif
