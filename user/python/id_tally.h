/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PYTHON_ID_TALLY_H
#define BPFPROF_PYTHON_ID_TALLY_H

/*
 * A set of the ids of Python processes, with a number for each. Ids only rise, by one with each process
 * that there ever was: so memory must follow how many are in the set, not how high they are.
 */

#include <stddef.h>
#include <stdint.h>

struct id_count {
	uint32_t id;
	uint32_t nr;
};

/* All zero is empty. To be freed by id_tally_fini(). */
struct id_tally {
	struct id_count *counts;
	size_t nr, cap;
};

int id_tally_add(struct id_tally *tally, uint32_t id); /* 0 or -ENOMEM */
void id_tally_sort(struct id_tally *tally); /* after the last one was added, to find them */
struct id_count *id_tally_find(const struct id_tally *tally, uint32_t id); /* or NULL */
void id_tally_fini(struct id_tally *tally);

#endif
