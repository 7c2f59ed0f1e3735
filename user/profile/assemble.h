/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_ASSEMBLE_H
#define BPFPROF_PROFILE_ASSEMBLE_H

/* Copies everything but locations from an aggregate to a profile. */

#include <stdbool.h>
#include <stdint.h>

struct aggregate_view;
struct profile;
struct strtab;

/*
 * Copies stacks, samples, processes, calls and containers; profile->strings must exist. calls: makes
 * the arrays of calls even if there was none. 0 or -ENOMEM; the caller frees the profile either way.
 */
int assemble(struct profile *profile, const struct aggregate_view *view, bool calls);
/* The text of a label as a string of the profile; 0 for label 0. */
uint32_t assemble_label(struct profile *profile, const struct strtab *labels, uint32_t id);

#endif
