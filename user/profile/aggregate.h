/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_AGGREGATE_H
#define BPFPROF_PROFILE_AGGREGATE_H

/*
 * Room profile: counts samples by stack and labels, and symbolizes what was counted.
 *
 * Samples of one interval, counted per (process, thread, stack). Stacks are kept
 * once, found by hash. Bounded by max_bytes: when that is reached (stacks are stopped at 7/8 of
 * it), new stacks are counted under their process with a stack that is a marker alone, nr_table_full; only
 * samples of processes that there is no room for are in no stack at all, nr_lost.
 *
 * Calls of a GPU's libraries lie beside them: their stacks among the others, with labels (the call,
 * the kernel) as leaves. They are counted by the caller, who adds one sample each in the end.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpfprof.h"
#include "proc/title.h"
#include "profile/profile.h"
#include "python/merge.h"

struct aggregate;
struct container;
struct ranks;
struct strtab;
struct waker;

/* A container that some process lives in; strings of the view, 0 = not known. */
struct aggregate_container {
	uint32_t id, name, pod, namespace, pod_uid, image;
	uint32_t ray_cluster, ray_group, ray_node_type;
	struct profile_ranks ranks; /* of the environment that it was started with */
};

#define AGGREGATE_MAX_CONTAINERS 4096
#define AGGREGATE_MAX_RANKS 4096

/* One per name or, of Ray workers, per title of a process. */
struct aggregate_process {
	uint32_t pid;
	uint32_t program; /* image of its executable, 0 = not known */
	uint64_t mnt_ns; /* 0 = not known */
	uint32_t pod_pid; /* in its own pid namespace, 0 = not known */
	uint32_t agent_pid; /* as our own pid namespace numbers it, 0 = not at all, or not known */
	uint32_t container; /* index + 1, 0 = none, or not known */
	uint8_t container_source; /* enum container_source: who said so */
	bool container_full; /* there was no room for it */
	uint32_t ranks; /* index + 1, 0 = none of its own, or not known */
	uint32_t title; /* where it begins in titles; 0 = none */
	uint32_t role; /* the same */
	uint64_t start_ns;
	char comm[BPFPROF_COMM_LEN]; /* of the leader */
	uint64_t exit_cpu_ns; /* CPU time of its whole life, 0 while it lives */
	uint32_t nr_threads; /* sampled */
	uint64_t samples;
};

struct aggregate_sample {
	uint32_t process, stack;
	uint32_t tid; /* 0 unless threads are kept apart */
	uint32_t thread; /* index of its name */
	uint32_t gil; /* enum profile_gil */
	uint32_t sleeper; /* enum profile_sleeper */
	uint64_t count, value_ns; /* both 0: held, no sample at all */
};

/* The description of a call (struct profile_call) as texts, copied; NULL is "". */
struct aggregate_call_labels {
	const char *function, *kernel, *stream, *comm, *rank, *op;
};

/* Where something was called: indexes in this aggregate, as in struct aggregate_sample. */
struct aggregate_call_at {
	uint32_t process, stack, tid, thread, gil;
};

struct aggregate_call_sample {
	struct aggregate_call_at at;
	uint32_t call; /* index + 1, 0 = there was no room for it */
	uint64_t values[PROFILE_NR_CALL_VALUES];
};

#define AGGREGATE_LABEL_BYTES 1024 /* longer ones are cut */

/* Samples, by what their stacks are. */
struct aggregate_counts {
	uint64_t nr_taken, nr_user, nr_kernel_only, nr_python;
	uint64_t unmerged[PYTHON_NR_UNMERGED]; /* complete stacks that did not pair up, by why */
	uint64_t stops[BPFPROF_NR_STOPS]; /* by end of the user stack */
	uint64_t python_stops[PYTHON_NR_STOPS]; /* and of its Python part */
};

/* What is there, as plain arrays; borrowed until the next call that changes the aggregate. */
struct aggregate_view {
	const struct aggregate_process *processes;
	size_t nr_processes;
	const uint64_t
		*frames; /* wire frames, leaf first; kernel frames tagged, callers minus one */
	size_t nr_frames;
	const struct profile_stack *stacks; /* of frames */
	size_t nr_stacks;
	const struct aggregate_sample *samples;
	size_t nr_samples;
	const struct profile_call *calls; /* strings of labels */
	size_t nr_calls;
	const struct aggregate_call_sample *call_samples;
	size_t nr_call_samples;
	const struct strtab *labels; /* of LABEL frames and calls; NULL without */
	const struct aggregate_container *containers;
	size_t nr_containers;
	const struct profile_ranks *ranks; /* strings of the view, 0 = not known */
	size_t nr_ranks;
	const struct strtab *strings; /* NULL without containers and ranks */
	const char (*threads)[BPFPROF_COMM_LEN];
	size_t nr_threads;
	const char *titles; /* and roles: strings one behind the other, the first is "" */
	uint64_t nr_titles_over; /* samples counted under `ray::(other)` */
	struct aggregate_counts counts;
	uint64_t nr_table_full; /* samples that have the empty stack for want of room */
	uint64_t nr_lost; /* samples that are counted nowhere for want of room */
	uint64_t nr_containers_full; /* processes whose container there was no room for */
	uint64_t nr_ranks_full; /* samples whose rank there was no room for */
	uint64_t nr_calls_lost; /* calls that are in no sample for want of room */
	uint64_t nr_labels_lost; /* labels and calls that there was no room for */
};

/* One sample, decoded. kernel: addresses as on the stack. Leaf first. */
struct aggregate_input {
	const struct bpfprof_sample *sample;
	const uint64_t *kernel;
	size_t nr_kernel;
	const uint64_t *user;
	size_t nr_user;
	uint32_t stop;
	uint32_t unmerged; /* enum python_unmerged */
	bool again; /* of aggregate_add_call(): it was counted as a sample before */
	uint32_t own_pid; /* in our own pid namespace, 0: it has none there, or not known */
	uint32_t program; /* image of its executable, 0: not known (yet) */
	struct bpfprof_place place;
	const struct container *container; /* NULL: none, or not known (yet); copied */
	const char
		*title; /* of a Ray worker, at most AGGREGATE_TITLE_BYTES with the NUL; or NULL */
	const char *role; /* in a Ray cluster; the same */
	const struct ranks *ranks; /* of its environment; NULL: none, or not known (yet); copied */
	const struct waker
		*waker; /* of a wait: who ended it; NULL: not asked for, or nobody had to */
};

#define AGGREGATE_TITLE_BYTES (TITLE_MAX + 1)
#define AGGREGATE_MAX_TITLES 256 /* of one process; what it does besides is: */
#define AGGREGATE_OTHER_TITLE "ray::(other)"

/*
 * NATIVE_VA frames mean something only within their process: their upper bits
 * get the index of the process + 1 (0 = one past the limit).
 */
#define AGGREGATE_VA_BITS 47
#define AGGREGATE_VA_MASK ((1ULL << AGGREGATE_VA_BITS) - 1)
#define AGGREGATE_MAX_VA_PROCESSES 8190

/* BPFPROF_FRAME_NATIVE and so on: the kind of a wire frame. */
uint32_t aggregate_frame_kind(uint64_t frame);

/* threads: by thread id too; their names are kept in any case. */
int aggregate_new(struct aggregate **ret, bool threads, size_t max_bytes);
void aggregate_free(struct aggregate *aggregate);
void aggregate_add(struct aggregate *aggregate, const struct aggregate_input *input);
/* Before the first sample: aggregate_forget() may come, which takes some 400 bytes per process. */
void aggregate_may_forget(struct aggregate *aggregate);
/*
 * What was added of a process turns out not to be wanted: no sample of it counts, and none of the counts
 * has it. Returns how many samples that were. With aggregate_add() alone.
 */
uint64_t aggregate_forget(struct aggregate *aggregate, const struct bpfprof_task_id *task);

/* Part of the time that a sample stands for, which counts as a sample of its own. */
struct aggregate_part {
	uint64_t leaf; /* frame of aggregate_label() above the stack, 0: none */
	const uint64_t *above; /* frames above that, leaf first, at most AGGREGATE_MAX_ABOVE; */
	size_t nr_above;
	bool above_is_own; /* of the same process */
	uint64_t value_ns;
	bool asleep; /* it waits for something, and not for a CPU */
	bool runs; /* it is on one */
	int64_t sample; /* set: its index, less than 0: it is counted nowhere */
};

#define AGGREGATE_MAX_STACK (BPFPROF_MAX_FRAMES + BPFPROF_MAX_USER_FRAMES + 1)
#define AGGREGATE_MAX_ABOVE 520

/*
 * The stack as frames that may stand above others, leaf first, with a marker at the root if it is not
 * complete. How many.
 */
size_t aggregate_frames(const struct aggregate_input *input, uint64_t frames[AGGREGATE_MAX_STACK]);
/* As aggregate_add(), of all parts but those of 0 ns. */
void aggregate_add_parts(struct aggregate *aggregate, const struct aggregate_input *input,
			 struct aggregate_part *parts, size_t nr);
/*
 * A place for what may be told later of a call's process and stack (aggregate_rollover.h): the index of a
 * sample that counts for nothing yet, or of one that is there already; less than 0 without room.
 */
int64_t aggregate_hold(struct aggregate *aggregate, const struct aggregate_call_at *at,
		       uint32_t sleeper);
/* If the sample of that index counts for nothing: from now on it is one. */
void aggregate_release(struct aggregate *aggregate, int64_t sample);
/*
 * Time found out later: adds it to, or takes it from, the sample of that index, as far as it goes.
 * How far that was.
 */
int64_t aggregate_adjust(struct aggregate *aggregate, int64_t sample, int64_t ns);

/*
 * The frame for a text; the same for the same. Once there is no room for more (1/16 of max_bytes),
 * that of STRTAB_OVERFLOW.
 */
uint64_t aggregate_label(struct aggregate *aggregate, const char *text);
/* Index + 1 of what calls have in common, 0 if there is no room. */
uint32_t aggregate_call(struct aggregate *aggregate, const struct aggregate_call_labels *labels);
/*
 * As aggregate_add(), but leaves[] (frames of aggregate_label(), leaf first) stand above the stack,
 * and there is no sample yet: *ret is what aggregate_call_sample() wants. A call without a stack
 * (nr_user 0) gets `[no stack]` instead; if none was asked for, stop is BPFPROF_STOP_INVALID, and it
 * is not counted among the stacks. 0 or -ENOMEM; then it is in nr_calls_lost.
 */
int aggregate_add_call(struct aggregate *aggregate, const struct aggregate_input *input,
		       const uint64_t *leaves, size_t nr_leaves, struct aggregate_call_at *ret);
/* The stack that is `stack` with one more leaf, which may be known later only; `stack` without room. */
uint32_t aggregate_stack_with(struct aggregate *aggregate, uint32_t stack, uint64_t leaf);
/* One more sample, whether there is an equal one or not. 0, -EINVAL (not of this one) or -ENOMEM. */
int aggregate_call_sample(struct aggregate *aggregate, const struct aggregate_call_at *at,
			  uint32_t call, const uint64_t values[PROFILE_NR_CALL_VALUES]);
/* The process ended, having used cpu_ns in all. */
void aggregate_exit(struct aggregate *aggregate, const struct bpfprof_task_id *task,
		    uint64_t cpu_ns);
size_t aggregate_bytes(const struct aggregate *aggregate); /* that it has taken of max_bytes */
size_t aggregate_unused_bytes(const struct aggregate *aggregate); /* of these, not yet written to */
/* As if max_bytes were reached, once it has taken min_bytes: stacks that are known are counted on. */
void aggregate_freeze(struct aggregate *aggregate, size_t min_bytes);
void aggregate_view_get(const struct aggregate *aggregate, struct aggregate_view *view);

#endif
