/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef BPFPROF_BPF_PYTHON_PLACE_H
#define BPFPROF_BPF_PYTHON_PLACE_H

/*
 * The place where C calls of one build's eval loop, up to 3.10, hold the frames that they run.
 * Plain C for BPF and user space; each has its own numbers of registers and words of a C frame,
 * from 1 on.
 */

#include "bpfprof.h"

/* Score cannot exceed this, so a few disagreeing calls change the place. */
#define PYTHON_PLACE_SURE 4
/* After so many calls of a stack without a frame, fewer checks are made. */
#define PYTHON_PLACE_TRIES 16

struct python_place {
	__u32 place; /* invalid while score is 0 */
	__u32 score; /* calls that hold their frame there, minus calls that hold it elsewhere */
};

/* Counts a call that holds its frame at the place found. */
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
