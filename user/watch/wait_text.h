/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_WATCH_WAIT_TEXT_H
#define BPFPROF_WATCH_WAIT_TEXT_H

/* Can a job go on? The answer in a sentence, and the waits of its threads. */

#include <stdbool.h>
#include <stdint.h>

struct buf;
struct wait_facts;

enum wait_verdict {
	WAIT_VERDICT_ALIVE, /* each thread runs, or something may end its wait */
	WAIT_VERDICT_SUSPECT, /* only time limits and sleeps may */
	WAIT_VERDICT_STALLED, /* some threads wait for what cannot come */
	WAIT_VERDICT_BUSY, /* of some process, nothing but threads that run may go on: they may be busy in vain */
};

/* Solves the graph. busy: it may be WAIT_VERDICT_BUSY. *ret_root: the thread of the sentence; WAIT_NOBODY: none. */
enum wait_verdict wait_judge(struct wait_facts *facts, bool busy, uint32_t *ret_root);
/* A line that begins with "Stalled: ", "Suspect: ", "Busy: " or "Alive: ", and has no end. */
void wait_sentence(struct buf *dst, const struct wait_facts *facts, enum wait_verdict verdict,
		   uint32_t root);
/* "Reason: " and one of the words, and a newline: what the thread of the sentence waits for. Nothing without one. */
void wait_reason_line(struct buf *dst, const struct wait_facts *facts, uint32_t root);

/* Of the text that begins with both lines. *ret_sentence: what follows the verdict. */
enum wait_verdict wait_verdict_of(const char *text, const char **ret_sentence);
/* The index of the reason; that of "other": it has none. */
unsigned int wait_reason_of(const char *text);
#define WAIT_NR_REASONS 8
extern const char *const wait_reasons[WAIT_NR_REASONS];

/* The lines of the threads that wait for others, and of the stuck ones. */
void wait_lines(struct buf *dst, const struct wait_facts *facts);

#endif
