/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_WATCH_WAIT_TEXT_H
#define BPFPROF_WATCH_WAIT_TEXT_H

/* Can a job go on? The answer in a sentence, and the waits of its threads. */

#include <stdint.h>

struct buf;
struct wait_facts;

enum wait_verdict {
	WAIT_VERDICT_ALIVE, /* each thread runs, or something may end its wait */
	WAIT_VERDICT_SUSPECT, /* only time limits and sleeps may */
	WAIT_VERDICT_STALLED, /* some threads wait for what cannot come */
};

/* Solves the graph. *ret_root: the thread of the sentence; WAIT_NOBODY: none. */
enum wait_verdict wait_judge(struct wait_facts *facts, uint32_t *ret_root);
/* A line that begins with "Stalled: ", "Suspect: " or "Alive: ", and has no end. */
void wait_sentence(struct buf *dst, const struct wait_facts *facts, enum wait_verdict verdict,
		   uint32_t root);
/* The lines of the threads that wait for others, and of the stuck ones. */
void wait_lines(struct buf *dst, const struct wait_facts *facts);

#endif
