/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_AGGREGATE_H
#define BPFPROF_PROFILE_AGGREGATE_H

/*
 * Room profile: counts samples by stack and labels, and symbolizes what was counted.
 *
 * This file: the samples of one interval, counted per (process, thread, stack). Each distinct stack is
 * kept once, and shares its callers with others (stack_set.h). The bound is max_bytes. When stacks have taken 7/8 of it, a sample with a new stack counts
 * under its process with a stack that is only a marker (nr_table_full). Without room for the process,
 * the sample counts nowhere (nr_lost).
 *
 * Calls of GPU libraries are kept beside the samples: their stacks are among the others, with labels
 * (the call, the kernel) as leaves. The caller counts them and adds a sample for each in the end.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpfprof.h"
#include "proc/title.h"
#include "profile/profile.h"
#include "profile/sample_counts.h"
#include "python/merge.h"

struct aggregate;
struct container;
struct ranks;
struct seconds;
struct strtab;
struct waker;

/* The container of some process; strings of the view, 0 = not known. */
struct aggregate_container {
	uint32_t id, name, pod, namespace, pod_uid, image;
	uint32_t ray_cluster, ray_group, ray_node_type;
	struct profile_ranks ranks; /* of the environment that it was started with */
};

#define AGGREGATE_MAX_CONTAINERS 4096
#define AGGREGATE_MAX_RANKS 4096

/* One entry per name of a process or, for Ray workers, per title. */
struct aggregate_process {
	uint32_t pid;
	uint32_t program; /* image of its executable, 0 = not known */
	uint64_t mnt_ns; /* 0 = not known */
	uint32_t pod_pid; /* in its own pid namespace, 0 = not known */
	uint32_t agent_pid; /* in our own pid namespace, 0 = it has none there, or not known */
	uint32_t container; /* index + 1, 0 = none, or not known */
	uint8_t container_source; /* enum container_source */
	bool container_full; /* there was no room for the container */
	uint32_t ranks; /* index + 1, 0 = none of its own, or not known */
	uint32_t title; /* offset in titles, 0 = none */
	uint32_t role; /* offset in titles, 0 = none */
	uint64_t start_ns;
	char comm[BPFPROF_COMM_LEN]; /* of the first thread */
	uint64_t exit_cpu_ns; /* CPU time of its whole life, 0 until it exits */
	uint32_t nr_threads; /* sampled */
	uint64_t samples;
};

#define AGGREGATE_NO_STACK                                                                         \
	1U /* only a marker; for samples without a stack, or without room for it */

struct aggregate_sample {
	uint32_t process, stack;
	uint32_t tid; /* 0 unless threads are kept apart */
	uint32_t thread; /* index of its name */
	uint32_t gil; /* enum profile_gil */
	uint32_t sleeper; /* enum profile_sleeper */
	uint64_t count, value_ns; /* both 0: held by aggregate_hold(), no sample yet */
};

/* The description of a call (struct profile_call) as texts, copied; NULL is "". */
struct aggregate_call_labels {
	const char *function, *kernel, *stream, *comm, *rank, *op;
};

/* The place of a call: indexes in this aggregate, as in struct aggregate_sample. */
struct aggregate_call_at {
	uint32_t process, stack, tid, thread, gil;
};

struct aggregate_call_sample {
	struct aggregate_call_at at;
	uint32_t call; /* index + 1, 0 = there was no room for it */
	uint64_t values[PROFILE_NR_CALL_VALUES];
};

#define AGGREGATE_LABEL_BYTES 1024 /* longer ones are cut */

/* The content as plain arrays; borrowed until the next call that changes the aggregate. */
struct aggregate_view {
	const struct aggregate_process *processes;
	size_t nr_processes;
	/* Stacks as stack_set.h has them: wire frames, addresses of callers are minus one. */
	const uint64_t *frames;
	const uint32_t *callers;
	size_t nr_stacks;
	const struct aggregate_sample *samples;
	size_t nr_samples;
	const struct profile_call *calls; /* strings of labels */
	size_t nr_calls;
	const struct aggregate_call_sample *call_samples;
	size_t nr_call_samples;
	const struct strtab *labels; /* of LABEL frames and calls; NULL: there are none */
	const struct aggregate_container *containers;
	size_t nr_containers;
	const struct profile_ranks *ranks; /* strings of the view, 0 = not known */
	size_t nr_ranks;
	const struct strtab *strings; /* NULL: no containers and ranks */
	const char (*threads)[BPFPROF_COMM_LEN];
	size_t nr_threads;
	const char *titles; /* titles and roles, each with a NUL; the first is "" */
	uint64_t nr_titles_over; /* samples counted under `ray::(other)` */
	struct sample_counts counts;
	uint64_t nr_table_full; /* samples without their stack, for lack of room */
	uint64_t nr_lost; /* samples that count nowhere, for lack of room */
	uint64_t nr_containers_full; /* processes without their container, for lack of room */
	uint64_t nr_ranks_full; /* samples without their rank, for lack of room */
	uint64_t nr_calls_lost; /* calls that count in no sample, for lack of room */
	uint64_t nr_labels_lost; /* labels and calls for which there was no room */
	uint64_t nr_no_second; /* samples whose second is not kept, for lack of room */
};

/* One decoded sample. Stacks are leaf first; kernel has addresses as on the stack. */
struct aggregate_input {
	const struct bpfprof_sample *sample;
	const uint64_t *kernel;
	size_t nr_kernel;
	const uint64_t *user;
	size_t nr_user;
	uint32_t stop;
	uint32_t unmerged; /* enum python_unmerged */
	bool again; /* for aggregate_add_call(): its stack was counted before */
	uint32_t own_pid; /* in our own pid namespace, 0: it has none there, or not known */
	uint32_t program; /* image of its executable, 0: not known yet */
	struct bpfprof_ns_context ns_context;
	const struct container *container; /* copied; NULL: none, or not known yet */
	const char
		*title; /* of a Ray worker, at most AGGREGATE_TITLE_BYTES with the NUL; or NULL */
	const char *role; /* in a Ray cluster, with the same limit; or NULL */
	const struct ranks *ranks; /* of its environment; copied; NULL: none, or not known yet */
	const struct waker
		*waker; /* of a wait: the thread that ended it; NULL: not recorded, or none */
};

#define AGGREGATE_TITLE_BYTES (TITLE_MAX + 1)
#define AGGREGATE_MAX_TITLES 256 /* of one process; further ones count as the other title */
#define AGGREGATE_OTHER_TITLE "ray::(other)"

/*
 * A NATIVE_VA frame has a meaning only in its process: its upper bits hold the index of the process + 1
 * (0: a process beyond the limit).
 */
#define AGGREGATE_VA_BITS 47
#define AGGREGATE_VA_MASK ((1ULL << AGGREGATE_VA_BITS) - 1)
#define AGGREGATE_MAX_VA_PROCESSES 8190

/* BPFPROF_FRAME_NATIVE and so on: the kind of a wire frame. */
uint32_t aggregate_frame_kind(uint64_t frame);

/* threads: counts by thread id too; names of threads are kept in any case. 0 or -ENOMEM. */
int aggregate_new(struct aggregate **ret, bool threads, size_t max_bytes);
void aggregate_free(struct aggregate *aggregate);
void aggregate_add(struct aggregate *aggregate, const struct aggregate_input *input);
/*
 * Call it before the first sample to keep the second of each sample of aggregate_add(); begin_ns is when second 0 began,
 * on the clock of the samples. Takes 1/16 of max_bytes, and some 40 KiB, from the rest. 0 or -ENOMEM.
 */
int aggregate_seconds_keep(struct aggregate *aggregate, uint64_t begin_ns);
/* The last sample has come: the seconds can be read. */
void aggregate_seconds_end(struct aggregate *aggregate);
/* By the index of the sample; borrowed. NULL: not kept. */
const struct seconds *aggregate_seconds(const struct aggregate *aggregate);
/* Call it before the first sample to allow aggregate_forget(); takes some 400 bytes per process. */
void aggregate_may_forget(struct aggregate *aggregate);
/*
 * The samples of a process are not wanted: takes them out of all counts and returns their number. Only for
 * samples of aggregate_add().
 */
uint64_t aggregate_forget(struct aggregate *aggregate, const struct bpfprof_task_id *task);

/* Part of the time that a sample stands for, which counts as a sample of its own. */
struct aggregate_part {
	uint64_t leaf; /* frame of aggregate_label() above the stack, 0: none */
	const uint64_t *above; /* frames above leaf, leaf first, at most AGGREGATE_MAX_ABOVE */
	size_t nr_above;
	bool above_is_own; /* the frames above are of the same process */
	uint64_t value_ns;
	bool asleep; /* the thread waits, and not for a CPU */
	bool runs; /* the thread is on a CPU */
	int64_t sample; /* result: its index, less than 0: it counts nowhere */
};

#define AGGREGATE_MAX_STACK (BPFPROF_MAX_FRAMES + BPFPROF_MAX_USER_FRAMES + 1)
#define AGGREGATE_MAX_ABOVE 520

/*
 * Writes the stack as frames that can stand above others, leaf first, with a marker at the root if it is
 * not complete. Returns their number.
 */
size_t aggregate_frames(const struct aggregate_input *input, uint64_t frames[AGGREGATE_MAX_STACK]);
/* As aggregate_add(), for each part with a time over 0. */
void aggregate_add_parts(struct aggregate *aggregate, const struct aggregate_input *input,
			 struct aggregate_part *parts, size_t nr);
/*
 * Reserves a sample for time that becomes known later (aggregate_rollover.h), with the process and stack
 * of a call. The index of a sample that does not count yet, or of an equal one; less than 0: no room.
 */
int64_t aggregate_hold(struct aggregate *aggregate, const struct aggregate_call_at *at,
		       uint32_t sleeper);
/* If the sample of that index is held, it counts from now on. */
void aggregate_release(struct aggregate *aggregate, int64_t sample);
/*
 * Adds time to the sample of that index, or takes time away, down to 0. Returns the change that was made.
 */
int64_t aggregate_adjust(struct aggregate *aggregate, int64_t sample, int64_t ns);

/*
 * The frame for a text; equal texts have equal frames. Labels take at most 1/16 of max_bytes; later ones
 * become STRTAB_OVERFLOW.
 */
uint64_t aggregate_label(struct aggregate *aggregate, const char *text);
/* Index + 1 of the description of a call, 0: no room. */
uint32_t aggregate_call(struct aggregate *aggregate, const struct aggregate_call_labels *labels);
/*
 * As aggregate_add(), but leaves[] (frames of aggregate_label(), leaf first) stand above the stack, and no
 * sample is made: *ret is for aggregate_call_sample(). A call without a stack (nr_user 0) gets
 * `[no stack]`, as does one without room for its stack, unless this has a label at its root. stop BPFPROF_STOP_INVALID: no stack was wanted, so it is not counted among the stacks.
 * 0; -ENOMEM: the call counts in nr_calls_lost.
 */
int aggregate_add_call(struct aggregate *aggregate, const struct aggregate_input *input,
		       const uint64_t *leaves, size_t nr_leaves, struct aggregate_call_at *ret);
/* The index of `stack` with one more leaf, which became known later; without room `stack` itself. */
uint32_t aggregate_stack_with(struct aggregate *aggregate, uint32_t stack, uint64_t leaf);
/* The place of a value that has no stack: its one frame is a label. 0 or -ENOMEM. */
int aggregate_add_row(struct aggregate *aggregate, const struct aggregate_input *input,
		      uint64_t label, struct aggregate_call_at *ret);
/*
 * Adds to the sample at that place: count, and value in place of time. For values that become known at the
 * end. 0, -EINVAL (at is of another aggregate) or -ENOMEM (counted in nr_lost).
 */
int aggregate_count(struct aggregate *aggregate, const struct aggregate_call_at *at, uint64_t count,
		    uint64_t value);
/* Adds a sample, also if there is an equal one. 0, -EINVAL (at is of another aggregate) or -ENOMEM. */
int aggregate_call_sample(struct aggregate *aggregate, const struct aggregate_call_at *at,
			  uint32_t call, const uint64_t values[PROFILE_NR_CALL_VALUES]);
/* The process exited and used cpu_ns in all. */
void aggregate_exit(struct aggregate *aggregate, const struct bpfprof_task_id *task,
		    uint64_t cpu_ns);
size_t aggregate_bytes(const struct aggregate *aggregate); /* taken of max_bytes */
/* Frees the stacks and the samples; views of them end. Processes, labels and counts stay. */
void aggregate_free_samples(struct aggregate *aggregate);
size_t aggregate_unused_bytes(const struct aggregate *aggregate); /* of these, not yet written */
/* Acts as if max_bytes were reached once min_bytes are taken: known stacks still count. */
void aggregate_freeze(struct aggregate *aggregate, size_t min_bytes);
void aggregate_view_get(const struct aggregate *aggregate, struct aggregate_view *view);

#endif
