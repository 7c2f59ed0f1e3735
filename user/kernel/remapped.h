/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_REMAPPED_H
#define BPFPROF_KERNEL_REMAPPED_H

/*
 * Text that a process has moved onto other memory in place: those that want it on huge pages copy it to
 * anonymous memory at the addresses that the file had. Such a mapping has no file, but the functions
 * are still the file's. It is taken for the file only where one of its segments must lie, by what
 * else is mapped of the file, and where the memory holds what the file holds: code that was made at run
 * time may lie there as well. Reads some pieces of memory under the deadline of memory.h.
 */

#include <stddef.h>
#include <stdint.h>

struct deadline_runner;
struct images;
struct process;
struct process_mapping;
struct session;

struct remapped_job {
	struct session *session;
	struct deadline_runner *runner;
	struct images *images;
	const struct process *process; /* with the mappings that were in force until now */
	uint32_t pid; /* as we know it */
	uint64_t now_ns;
	uint64_t cost_ns; /* result: that it took */
	/* private */
	uint64_t start_ns;
	unsigned int nr_compared;
};

/*
 * Gives anonymous mappings that are such text the file's image; mappings that hold more than that are split. *mappings
 * (ascending, from malloc) may be replaced.
 */
void remapped_find(struct remapped_job *job, struct process_mapping **mappings, size_t *nr);

#endif
