/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROC_RANKS_H
#define BPFPROF_PROC_RANKS_H

/*
 * Which part of a distributed job a process is: a few variables of the environment that it was
 * started with, which torchrun, Ray, Slurm and whoever else starts ranks set. Secrets stand beside them: only these are
 * looked at, and whoever read the rest wipes it. What a program puts into its own
 * environment later on (os.environ) is not in there.
 */

#include <stdbool.h>
#include <stddef.h>

#define RANKS_TEXT_MAX 64

/* Letters, digits and a few signs of names; "" if not said. */
struct ranks {
	char rank[RANKS_TEXT_MAX]; /* RANK */
	char local_rank[RANKS_TEXT_MAX]; /* LOCAL_RANK */
	char world_size[RANKS_TEXT_MAX]; /* WORLD_SIZE */
	char slurm_job[RANKS_TEXT_MAX]; /* SLURM_JOB_ID */
	char slurm_node[RANKS_TEXT_MAX]; /* SLURM_NODEID: its number in the job */
};

/* An environment that is read piece by piece. All zero to begin with. */
struct ranks_reader {
	struct ranks ranks;
	bool in_long; /* the next piece begins within a variable longer than a piece */
};

/*
 * Takes what is in the next piece, of entries NAME=VALUE with a NUL behind each. How many bytes it is done
 * with (never 0 unless len is): the next piece begins there. last: nothing comes behind it.
 */
size_t ranks_take(struct ranks_reader *reader, const char *piece, size_t len, bool last);

/* slurm_job from the text of /proc/PID/cgroup, if it was not in the environment. */
void ranks_take_cgroup(struct ranks *ranks, const char *text);

bool ranks_any(const struct ranks *ranks);

#endif
