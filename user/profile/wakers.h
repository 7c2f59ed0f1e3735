/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_WAKERS_H
#define BPFPROF_PROFILE_WAKERS_H

/*
 * Who ended a wait: told when it was done, and kept until the sample of the wait comes, if it ever does.
 * Bounded: WAKERS_MAX of them and WAKERS_MAX_BYTES of their stacks; then the oldest goes, which is
 * counted.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct aggregate_input;
struct bpfprof_sample;
struct wakers;

#define WAKERS_MAX 4096
#define WAKERS_MAX_BYTES (2U << 20)
#define WAKERS_MAX_LINKS 4096
#define WAKERS_MAX_FRAMES 512 /* of one stack; what is further out is left out */

#define WAKERS_SEPARATOR                                                                           \
	"--" /* between a wait's stack and that of its waker, as offwaketime has it */
#define WAKERS_INTERRUPT "[woken by an interrupt]"
#define WAKERS_UNKNOWN "[waker not known]"
#define WAKERS_BEGIN "[woken by " /* NAME-TID [of PROCESS-PID] [, rank RANK]] */

struct waker {
	const char *text; /* one of these */
	const uint64_t *frames; /* outermost first, as aggregate_frames() makes them */
	size_t nr_frames;
	bool own; /* a thread of the process that waited */
};

/* What one thread has waited for another one, of the waits that were asked for. */
struct waker_link {
	uint32_t pid, tid; /* who waited, */
	uint32_t by_pid, by_tid; /* and who ended that */
	uint64_t ns, nr;
};

struct wakers_stats {
	uint64_t threads, interrupts, unknown; /* of waits that were asked for */
	uint64_t truncated; /* of threads whose stack is not complete */
	uint64_t no_room; /* forgotten before anybody asked */
	uint64_t links_no_room; /* waits that are in no link, beyond WAKERS_MAX_LINKS */
};

int wakers_new(struct wakers **ret); /* 0 or -ENOMEM */
void wakers_free(struct wakers *wakers); /* NULL is fine */

/* A sample of a waker's (BPFPROF_SAMPLE_WAKER). */
void wakers_add(struct wakers *wakers, const struct aggregate_input *input);
/*
 * Who ended the wait of that sample; NULL: it was not asleep. Borrowed until the next call. Asked once:
 * then it is forgotten.
 */
const struct waker *wakers_take(struct wakers *wakers, const struct bpfprof_sample *wait);
/* All of them in no order, to be freed. 0 or -ENOMEM. */
int wakers_links(const struct wakers *wakers, struct waker_link **ret, size_t *ret_nr);
const struct wakers_stats *wakers_stats(const struct wakers *wakers);

#endif
