/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_GROUPING_H
#define BPFPROF_PROFILE_GROUPING_H

/* --by: what the first frame of a collapsed stack and of a flame graph tells apart. */

struct profile;

enum profile_by {
	PROFILE_BY_TASK = 0, /* names and Ray's titles: workers with the same task are one */
	PROFILE_BY_PROCESS = 1, /* NAME-PID, whatever it calls itself in between */
	PROFILE_BY_RANK = 2, /* `rank N`; what has none as by process */
	PROFILE_BY_POD = 3, /* NAMESPACE/POD; what lives in none as by task */
};

/*
 * Sets the title of every process. By process one that had several names gets that with the most
 * samples; a Ray worker the class of its actor. By rank, with ranks of several Slurm jobs in
 * the profile, `job J rank N`. 0 or -ENOMEM, then the titles are as they were.
 */
int profile_group(struct profile *profile, enum profile_by by);

#endif
