/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PYTHON_ID_TALLY_H
#define BPFPROF_PYTHON_ID_TALLY_H

/*
 * A set of ids of Python processes, with a number for each. Each new process gets a higher id, so memory
 * follows the number of ids in the set, not their size.
 */

#include <stddef.h>
#include <stdint.h>

struct id_count {
	uint32_t id;
	uint32_t nr;
};

/* A struct of zeros is empty. id_tally_fini() frees it. */
struct id_tally {
	struct id_count *counts;
	size_t nr, cap;
};

int id_tally_add(struct id_tally *tally, uint32_t id); /* 0 or -ENOMEM */
void id_tally_sort(struct id_tally *tally); /* after the last id_tally_add(), before a find */
struct id_count *id_tally_find(const struct id_tally *tally, uint32_t id); /* or NULL */
void id_tally_fini(struct id_tally *tally);

#endif
