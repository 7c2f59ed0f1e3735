/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef BPFPROF_BPF_PYTHON_PLACE_H
#define BPFPROF_BPF_PYTHON_PLACE_H

/*
 * Where the C calls of one build's eval loop, up to 3.10, hold the frames that they run. Plain C, for BPF and
 * for user space; each numbers the registers and words of a C frame in its own way, from 1 on.
 */

#include "bpfprof.h"

#define PYTHON_PLACE_SURE 4 /* at most so many calls outweigh those that disagree */
#define PYTHON_PLACE_TRIES                                                                         \
	16 /* calls of a stack that hold no frame, until less is asked of the others */

struct python_place {
	__u32 place; /* means nothing while score is 0 */
	__u32 score; /* calls that hold their frame there, less those that hold it elsewhere */
};

/* A call held its frame at the place found: a vote for that. */
static inline void python_place_vote(struct python_place *p, __u32 found)
{
	if (!p->score) {
		p->place = found;
		p->score = 1;
	} else if (p->place != found) {
		p->score--;
	} else if (p->score < PYTHON_PLACE_SURE) {
		p->score++;
	}
}

#endif
