/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_WAKERS_H
#define BPFPROF_PROFILE_WAKERS_H

/*
 * The threads that ended waits. A waker is recorded as it wakes the thread, and kept until the sample of
 * the wait comes. Bounds: WAKERS_MAX wakers and WAKERS_MAX_BYTES of their stacks; then the oldest is
 * evicted, which is counted.
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
#define WAKERS_MAX_FRAMES 512 /* of one stack; outer frames are left out */

#define WAKERS_SEPARATOR "--" /* between the stacks of a wait and of its waker, as in offwaketime */
#define WAKERS_INTERRUPT "[woken by an interrupt]"
#define WAKERS_UNKNOWN "[waker not known]"
#define WAKERS_BEGIN "[woken by " /* NAME-TID [of PROCESS-PID] [, rank RANK]] */

struct waker {
	const char *text; /* one of the texts above */
	const uint64_t *frames; /* outermost first, as aggregate_frames() makes them */
	size_t nr_frames;
	bool own; /* the waker is a thread of the process that waited */
};

/* The recorded waits of one thread that another thread ended. */
struct waker_link {
	uint32_t pid, tid; /* the thread that waited */
	uint32_t by_pid, by_tid; /* the thread that ended the waits */
	uint64_t ns, nr;
};

struct wakers_stats {
	uint64_t threads, interrupts, unknown; /* recorded waits, by the kind of waker */
	uint64_t truncated; /* threads whose stack is not complete */
	uint64_t no_room; /* wakers that were evicted before their wait came */
	uint64_t links_no_room; /* waits that are in no link, beyond WAKERS_MAX_LINKS */
};

int wakers_new(struct wakers **ret); /* 0 or -ENOMEM */
void wakers_free(struct wakers *wakers); /* NULL is fine */

/* Records the sample of a waker (BPFPROF_SAMPLE_WAKER). */
void wakers_add(struct wakers *wakers, const struct aggregate_input *input);
/*
 * Takes out the waker of the wait of that sample; NULL: the thread was not asleep. Borrowed until the next
 * call.
 */
const struct waker *wakers_take(struct wakers *wakers, const struct bpfprof_sample *wait);
/* All links in no order, for the caller to free. 0 or -ENOMEM. */
int wakers_links(const struct wakers *wakers, struct waker_link **ret, size_t *ret_nr);
const struct wakers_stats *wakers_stats(const struct wakers *wakers);

#endif
