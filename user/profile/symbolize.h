/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_SYMBOLIZE_H
#define BPFPROF_PROFILE_SYMBOLIZE_H

/*
 * From counted stacks of wire frames to a profile of named locations. Every distinct
 * frame is resolved once, image by image, in one pass over that image's symbols.
 */

#include <stddef.h>
#include <stdint.h>

struct aggregate_view;
struct codes;
struct deadline_runner;
struct images;
struct profile;
struct stats_reasons;

struct symbolize_options {
	const char *kallsyms; /* normally /proc/kallsyms */
	uint64_t now_ns;
	struct codes *codes; /* what Python frames refer to */
	struct deadline_runner
		*runner; /* for looking at folders of Python files; NULL: do not look */
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

#endif
