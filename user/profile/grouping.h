/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_GROUPING_H
#define BPFPROF_PROFILE_GROUPING_H

/* --by: the meaning of the first frame of a collapsed stack and of a flame graph. */

struct profile;

enum profile_by {
	PROFILE_BY_TASK = 0, /* names and Ray's titles: workers with the same task are one */
	PROFILE_BY_PROCESS = 1, /* NAME-PID: one group per process, also if its name changes */
	PROFILE_BY_RANK = 2, /* `rank N`; processes without a rank as by process */
	PROFILE_BY_POD = 3, /* NAMESPACE/POD; processes without a pod as by task */
};

/*
 * Sets the title of every process. By process, a process with several names gets the one with the most
 * samples, and a Ray worker the class of its actor. By rank, if the profile has ranks of several Slurm
 * jobs, the title is `job J rank N`. 0; -ENOMEM: the titles stay as they were.
 */
int profile_group(struct profile *profile, enum profile_by by);

#endif
