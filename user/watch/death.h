/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_WATCH_DEATH_H
#define BPFPROF_WATCH_DEATH_H

/*
 * Room watch: says why watched processes have ended, with the stack of the end.
 *
 * This file: one death, the decision that an end is a death, and the texts of a death. A death is an end that was
 * not the plan of the process, and that others did not order.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpfprof.h"

struct aggregate;
struct buf;
struct profile;
struct profile_process;

enum death_kind {
	DEATH_NONE = 0, /* it ended as planned, or in order by others */
	DEATH_SIGNAL, /* a signal that it caused, or whose sender is not known */
	DEATH_KILLED, /* a signal of another process */
	DEATH_OOM, /* the kernel killed it, for its memory */
	DEATH_EXIT, /* its exit code is not 0 */
};

/* The facts of an end. */
struct death_facts {
	uint32_t pid; /* in the outermost pid namespace, as all pids in events of kills */
	uint32_t status; /* as wait(2) reports it */
	uint64_t ts_ns;
	/* The last signals that others sent: one that asks for the end, any other one, SIGKILL. ts_ns 0: none. */
	struct bpfprof_kill_event asked, fault, kill;
	bool ray; /* a Ray worker, which ends with code 1 whenever Ray ends it */
	bool taken; /* a Ray worker in a task, whose raylet is not about to end itself */
	bool helper; /* its watched parent has started the program, and reads its exit code */
};

/* Has another process asked for the end a short time before? */
bool death_is_asked(const struct death_facts *facts, uint64_t ns);
/* *ret_by: the signal of the other process; NULL: none. */
enum death_kind death_judge(const struct death_facts *facts,
			    const struct bpfprof_kill_event **ret_by);

/* The stacks of a death. Each is a sample of its aggregate whose value has its bit: equal stacks are one sample. */
enum death_stack_kind { DEATH_STACK_LAST, DEATH_STACK_FIRST, DEATH_STACK_RECENT, DEATH_NR_STACKS };

struct death_stack_note {
	bool present;
	uint64_t ts_ns;
	uint32_t tid;
	char thread[BPFPROF_COMM_LEN + 1];
	uint32_t signal; /* 0 of the last sample of the clock */
	int32_t code; /* si_code */
	uint64_t fault_va;
	bool handled; /* the program had a handler */
};

#define DEATH_NAME_BYTES 96

struct death {
	enum death_kind kind;
	uint32_t status;
	uint32_t pid, kernel_pid, pod_pid, parent; /* parent: in the outermost pid namespace */
	uint64_t ts_ns, wall_ns;
	char name[DEATH_NAME_BYTES]; /* the script or the program */
	struct bpfprof_kill_event by; /* of KILLED and OOM */
	struct death_stack_note stacks[DEATH_NR_STACKS];
	struct aggregate *aggregate; /* its stacks, and the labels of the process */
};

void death_free(struct death *death); /* with the struct; NULL is fine */

/* "SIGSEGV", "SIGRTMIN+3"; "SIG99" for numbers of no signal. */
#define DEATH_SIGNAL_BYTES 16
const char *death_signal_name(char dst[DEATH_SIGNAL_BYTES], uint32_t number);
/* The signal that ended it, or "exit". */
const char *death_reason(char dst[DEATH_SIGNAL_BYTES], const struct death *death);
/* "self", "kernel", or the name of the process that sent the signal. */
void death_by(char dst[BPFPROF_COMM_LEN + 1], const struct death *death);

/* Replaces bytes that are not for the value of a label. */
void death_label_clean(char *label);

/*
 * The sentence that a colleague would say, without a full stop: `train.py (pid 712) died of SIGSEGV in augment
 * (data.py:41)`. profile: of the aggregate of the death.
 */
void death_sentence(struct buf *dst, const struct death *death, const struct profile *profile);
/* The page: the sentence, facts, stacks. store: as of samples_row(). */
void death_summary(struct buf *dst, const struct death *death, const struct profile *profile,
		   const char *store);
/* The process of the profile of a death; NULL: no stack was kept. */
const struct profile_process *death_process(const struct profile *profile);
/* The name of its folder (watch/folder_name.h). */
void death_folder_name(struct buf *dst, const struct death *death, const struct profile *profile);

#endif
