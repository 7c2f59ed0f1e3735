/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CAPTURE_TASK_SAMPLER_WIRE_H
#define BPFPROF_CAPTURE_TASK_SAMPLER_WIRE_H

/* The child of task_sampler.h and its parent send each other these records. Both are the same program. */

#include <stdint.h>

#include "bpfprof.h"
#include "threads/task_stacks.h"

#define TASK_RECORD_MAX (1U << 20)
#define TASK_WAIT_BYTES 24

/* To the child: a process to be read. */
struct task_order {
	uint32_t pid; /* as we see it */
	uint32_t pad;
	uint64_t since_ns; /* CLOCK_MONOTONIC: its time counts from then on */
};

struct task_sampler_totals {
	struct task_stacks_counts read;
	uint64_t late; /* snapshots that were put off, as reading took too much CPU time */
	uint64_t refused; /* processes beyond the limit */
	uint64_t period_us; /* mean time between two snapshots of a process */
	uint64_t longest_period_us;
	uint64_t cpu_us; /* of the child, and of its own child that reads memory */
	uint64_t memory_kb; /* resident memory of the child */
};

enum task_record_kind { TASK_RECORD_STACK = 1, TASK_RECORD_TOTALS = 2 };

/* From the child: this, then the part of the kind. */
struct task_record {
	uint32_t bytes; /* of all of it */
	uint32_t kind;
};

/* Then nr_frames times: __u32 line, name with its NUL, file with its NUL; the outermost first. */
struct task_record_stack {
	struct bpfprof_task_id thread;
	char comm[BPFPROF_COMM_LEN], leader_comm[BPFPROF_COMM_LEN];
	char wait[TASK_WAIT_BYTES];
	uint64_t count, ns;
	uint32_t nr_frames, parked;
};

/* The child. Does not return. */
void task_sampler_child(int fd, const char *host_root) __attribute__((noreturn));

#endif
