/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_PROBES_ALLOC_PROBES_H
#define BPFPROF_KERNEL_PROBES_ALLOC_PROBES_H

/*
 * Probes on the functions of the memory allocator of each target process, in that process alone: the
 * program, if it defines malloc itself, else a library that does, the C library last. A process that
 * executes another program, or maps another allocator, is hooked anew.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allocations.h"

struct alloc_probes;
struct deadline_runner;
struct images;
struct process;
struct processes;
struct session;

struct alloc_probes_losses {
	uint64_t nr_without; /* processes in which no allocator was found */
	uint64_t nr_failed; /* processes that the kernel could not hook */
	uint64_t nr_full; /* processes over the limit, at a time */
	uint64_t nr_unclean; /* tries of alloc_probes_clean() that failed */
};

/* While there is one thread: the feature that this kernel lacks, and the remedy; NULL: none. */
const char *alloc_probes_lack(const char **remedy);
/* For a session with the option allocations. Borrows all. 0 or -errno. */
int alloc_probes_new(struct alloc_probes **ret, struct session *session, struct images *images,
		     struct processes *processes, struct deadline_runner *runner);
/* Detaches. NULL is fine. */
void alloc_probes_free(struct alloc_probes *probes);

/* The cost of a probe at the begin of a call, as measured on ourselves. */
uint64_t alloc_probes_call_ns(struct alloc_probes *probes);
/* Hooks new processes, and those that have changed. Returns the number of hooked processes. */
size_t alloc_probes_scan(struct alloc_probes *probes);
/*
 * Children that were forked have the breakpoints of their parent. Takes them out of those that are not hooked
 * themselves, which would pay for each call. The next call tries again what fails.
 */
void alloc_probes_clean(struct alloc_probes *probes);
void alloc_probes_exit(struct alloc_probes *probes, uint32_t pid);
/* Takes the probes out of the process, or puts them in again. */
void alloc_probes_set(struct alloc_probes *probes, uint32_t pid, bool on);
/* Other processes with probes in the same allocator: the kernel asks the link of each at every call. */
size_t alloc_probes_nr_others(const struct alloc_probes *probes, uint32_t pid);
/* Are probes in the process now? */
bool alloc_probes_are_on(const struct alloc_probes *probes, uint32_t pid);
const struct alloc_probes_losses *alloc_probes_losses(const struct alloc_probes *probes);

#endif
