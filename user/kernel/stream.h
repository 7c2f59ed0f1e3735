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

#include "bpfprof.h"

struct codes;
struct session;
struct stream;
struct walker;

/* A sample as the rest of the program sees it; borrowed during the call. */
struct sample_view {
	const struct bpfprof_sample *sample;
	const uint64_t *kernel; /* addresses as they stand on the stack, leaf first */
	size_t nr_kernel;
	const uint64_t *user; /* native and Python frames, leaf first */
	size_t nr_user;
	uint32_t stop; /* enum bpfprof_stop */
	bool unmerged; /* Python and native frames did not pair up */
};

struct stream_handlers {
	void (*sample)(void *arg, const struct sample_view *view);
	/* A process ended; cpu_ns is all CPU time it ever used. NULL is fine. */
	void (*exit)(void *arg, const struct bpfprof_task_id *task, const char *comm,
		     uint64_t cpu_ns);
	void *arg;
};

/* Borrows all three. 0 or -errno. */
int stream_new(struct stream **ret, struct session *session, struct walker *walker,
	       struct codes *codes, const struct stream_handlers *handlers);
void stream_free(struct stream *stream);

int stream_fd(const struct stream *stream); /* to be waited for: readable when there is something */
/* Takes what is there and does what is due. Milliseconds until it wants to be called again. */
int stream_run(struct stream *stream);

uint64_t stream_nr_malformed(const struct stream *stream);

#endif
