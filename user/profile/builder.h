/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_BUILDER_H
#define BPFPROF_PROFILE_BUILDER_H

/*
 * Builds a struct profile piece by piece, from files. Equal pieces are kept once, so that the same stack
 * of many files costs no more than that of one; samples that differ only in their numbers are added up.
 * Bounded in bytes. The caller owns the struct; not thread-safe.
 */

#include <stddef.h>
#include <stdint.h>

#include "profile/piece_set.h"
#include "profile/profile.h"
#include "profile/stack_set.h"

struct profile_builder {
	struct strtab *strings; /* of the profile; the caller fills it */
	struct table_budget budget;
	uint64_t seed; /* of hashes: files choose the keys */
	struct piece_set mappings, locations, containers, processes, calls, samples;
	struct stack_set stacks; /* of locations */
	uint64_t
		nr_frames; /* of all samples: stacks share them, but those that read a profile go through each */
	struct vec call_values; /* per sample, after the first sample of calls */
};

/* At most so many bytes of arrays and strings. 0 or -ENOMEM. */
int profile_builder_init(struct profile_builder *b, size_t max_bytes);
void profile_builder_fini(struct profile_builder *b);

/* Adds item[size] to set; *ret is its index. 0, -E2BIG or -ENOMEM. */
int profile_builder_piece(struct profile_builder *b, struct piece_set *set, const void *item,
			  size_t size, uint32_t *ret);

/*
 * Each function adds one piece; *ret is its number as in profile.h: index + 1 for mappings, containers and
 * calls, else the index. 0, -E2BIG or -ENOMEM.
 */
int profile_builder_mapping(struct profile_builder *b, const struct profile_mapping *mapping,
			    uint32_t *ret);
int profile_builder_location(struct profile_builder *b, const struct profile_location *location,
			     uint32_t *ret);
int profile_builder_container(struct profile_builder *b, const struct profile_container *container,
			      uint32_t *ret);
int profile_builder_process(struct profile_builder *b, const struct profile_process *process,
			    uint32_t *ret);
int profile_builder_call(struct profile_builder *b, const struct profile_call *call, uint32_t *ret);
/* Leaf first. */
int profile_builder_stack(struct profile_builder *b, const uint32_t *locations, uint32_t nr,
			  uint32_t *ret);
/* Adds to an equal sample if there is one. values: of calls, else NULL. */
int profile_builder_sample(struct profile_builder *b, const struct profile_sample *sample,
			   const uint64_t values[PROFILE_NR_CALL_VALUES]);

/* Moves everything to *ret, for which profile_fini() is due; the builder is empty afterwards. */
void profile_builder_finish(struct profile_builder *b, struct profile *ret);

#endif
