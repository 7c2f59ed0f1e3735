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
#include "gpu_calls.h"
#include "wait_times.h"

struct codes;
struct process;
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
	uint32_t unmerged; /* enum python_unmerged: Python and native frames did not pair up */
	struct process *process; /* what is known of it, or NULL */
	struct bpfprof_place place;
	const char *title; /* of a Ray worker, as in proc/title.h; NULL: none */
	const struct bpfprof_gpu_call *call; /* whose stack it is; NULL: one of the clock's */
};

/* How a process ended. */
struct process_end {
	uint64_t ts_ns; /* when; if its end was not told but found out later, then that */
	uint64_t cpu_ns; /* all CPU time it ever used; 0 if its end was found out later */
};

struct stream_handlers {
	void (*sample)(void *arg, const struct sample_view *view);
	/* A process ended; if that was found out later, its start may be 0. NULL is fine. */
	void (*exit)(void *arg, const struct bpfprof_task_id *task, const struct process_end *end);
	/* A process begins a window of the profiler, or ends it. NULL is fine. */
	void (*window)(void *arg, const struct bpfprof_window_event *event);
	/* A Ray worker has a new title; process may be NULL. NULL is fine. */
	void (*title)(void *arg, const struct bpfprof_title_event *event, struct process *process);
	/* A program was just started: it may be gone soon. NULL is fine. */
	void (*exec)(void *arg, struct process *process);
	/* A hooked call without its stack, the name of a kernel, what is waited for, what is captured. NULL is fine. */
	void (*call)(void *arg, const struct bpfprof_gpu_event *event);
	void (*kernel_name)(void *arg, const struct bpfprof_gpu_name *name);
	/* With session_options.gpu_trace: each call that is over. NULL is fine. */
	void (*traced_call)(void *arg, const struct bpfprof_gpu_trace *call);
	void (*wait)(void *arg, const struct bpfprof_gpu_wait *wait);
	void (*graph)(void *arg, const struct bpfprof_gpu_graph_event *event);
	/* A thread has ended: its time that is in no sample. NULL is fine. */
	void (*waiter)(void *arg, const struct bpfprof_waiter *waiter);
	void *arg;
};

/* Borrows all three. 0 or -errno. */
int stream_new(struct stream **ret, struct session *session, struct walker *walker,
	       struct codes *codes, const struct stream_handlers *handlers);
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
