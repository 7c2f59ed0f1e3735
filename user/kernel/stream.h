/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_STREAM_H
#define BPFPROF_KERNEL_STREAM_H

/*
 * Decodes the ring buffer: samples come out complete (misses are walked to their end here), and
 * process events update the process table and the kernel's tables.
 *
 * With a background, the loop decodes those records alone that need nothing outside of our memory. The others,
 * and those that follow them from the same process, are jobs. So the handlers are called by both, never
 * at once.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/event.h"

struct background;
struct bpfprof_sample;
struct codes;
struct process;
struct session;
struct stream;
struct walker;

struct stream_handlers {
	event_fn see; /* receives the events */
	/* Can see() take a sample of the process without waiting for files? Not called without a background. */
	bool (*is_settled)(void *arg, struct process *process, const struct bpfprof_sample *sample);
	void *arg;
};

/* Borrows all four; background may be NULL. 0 or -errno. */
int stream_new(struct stream **ret, struct session *session, struct walker *walker,
	       struct codes *codes, struct background *background,
	       const struct stream_handlers *handlers);
void stream_free(struct stream *stream);

int stream_fd(const struct stream *stream); /* to poll: readable when there are records */
/* Reads all records and does periodic work. Returns milliseconds until the next call is due. */
int stream_run(struct stream *stream);
/* Reads all records only. */
void stream_take(struct stream *stream);

/* Samples of Ray workers; those of them without a readable or valid title. */
uint64_t stream_nr_ray(const struct stream *stream);
uint64_t stream_nr_bad_title(const struct stream *stream);
/* Samples whose title may have been read during a write: they count for the title before. */
uint64_t stream_nr_torn_title(const struct stream *stream);
/* Ended processes whose exit event was lost. */
uint64_t stream_nr_found_ended(const struct stream *stream);
uint64_t stream_nr_malformed(const struct stream *stream);

#endif
