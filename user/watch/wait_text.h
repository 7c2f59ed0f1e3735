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

/* What the thread of the sentence waits for. */
enum wait_reason {
	WAIT_REASON_BUSY,
	WAIT_REASON_SLEEP,
	WAIT_REASON_STOPPED,
	WAIT_REASON_DISK, /* or a file server, or memory */
	WAIT_REASON_LOCK,
	WAIT_REASON_PROCESS, /* a pipe, a socket or a child */
	WAIT_REASON_COLLECTIVE,
	WAIT_REASON_OTHER,
	WAIT_NR_REASONS,
};
extern const char *const wait_reasons[WAIT_NR_REASONS]; /* the words */

/* Solves the graph. busy: it may be WAIT_VERDICT_BUSY. *ret_root: the thread of the sentence; WAIT_NOBODY: none. */
enum wait_verdict wait_judge(struct wait_facts *facts, bool busy, uint32_t *ret_root);
/* A line that begins with "Stalled: ", "Suspect: ", "Busy: " or "Alive: ", and has no end. */
void wait_sentence(struct buf *dst, const struct wait_facts *facts, enum wait_verdict verdict,
		   uint32_t root);
/* "Reason: ", the word and a newline. Without a thread the line is left out. */
void wait_reason_line(struct buf *dst, const struct wait_facts *facts, uint32_t root);

/* The verdict of a text that begins with such a sentence. *ret_sentence: what follows the word. */
enum wait_verdict wait_verdict_of(const char *text, const char **ret_sentence);
/* The reason in the second line; WAIT_REASON_OTHER: there is none. */
enum wait_reason wait_reason_of(const char *text);

/* The lines of the threads that wait for others, and of the stuck ones. */
void wait_lines(struct buf *dst, const struct wait_facts *facts);

#endif
