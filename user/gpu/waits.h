/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_WAITS_H
#define BPFPROF_GPU_WAITS_H

/*
 * How long collectives take until they are complete: from their call to the first proof that the
 * process itself saw (bpf/gpu/waits.bpf.h), which is an upper bound; and how long the devices of
 * processes were idle. Collectives are grouped by operation, size and communicator, and each
 * complete one is passed to a callback. All is bounded, for one process and in all; what has no
 * room is counted.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"
#include "gpu_calls.h"

struct gpu_waits;
struct stats_reasons;

#define GPU_WAITS_MAX_ROWS 8192 /* of all processes */
#define GPU_WAITS_MAX_PROCESS_ROWS 1024 /* of one process */
#define GPU_WAITS_MAX_PENDING (1U << 16)
#define GPU_WAITS_MAX_PROCESS_PENDING (1U << 13)
#define GPU_WAITS_MAX_PROCESSES 4096

/* Collectives with equal keys are one row. */
struct gpu_waits_key {
	uint64_t start_ns; /* of the process */
	uint64_t comm;
	uint64_t bytes; /* of one collective */
	uint32_t pid;
	uint32_t function;
	uint32_t dims[2]; /* datatype; operation, root or peer */
};

struct gpu_waits_row {
	struct gpu_waits_key key;
	uint64_t count; /* complete collectives */
	uint64_t ns, max_ns; /* from their call until the completion was noticed */
	uint64_t within_ns, within_max_ns; /* the completion may have been earlier by so much */
	uint64_t pending; /* not complete yet */
	uint64_t pending_ns; /* CLOCK_MONOTONIC, of the oldest pending one at gpu_waits_poll() */
	uint64_t pending_stream; /* the stream of that one */
	uint64_t unknown; /* their stream or process ended before the completion was noticed */
};

struct gpu_waits_device_idle {
	uint64_t ns, max_ns, gaps; /* of the gaps that are over, without copy_ns */
	uint64_t copy_ns; /* in synchronous copies to the device during these gaps */
	uint64_t since_ns; /* CLOCK_MONOTONIC: begin of the gap that is not over; 0: none */
};

/* Spans from a launch until the process knew that all its launches were done. */
struct gpu_waits_spans {
	uint64_t count, ns, max_ns; /* of the spans that are over */
	uint64_t since_ns; /* CLOCK_MONOTONIC: begin of the span that is not over; 0: none */
};

/* The times of a process's device, as the kernel counts them. */
struct gpu_waits_times {
	struct gpu_waits_device_idle device_idle;
	struct gpu_waits_spans spans;
};

/* Collectives of one kind in a group that has not ended. */
struct gpu_waits_grouped {
	struct gpu_waits_key key;
	uint64_t stream;
	uint64_t count;
};

int gpu_waits_new(struct gpu_waits **ret); /* 0 or -ENOMEM */
void gpu_waits_free(struct gpu_waits *waits);

/* complete() gets the key of each complete collective, as it was counted, and its time. */
void gpu_waits_notify(struct gpu_waits *waits,
		      void (*complete)(void *arg, const struct bpfprof_gpu_key *key, uint64_t ns),
		      void *arg);
/*
 * For a program without an end, which needs no rows: there are none, ended processes are forgotten,
 * and limits are divided by share. Called before all else.
 */
void gpu_waits_no_rows(struct gpu_waits *waits, unsigned int share);

void gpu_waits_record(struct gpu_waits *waits, const struct bpfprof_gpu_wait *record);
/* Sets the times of a process. */
void gpu_waits_process(struct gpu_waits *waits, const struct bpfprof_gpu_waits *process);
/* The process has ended, at ended_ns (0: not known): its pending collectives become unknown. */
void gpu_waits_exit(struct gpu_waits *waits, uint32_t pid, uint64_t start_ns, uint64_t ended_ns);

/* All rows in no order, borrowed until the next call. */
const struct gpu_waits_row *gpu_waits_rows(const struct gpu_waits *waits, size_t *ret_nr);
/* Finds the oldest pending collective of each row. */
void gpu_waits_poll(struct gpu_waits *waits);
/* Borrowed until the next call; NULL: nothing is known of that process. */
const struct gpu_waits_times *gpu_waits_times(const struct gpu_waits *waits, uint32_t pid,
					      uint64_t start_ns);
/*
 * The collectives that a thread has put into the group whose end it has been in since end_ns:
 * *ret_nr kinds of them, max at most, in the order of their calls. Returns the number of all
 * collectives.
 */
uint64_t gpu_waits_group(const struct gpu_waits *waits, const struct bpfprof_task_id *task,
			 uint64_t end_ns, struct gpu_waits_grouped *dst, size_t max,
			 size_t *ret_nr);
extern const struct counter gpu_waits_counters[];
void gpu_waits_lost(const struct gpu_waits *waits, struct stats_reasons *dst);

#endif
