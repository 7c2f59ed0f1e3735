/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_FORMATS_PPROF_LABELS_H
#define BPFPROF_FORMATS_PPROF_LABELS_H

/* What the labels of a pprof's sample say of it: process, container, thread, call. */

#include <stdbool.h>
#include <stdint.h>

#include "profile/profile.h"

struct strtab;

#define PPROF_NR_LABELS 27

struct pprof_labels {
	uint32_t keys[PPROF_NR_LABELS]; /* texts in strings */
	uint32_t held; /* of a thread with the GIL */
};

/* All of one sample; zeroed before the first label. */
struct pprof_labelled {
	struct profile_process process;
	struct profile_container container;
	struct profile_sample sample;
	struct profile_call call;
	bool in_call; /* those of the call have begun */
	bool has_container, has_call;
};

void pprof_labels_init(struct pprof_labels *labels, struct strtab *strings);
/* Labels that are not ours are left out. */
void pprof_labels_take(const struct pprof_labels *labels, struct pprof_labelled *to, uint32_t key,
		       uint32_t text, uint64_t number);

#endif
