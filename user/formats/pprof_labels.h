/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_FORMATS_PPROF_LABELS_H
#define BPFPROF_FORMATS_PPROF_LABELS_H

/* Reads process, container, thread and call of a pprof's sample from its labels. */

#include <stdbool.h>
#include <stdint.h>

#include "profile/profile.h"

struct strtab;

#define PPROF_NR_LABELS 28

struct pprof_labels {
	uint32_t keys[PPROF_NR_LABELS]; /* texts in strings */
	uint32_t held; /* the text of a thread with the GIL */
};

/* The facts about one sample; zero before the first label. */
struct pprof_labelled {
	struct profile_process process;
	struct profile_container container;
	struct profile_sample sample;
	struct profile_call call;
	bool in_call; /* the labels of the call have begun */
	bool has_container, has_call;
};

void pprof_labels_init(struct pprof_labels *labels, struct strtab *strings);
/* Ignores labels of other tools. */
void pprof_labels_take(const struct pprof_labels *labels, struct pprof_labelled *to, uint32_t key,
		       uint32_t text, uint64_t number);

#endif
