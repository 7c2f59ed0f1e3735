/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_SYMBOLIZE_H
#define BPFPROF_PROFILE_SYMBOLIZE_H

/*
 * Makes a profile of named locations out of counted stacks of wire frames. Every distinct frame is
 * resolved once, in one pass over the symbols of each image.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"

struct aggregate;
struct aggregate_process;
struct aggregate_view;
struct codes;
struct deadline_runner;
struct images;
struct profile;
struct stats_reasons;

struct symbolize_options {
	const char *kallsyms; /* normally /proc/kallsyms */
	uint64_t now_ns;
	uint64_t deadline_ns; /* CLOCK_MONOTONIC; no further file is read after it, 0: never */
	struct codes *codes; /* of Python frames */
	uint32_t target_program; /* image of the target, 0: none, or not known */
	struct deadline_runner *runner; /* NULL: does not read folders of Python files */
	char *cut_map; /* JIT_NAMES_PATH_BYTES for the path of a map that is too long; or NULL */
	size_t name_bytes; /* names get no more than about this much: long ones are cut then; 0: 32 MiB */
	struct aggregate *release; /* released once its samples are copied; NULL: none */
	bool calls; /* make a profile of calls even if there was none */
	bool ranges; /* fill in same_start and same_end for native and kernel code */
};

/*
 * Makes strings, mappings, locations, stacks, samples and processes; profile_fini() frees them. Counts
 * problems of files in files. Sets *kernel_names_hidden if the kernel hides its addresses. 0 or -ENOMEM.
 */
int symbolize(struct profile *ret, const struct aggregate_view *view, struct images *images,
	      const struct symbolize_options *options, struct stats_reasons *files,
	      int *kernel_names_hidden);

/*
 * The same for frames alone, distinct and ascending: location i is that of frames[i], and there are no
 * stacks, samples and processes. NATIVE_VA frames refer to processes[].
 */
int symbolize_frames(struct profile *ret, const uint64_t *frames, size_t nr,
		     const struct aggregate_process *processes, size_t nr_processes,
		     struct images *images, const struct symbolize_options *options,
		     struct stats_reasons *files, int *kernel_names_hidden);

/* The first reason in files why a file gave no names, or not all; NULL: none. */
const char *symbolize_problem(const struct stats_reasons *files);

extern const struct counter symbolize_counters[];

/* The number of frames at the begin that are resolved together, in one pass over one file. */
size_t symbolize_group(const uint64_t *frames, size_t nr);

#endif
