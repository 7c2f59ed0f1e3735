/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_NCCL_MEMBERS_H
#define BPFPROF_GPU_NCCL_MEMBERS_H

/*
 * The communicators of the files that were read, each with its ranks: which rank waits in which
 * call, and how many calls each rank made.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gpu_read;
struct gpu_read_process;
struct gpu_report_comm;
struct gpu_report_grouped;
struct gpu_report_open;

/* A rank of a communicator, in one process of one file. */
struct nccl_member {
	const struct gpu_report_comm *comm;
	const struct gpu_read_process *process;
	/* The oldest call in this communicator, or an end of a group that may be in it; or NULL. */
	const struct gpu_report_open *open;
	/* The oldest call elsewhere, such as a wait for the device; or NULL. */
	const struct gpu_report_open *other;
	double calls; /* collective calls */
	bool last; /* the newest file with this rank: only this one is judged */
	bool uncounted; /* its call began before the hooks were attached */
	bool waits;
	bool unsure; /* it waits for this communicator or for another one */
	bool peers_only; /* it waits in sends and receives alone, so only for the ranks they name */
	bool awaited; /* another rank waits for it */
	bool behind; /* it is what the others wait for */
};

/* Sums of the members of a communicator that are judged. */
struct nccl_counts {
	size_t nr, nr_waiting, nr_unsure, nr_uncounted;
	size_t nr_absent; /* ranks that others wait for and that wait in no call */
	bool unsure_before; /* an unsure member is in a collective from before the hooks */
	bool peers_only; /* all waiting members wait in sends and receives */
	bool waiting_counted; /* the calls of all waiting members are counted */
	double most_waiting; /* calls of a waiting member */
	const struct nccl_member *longest; /* the one that waits longest */
	const struct nccl_member *elsewhere; /* the one that waits longest in a call elsewhere */
	/* Sums over the members whose calls are counted. */
	double fewest, most; /* calls */
	const struct nccl_member *busiest; /* the one with most calls; NULL: no member is counted */
	double shortest_run, longest_run; /* seconds of their files */
	bool one_file; /* all are of one file */
};

/* A communicator. */
struct nccl_group {
	struct nccl_member *members; /* by rank */
	size_t nr;
	struct nccl_counts counts;
	unsigned int severity; /* 4: ranks are absent, ... 0: nothing stands out */
};

struct nccl_groups {
	struct nccl_member *members; /* of all groups */
	size_t nr_members;
	struct nccl_group *groups; /* by severity, the most severe first */
	size_t nr;
};

int nccl_groups_make(struct nccl_groups *ret, const struct gpu_read *read); /* 0 or -ENOMEM */
void nccl_groups_fini(struct nccl_groups *groups);

/* Do others wait for the member, which waits in no call? */
bool nccl_is_absent(const struct nccl_member *member);
bool nccl_some_are_absent(const struct nccl_counts *counts);

/* Is the call an ncclGroupEnd? The function alone does not say of which communicator it is. */
bool nccl_is_group_end(const struct gpu_report_open *open);
/* The first collective of the group that is of this communicator, or NULL. */
const struct gpu_report_grouped *nccl_grouped_of(const struct gpu_report_open *open, uint64_t comm);

#endif
