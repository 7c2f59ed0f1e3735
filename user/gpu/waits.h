/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_WAITS_H
#define BPFPROF_GPU_WAITS_H

/*
 * How long collectives take until they are known to be complete: from their call to the first proof
 * that a process saw itself (bpf/gpu/waits.bpf.h), which is an upper bound; and how long
 * the devices of processes had nothing to do. Collectives are told by operation, size and
 * communicator, and each is handed to who shares them out among stacks. All is bounded, for one
 * process and in all; what there was no room for is counted.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"
#include "gpu_calls.h"

struct gpu_waits;
struct stats_reasons;

#define GPU_WAITS_MAX_ROWS 8192 /* of all processes, */
#define GPU_WAITS_MAX_PROCESS_ROWS 1024 /* of one */
#define GPU_WAITS_MAX_PENDING (1U << 16)
#define GPU_WAITS_MAX_PROCESS_PENDING (1U << 13)
#define GPU_WAITS_MAX_PROCESSES 4096

/* What collectives are told by. */
struct gpu_waits_key {
	uint64_t start_ns; /* of the process */
	uint64_t comm;
	uint64_t bytes; /* of one */
	uint32_t pid;
	uint32_t function;
	uint32_t dims[2]; /* datatype; operation, root or peer */
};

struct gpu_waits_row {
	struct gpu_waits_key key;
	uint64_t count; /* known to be complete */
	uint64_t ns, max_ns; /* of these, until then */
	uint64_t within_ns, within_max_ns; /* by how much it may have been earlier */
	uint64_t pending;
	/* Once gpu_waits_poll() was called: when the oldest of these was, and what it was put on. */
	uint64_t pending_ns; /* CLOCK_MONOTONIC */
	uint64_t pending_stream;
	uint64_t unknown; /* their stream or process is no more */
};

struct gpu_waits_device_idle {
	uint64_t ns, max_ns, gaps; /* that are over */
	uint64_t copy_ns; /* in synchronous copies to the device meanwhile, which ns leaves out */
	uint64_t since_ns; /* CLOCK_MONOTONIC, of one that is not over; 0: none */
};

/* From a launch to when its process knew that nothing was left of what it had launched. */
struct gpu_waits_spans {
	uint64_t count, ns, max_ns; /* that are over */
	uint64_t since_ns; /* CLOCK_MONOTONIC, of one that is not over; 0: none */
};

/* What the kernel has counted of a process. */
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

/* Of each collective that is known to be complete: its key as it was counted, and how long it took. */
void gpu_waits_notify(struct gpu_waits *waits,
		      void (*complete)(void *arg, const struct bpfprof_gpu_key *key, uint64_t ns),
		      void *arg);
/*
 * For who wants no rows: there are none, what has ended is forgotten, and what there is room for is
 * divided by share. From the beginning on.
 */
void gpu_waits_no_rows(struct gpu_waits *waits, unsigned int share);

void gpu_waits_record(struct gpu_waits *waits, const struct bpfprof_gpu_wait *record);
/* What the kernel has counted of a process; the newest word holds. */
void gpu_waits_process(struct gpu_waits *waits, const struct bpfprof_gpu_waits *process);
/* It has ended, at ended_ns (0: not known): what it had under way will not be told. */
void gpu_waits_exit(struct gpu_waits *waits, uint32_t pid, uint64_t start_ns, uint64_t ended_ns);

/* In no order; borrowed until the next call. */
const struct gpu_waits_row *gpu_waits_rows(const struct gpu_waits *waits, size_t *ret_nr);
/* Finds in all rows the oldest that is pending. */
void gpu_waits_poll(struct gpu_waits *waits);
/* Borrowed until the next call; NULL: nothing is known of that process. */
const struct gpu_waits_times *gpu_waits_times(const struct gpu_waits *waits, uint32_t pid,
					      uint64_t start_ns);
/*
 * What a thread has put into the group whose end it has been in since end_ns: the first max kinds, in
 * the order of their calls, and *ret_nr of them. How many collectives there are in all, of whatever
 * kind.
 */
uint64_t gpu_waits_group(const struct gpu_waits *waits, const struct bpfprof_task_id *task,
			 uint64_t end_ns, struct gpu_waits_grouped *dst, size_t max,
			 size_t *ret_nr);
extern const struct counter gpu_waits_counters[];
void gpu_waits_lost(const struct gpu_waits *waits, struct stats_reasons *dst);

#endif
