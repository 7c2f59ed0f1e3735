/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_REMAPPED_H
#define BPFPROF_KERNEL_REMAPPED_H

/*
 * Text that a process has moved to other memory in place: some programs copy it to huge pages,
 * anonymous memory at the addresses of the file. Such a mapping has no file, but holds functions of
 * the file. It counts as the file's only where other mappings of the file prove that a segment lies
 * there, and where the memory equals the file, because code made at run time may lie there as well.
 * Reads some pieces of memory under the deadline of memory.h.
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
	const struct process *process; /* with its mappings until now */
	uint32_t pid; /* as in our pid namespace */
	uint64_t now_ns;
	uint64_t cost_ns; /* result: its CPU time */
	/* private */
	uint64_t start_ns;
	unsigned int nr_compared;
};

/*
 * Assigns the image of the file to anonymous mappings with such text; splits mappings that hold
 * more. May replace *mappings (ascending, from malloc).
 */
void remapped_find(struct remapped_job *job, struct process_mapping **mappings, size_t *nr);

#endif
