/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_FORMATS_STACK_ORDER_H
#define BPFPROF_FORMATS_STACK_ORDER_H

/*
 * The samples of a profile as paths of frame texts, root first, sorted by
 * text: a prefix tree in depth-first order that is never built. Every writer of
 * collapsed stacks and flame graphs needs only its neighbours, so this costs
 * a few bytes per sample and location, whatever the depth.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct buf;
struct profile;
struct profile_location;
struct profile_process;

/* Kinds of texts besides enum location_kind. */
#define TEXT_PROCESS 0
#define TEXT_THREAD 6

struct stack_rules {
	/* Text of a frame; nothing added = the frame is left out. */
	void (*location)(struct buf *dst, const struct profile *profile,
			 const struct profile_location *location);
	/* Text of the root frame; NULL = none. */
	void (*process)(struct buf *dst, const struct profile *profile,
			const struct profile_process *process);
	/* Text of a frame in front of that; nothing added, or NULL = none. */
	void (*container)(struct buf *dst, const struct profile *profile,
			  const struct profile_process *process);
	bool nested; /* before it the frames of the processes that it descends from, root first */
	bool threads; /* a frame for the thread after the process */
	/* Text of that frame; NULL = thread_text(). */
	void (*thread)(struct buf *dst, const char *name, unsigned int tid);
	bool need_frames; /* leave out samples without a frame */
	bool zeros; /* samples that weigh nothing, too */
	bool no_wakers; /* leave out the wakers of waits (profile/wakers.h) */
};

struct stack_order {
	const struct profile *profile;
	struct strtab *texts;
	const char **names; /* by text number, from 1; sorted */
	uint8_t *kinds; /* by text number */
	uint32_t nr_names; /* numbers are 1 to nr_names */
	uint32_t *locations; /* text number per location, 0 = left out */
	uint32_t *processes; /* per process, 0 = none */
	uint32_t *parents; /* per process: index + 1 of its parent, 0 = none */
	uint32_t *containers; /* as processes */
	uint32_t *threads; /* per sample; NULL without threads */
	uint32_t *samples; /* indexes of samples, sorted by path */
	size_t nr_samples; /* those whose path is not empty */
	uint64_t total; /* their counts */
	bool no_wakers;
	struct stack_path *paths; /* the two that were read last */
};

/* 0 or -ENOMEM. The profile is borrowed until stack_order_fini(). */
int stack_order_init(struct stack_order *order, const struct profile *profile,
		     const struct stack_rules *rules);
void stack_order_fini(struct stack_order *order);

/* The texts of one sample, root first. */
struct stack_path {
	uint32_t sample;
	uint32_t nr, nr_frames; /* of these: frames */
	uint32_t *texts; /* numbers */
	bool read_last;
};

/* The path of a sample, until that of the next but one sample is asked for. */
const struct stack_path *stack_path_get(const struct stack_order *order, uint32_t sample);

/*
 * Gives one run of samples with equal paths after the other. *pos starts at 0. False at the end. shared
 * is the number of leading texts that the run has in common with the run before.
 */
struct stack_run {
	uint32_t sample; /* one of the run; all have the same path */
	uint32_t shared;
	uint64_t count;
	uint64_t value_ns;
};

bool stack_order_next(const struct stack_order *order, size_t *pos, struct stack_run *ret);

/* Writes all runs as lines `ROOT;...;LEAF COUNT`. 0 or -ENOMEM. */
int stack_order_write(FILE *out, const struct profile *profile, const struct stack_rules *rules);

#endif
