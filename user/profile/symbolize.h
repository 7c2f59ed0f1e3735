/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_SYMBOLIZE_H
#define BPFPROF_PROFILE_SYMBOLIZE_H

/*
 * From counted stacks of wire frames to a profile of named locations. Every distinct
 * frame is resolved once, image by image, in one pass over that image's symbols.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"

struct aggregate_process;
struct aggregate_view;
struct codes;
struct deadline_runner;
struct images;
struct profile;
struct stats_reasons;

#define SYMBOLIZE_MAP_BYTES 64

struct symbolize_options {
	const char *kallsyms; /* normally /proc/kallsyms */
	uint64_t now_ns;
	uint64_t
		deadline_ns; /* CLOCK_MONOTONIC; symbols of no further file are read then. 0: never */
	struct codes *codes; /* what Python frames refer to */
	uint32_t target_program; /* image of what was asked for, 0: nothing, or not known */
	struct deadline_runner *
		runner; /* NULL: do not look at the folders of Python files, where their processes have them */
	char *cut_map; /* SYMBOLIZE_MAP_BYTES for the path of one map of JIT code that was not read whole; or NULL */
	bool calls; /* make a profile of calls also if there was none */
	bool ranges; /* fill in same_start and same_end, for native and kernel code */
};

/*
 * Fills in strings, mappings, locations, stacks, samples and the processes' pid and comm.
 * files gets problems found on the way. ret->strings is made here; the caller frees
 * all of it by profile_fini(). 0 or -ENOMEM.
 * kernel_names_hidden is set to 1 if kernel addresses cannot be seen.
 */
int symbolize(struct profile *ret, const struct aggregate_view *view, struct images *images,
	      const struct symbolize_options *options, struct stats_reasons *files,
	      int *kernel_names_hidden);

/*
 * The same for frames alone, distinct and ascending: location i is that of frames[i]; there are no
 * stacks, samples and processes. processes[] are those that NATIVE_VA frames refer to.
 */
int symbolize_frames(struct profile *ret, const uint64_t *frames, size_t nr,
		     const struct aggregate_process *processes, size_t nr_processes,
		     struct images *images, const struct symbolize_options *options,
		     struct stats_reasons *files, int *kernel_names_hidden);

/* The first of files that says why a file gave no names, or not all; NULL: none. */
const char *symbolize_problem(const struct stats_reasons *files);

extern const struct counter symbolize_counters[];

/* How many of the first of them are resolved together, in one pass over one file. */
size_t symbolize_group(const uint64_t *frames, size_t nr);

#endif
