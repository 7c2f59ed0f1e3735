/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROC_RANKS_H
#define BPFPROF_PROC_RANKS_H

/*
 * The place of a process in a distributed job: a few variables of the environment that it was started
 * with, which torchrun, Ray, Slurm and other launchers set. The environment holds secrets: only these
 * variables are kept, and the caller wipes the rest. Variables that a program sets later (os.environ)
 * are not in it.
 */

#include <stdbool.h>
#include <stddef.h>

#define RANKS_TEXT_MAX 64

/* The variables, and the labels of samples that have them; in the order of struct ranks. */
#define RANKS_NR 6
extern const struct ranks_variable {
	const char *name, *label;
} ranks_variables[RANKS_NR];

/* Letters, digits and a few signs of names; "": not set. */
struct ranks {
	union {
		struct {
			char rank[RANKS_TEXT_MAX]; /* RANK */
			char local_rank[RANKS_TEXT_MAX]; /* LOCAL_RANK */
			char world_size[RANKS_TEXT_MAX]; /* WORLD_SIZE */
			char slurm_job[RANKS_TEXT_MAX]; /* SLURM_JOB_ID */
			char slurm_node
				[RANKS_TEXT_MAX]; /* SLURM_NODEID: number of the node in the job */
			/* SLURM_PROCID: number of the task in its step. A task may be a rank, or the launcher of some. */
			char slurm_task[RANKS_TEXT_MAX];
		};
		char texts[RANKS_NR][RANKS_TEXT_MAX];
	};
};

/* Reads an environment piece by piece. All zero to begin with. */
struct ranks_reader {
	struct ranks ranks;
	bool in_long; /* the next piece begins within a variable longer than a piece */
};

/*
 * Reads the next piece: entries NAME=VALUE, each with a NUL. Returns the number of bytes it has
 * consumed (0 only if len is 0): the next piece begins there. last: no piece follows.
 */
size_t ranks_take(struct ranks_reader *reader, const char *piece, size_t len, bool last);

/* Sets slurm_job from the text of /proc/PID/cgroup if the environment has none. */
void ranks_take_cgroup(struct ranks *ranks, const char *text);

bool ranks_any(const struct ranks *ranks);

#endif
