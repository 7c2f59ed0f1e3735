/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_WALK_H
#define BPFPROF_KERNEL_WALK_H

/*
 * Finishes in user space the walks that the kernel could not: a miss brings the registers and
 * a copy of the stack. What was missing (mappings, rows) is made resident on the way,
 * so that the next sample does not miss.
 */

#include <stdint.h>

#include "base/budget.h"

struct bpfprof_miss;
struct deadline_runner;
struct images;
struct processes;
struct python_maps;
struct pythons;
struct session;
struct tables;

struct walker {
	struct session *session;
	struct deadline_runner *runner;
	struct processes *processes;
	struct images *images;
	struct tables *tables;
	struct pythons *pythons;
	struct python_maps *python_maps;
	uint64_t *row_buffer; /* CFI_PAGE_MAX_ROWS */
	struct budget reading, building; /* mappings of processes; pages of rows */
	uint64_t vma_reads, vma_deferred, vma_timeouts, vmas_too_many;
	uint64_t pythons_too_many; /* processes that there was no element of the map pythons for */
};

int walker_init(struct walker *walker); /* after the borrowed members are set: 0 or -ENOMEM */
void walker_fini(struct walker *walker);

/* Reads the mappings of a live process again and puts them in force. 0 or -errno. */
struct process;
int walker_refresh(struct walker *walker, struct process *process, uint64_t now_ns);
/* The same for a process that no sample or event has named yet. 0 or -errno. */
int walker_learn(struct walker *walker, uint32_t pid, uint64_t now_ns);
/* Puts what is known of process in force for the kernel. 0 or -errno. */
int walker_publish(struct walker *walker, struct process *process, uint64_t now_ns);

/*
 * frames[0..nr) holds what the kernel walked already; more are appended up to cap, with those
 * of Python's eval loop marked. *stop becomes why the stack ends. Returns the new number.
 */
uint32_t walker_finish(struct walker *walker, const struct bpfprof_miss *miss, uint64_t *frames,
		       uint32_t nr, uint32_t cap, uint32_t *stop, uint64_t now_ns);

#endif
