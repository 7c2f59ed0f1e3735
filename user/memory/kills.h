/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_MEMORY_KILLS_H
#define BPFPROF_MEMORY_KILLS_H

/*
 * The watched processes that were killed by SIGKILL, with what they held at the last look before: after
 * the signal, the kernel frees their memory.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/process_map.h"
#include "bpfprof.h"
#include "memory/answer.h"

#define MAX_KILLS 32

struct memory_kill {
	struct process_key key;
	uint64_t ns; /* CLOCK_MONOTONIC */
	bool oom; /* the OOM killer chose it */
	bool by_kernel; /* without a sender */
	uint32_t sender; /* as the kernel counts pids */
	char sender_name[BPFPROF_COMM_LEN + 1];
	uint64_t held_bytes; /* anonymous memory */
	bool limit_above; /* the limit is that of a cgroup above its own */
	uint64_t limit_bytes; /* 0: none */
	uint64_t used_bytes; /* by that cgroup at the signal; 0: not known */
};

/* All zero to begin with; the caller calls memory_answer_fini() of the answer. */
struct memory_kills {
	struct memory_kill list[MAX_KILLS];
	size_t nr;
	uint64_t nr_over; /* over the limit: only counted */
	struct memory_answer answer; /* of these processes alone */
};

/* Takes what the process held out of the last answer. 0 or -ENOMEM. */
int memory_kills_add(struct memory_kills *kills, const struct bpfprof_kill_event *event,
		     const struct memory_answer *last);
/* Replaces the rows and accounts of the killed processes in an answer by the kept ones. 0 or -ENOMEM. */
int memory_kills_merge(const struct memory_kills *kills, struct memory_answer *answer);
/* NULL: it was not killed. */
const struct memory_kill *memory_kills_find(const struct memory_kills *kills, uint32_t pid,
					    uint64_t start_ns);

#endif
