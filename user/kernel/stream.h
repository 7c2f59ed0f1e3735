/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_STREAM_H
#define BPFPROF_KERNEL_STREAM_H

/*
 * The ring buffer, decoded once: samples come out complete (misses are walked to
 * their end here), process events keep the process table and the kernel's tables up to date.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/event.h"

struct codes;
struct session;
struct stream;
struct walker;

/* Borrows all three; see() gets what comes. 0 or -errno. */
int stream_new(struct stream **ret, struct session *session, struct walker *walker,
	       struct codes *codes, event_fn see, void *arg);
void stream_free(struct stream *stream);

int stream_fd(const struct stream *stream); /* to be waited for: readable when there is something */
/* Takes what is there and does what is due. Milliseconds until it wants to be called again. */
int stream_run(struct stream *stream);
/* Takes what is there, and no more. */
void stream_take(struct stream *stream);

/* Samples of Ray workers, and of them those whose title was not to be read or no title. */
uint64_t stream_nr_ray(const struct stream *stream);
uint64_t stream_nr_bad_title(const struct stream *stream);
/* And those that may have been read while it was written: they count for the one before. */
uint64_t stream_nr_torn_title(const struct stream *stream);
/* Processes whose end was not told, and was found otherwise. */
uint64_t stream_nr_found_gone(const struct stream *stream);
uint64_t stream_nr_malformed(const struct stream *stream);

#endif
