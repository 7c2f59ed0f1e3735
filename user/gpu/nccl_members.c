// SPDX-License-Identifier: Apache-2.0
#include "gpu/nccl_members.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/report_read.h"

#define WAIT_SECONDS 1.0 /* a shorter call is not unusual */

bool nccl_is_group_end(const struct gpu_report_open *open)
{
	return !strcmp(open->function, "ncclGroupEnd");
}

const struct gpu_report_grouped *nccl_grouped_of(const struct gpu_report_open *open, uint64_t comm)
{
	size_t i;

	for (i = 0; i < open->group.nr; i++)
		if (open->group.rows[i].comm == comm)
			return &open->group.rows[i];
	return NULL;
}

/*
 * Is the call a collective that began before the hooks, and whose communicator its stack does not
 * show?
 */
static bool is_of_unknown(const struct gpu_report_open *open)
{
	return open->since_before && !open->comm &&
	       !strncmp(open->function, "nccl", strlen("nccl")) &&
	       strncmp(open->function, "ncclComm", strlen("ncclComm")) != 0 &&
	       !gpu_read_is_between_two(open->function);
}

/*
 * How certain it is that a call waits for the other ranks of a communicator; the most certain call
 * counts.
 */
enum presence { NOT_IN_IT, MAYBE_IN_IT, IN_ITS_GROUP, IN_IT };

static enum presence presence_of(const struct gpu_report_open *open, uint64_t comm)
{
	if (!nccl_is_group_end(open) && is_of_unknown(open))
		return MAYBE_IN_IT;
	if (!nccl_is_group_end(open))
		return open->comm == comm ? IN_IT : NOT_IN_IT;
	if (!open->group.complete)
		return MAYBE_IN_IT;
	return nccl_grouped_of(open, comm) ? IN_ITS_GROUP : NOT_IN_IT;
}

static const struct gpu_report_open *open_of(const struct gpu_report_process *process,
					     uint64_t comm)
{
	const struct gpu_report_open *found = NULL, *open;
	enum presence presence, best = NOT_IN_IT;
	size_t i;

	for (i = 0; i < process->nr_open; i++) {
		open = &process->open[i];
		presence = presence_of(open, comm);
		if (presence < best || presence == NOT_IN_IT)
			continue;
		if (presence > best || open->seconds > found->seconds)
			found = open;
		best = presence;
	}
	return found;
}

/* Some NCCL calls only enqueue work: then the rank waits in a call that synchronizes. */
static const struct gpu_report_open *other_open_of(const struct gpu_report_process *process,
						   uint64_t comm)
{
	const struct gpu_report_open *found = NULL, *open;
	size_t i;

	for (i = 0; i < process->nr_open; i++) {
		open = &process->open[i];
		if (presence_of(open, comm) < IN_ITS_GROUP && open->seconds >= WAIT_SECONDS &&
		    (!found || open->seconds > found->seconds))
			found = open;
	}
	return found;
}

static double collective_calls(const struct gpu_report_process *process,
			       const struct gpu_report_comm *comm)
{
	const struct gpu_report_collective *collective;
	double calls = (double)comm->calls;
	size_t i;

	for (i = 0; i < process->nr_collectives; i++) {
		collective = &process->collectives[i];
		if (collective->comm == comm->comm &&
		    gpu_read_is_between_two(collective->operation))
			calls -= (double)collective->calls;
	}
	return calls > 0 ? calls : 0;
}

static int compare_members(const void *first, const void *second)
{
	const struct nccl_member *m = first, *n = second;
	const struct gpu_report_comm *a = m->comm, *b = n->comm;

	return GPU_ORDER(a->hash, b->hash) ?: GPU_ORDER(a->size, b->size) ?:
	       GPU_ORDER(a->rank, b->rank) ?: GPU_ORDER(m->process, n->process) ?:
	       GPU_ORDER(a, b);
}

static bool same_comm(const struct nccl_member *a, const struct nccl_member *b)
{
	return a->comm->hash == b->comm->hash && a->comm->size == b->comm->size;
}

bool nccl_is_absent(const struct nccl_member *member)
{
	return member->last && member->awaited && !member->waits && !member->unsure;
}

static void counts_add(const struct gpu_read *read, struct nccl_counts *counts,
		       const struct nccl_member *member)
{
	double seconds = read->files[member->process->file].report.seconds;

	if (!counts->busiest) {
		counts->busiest = member;
		counts->fewest = member->calls;
		counts->shortest_run = counts->longest_run = seconds;
	}
	counts->one_file &= member->process->file == counts->busiest->process->file;
	if (member->calls < counts->fewest)
		counts->fewest = member->calls;
	if (member->calls > counts->busiest->calls)
		counts->busiest = member;
	if (seconds < counts->shortest_run)
		counts->shortest_run = seconds;
	if (seconds > counts->longest_run)
		counts->longest_run = seconds;
}

static struct nccl_counts counts_of(const struct gpu_read *read, const struct nccl_member *members,
				    size_t nr)
{
	struct nccl_counts counts = { .one_file = true,
				      .peers_only = true,
				      .waiting_counted = true };
	const struct nccl_member *member;
	size_t i;

	for (i = 0; i < nr; i++) {
		member = &members[i];
		if (!member->last)
			continue;
		if (!member->uncounted)
			counts_add(read, &counts, member);
		counts.nr++;
		counts.nr_uncounted += member->uncounted;
		counts.nr_unsure += member->unsure;
		counts.unsure_before |= member->unsure && !nccl_is_group_end(member->open);
		counts.nr_absent += nccl_is_absent(member);
		if (member->other && (!counts.elsewhere ||
				      member->other->seconds > counts.elsewhere->other->seconds))
			counts.elsewhere = member;
		if (!member->waits)
			continue;
		counts.nr_waiting++;
		counts.peers_only &= member->peers_only;
		counts.waiting_counted &= !member->uncounted;
		if (member->calls > counts.most_waiting)
			counts.most_waiting = member->calls;
		if (!counts.longest || member->open->seconds > counts.longest->open->seconds)
			counts.longest = member;
	}
	counts.most = counts.busiest ? counts.busiest->calls : 0;
	return counts;
}

bool nccl_some_are_absent(const struct nccl_counts *counts)
{
	return counts->nr_waiting && counts->nr_absent;
}

static unsigned int severity_of(const struct nccl_group *group)
{
	const struct nccl_counts *counts = &group->counts;

	if (nccl_some_are_absent(counts))
		return 4;
	if (counts->nr_waiting || counts->nr_unsure || counts->elsewhere)
		return counts->fewest < counts->most || counts->nr < group->members->comm->size ? 3
												: 2;
	return counts->fewest < counts->most;
}

static int compare_groups(const void *first, const void *second)
{
	const struct nccl_group *a = first, *b = second;

	return GPU_ORDER(b->severity, a->severity) ?: GPU_ORDER(a->members, b->members);
}

static bool is_in_call(const struct nccl_member *member)
{
	return member->open && member->open->seconds >= WAIT_SECONDS;
}

/* Are all collectives of its group in this communicator sends and receives? */
static bool is_peers_only(const struct nccl_member *member)
{
	const struct gpu_report_group *group = &member->open->group;
	size_t i;

	for (i = 0; i < group->nr; i++)
		if (group->rows[i].comm == member->comm->comm &&
		    !gpu_read_is_between_two(group->rows[i].operation))
			return false;
	return true;
}

static void member_judge(struct nccl_member *member)
{
	if (!is_in_call(member))
		return;
	switch (presence_of(member->open, member->comm->comm)) {
	case IN_IT:
		member->waits = true;
		member->peers_only = gpu_read_is_between_two(member->open->function);
		break;
	case IN_ITS_GROUP:
		member->waits = true;
		member->peers_only = is_peers_only(member);
		break;
	default:
		member->unsure = member->process->report->nr_comms > 1;
		member->waits = !member->unsure;
	}
}

/* The last member with that rank; members are sorted by rank. */
static struct nccl_member *member_find(struct nccl_member *members, size_t nr, uint32_t rank)
{
	size_t low = 0, high = nr, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (members[middle].comm->rank <= rank)
			low = middle + 1;
		else
			high = middle;
	}
	return low && members[low - 1].comm->rank == rank ? &members[low - 1] : NULL;
}

/* Marks the peer of a send or receive, unless the peer is in a call itself. */
static void peer_await(struct nccl_member *members, size_t nr, const char *operation,
		       const char *extra)
{
	struct nccl_member *peer;
	uint32_t rank;

	if (!gpu_read_peer(operation, extra, &rank))
		return;
	peer = member_find(members, nr, rank);
	if (peer && !is_in_call(peer))
		peer->awaited = true;
}

/* In a collective a rank waits for all ranks, in a send or receive for its peer. */
static void awaited_mark(struct nccl_member *members, size_t nr)
{
	const struct gpu_report_grouped *grouped;
	const struct gpu_report_open *open;
	bool all = false;
	size_t i, k;

	for (i = 0; i < nr; i++)
		all |= members[i].last && members[i].waits && !members[i].peers_only;
	for (i = 0; i < nr; i++) {
		/*
		 * The rank waits for its peer, which may wait for all ranks: so the others wait for
		 * this rank.
		 */
		if (all && members[i].waits && gpu_read_is_between_two(members[i].open->function))
			members[i].waits = false;
		members[i].awaited |= all;
		if (all || !members[i].last || !members[i].waits)
			continue;
		open = members[i].open;
		peer_await(members, nr, open->function, open->extra);
		for (k = 0; k < open->group.nr; k++) {
			grouped = &open->group.rows[k];
			if (grouped->comm == members[i].comm->comm)
				peer_await(members, nr, grouped->operation, grouped->extra);
		}
	}
}

static void member_init(struct nccl_member *member, const struct gpu_read_process *process,
			const struct gpu_report_comm *comm)
{
	*member = (struct nccl_member){ .comm = comm,
					.process = process,
					.open = open_of(process->report, comm->comm),
					.other = other_open_of(process->report, comm->comm),
					.calls = collective_calls(process->report, comm) };
	member->uncounted = member->open && member->open->since_before;
	member_judge(member);
}

static size_t members_fill(const struct gpu_read *read, struct nccl_member *members)
{
	const struct gpu_report_process *process;
	size_t nr = 0, i, k;

	for (i = 0; i < read->nr_processes; i++) {
		process = read->processes[i].report;
		for (k = 0; k < process->nr_comms; k++)
			if (process->comms[k].known)
				member_init(&members[nr++], &read->processes[i],
					    &process->comms[k]);
	}
	return nr;
}

/* Members are sorted by communicator and rank. */
static size_t groups_fill(const struct gpu_read *read, struct nccl_group *groups,
			  struct nccl_member *members, size_t nr)
{
	size_t nr_groups = 0, i;
	struct nccl_group *group = NULL;

	for (i = 0; i < nr; i++) {
		members[i].last = i + 1 == nr || !same_comm(&members[i], &members[i + 1]) ||
				  members[i].comm->rank != members[i + 1].comm->rank;
		if (!i || !same_comm(&members[i - 1], &members[i])) {
			group = &groups[nr_groups++];
			*group = (struct nccl_group){ .members = &members[i] };
		}
		group->nr++;
	}
	for (i = 0; i < nr_groups; i++) {
		awaited_mark(groups[i].members, groups[i].nr);
		groups[i].counts = counts_of(read, groups[i].members, groups[i].nr);
		groups[i].severity = severity_of(&groups[i]);
	}
	return nr_groups;
}

int nccl_groups_make(struct nccl_groups *ret, const struct gpu_read *read)
{
	struct nccl_groups made = {
		.members = calloc(read->nr_comms + 1, sizeof(*made.members)),
		.groups = calloc(read->nr_comms + 1, sizeof(*made.groups)),
	};

	if (!made.members || !made.groups) {
		nccl_groups_fini(&made);
		return -ENOMEM;
	}
	made.nr_members = members_fill(read, made.members);
	qsort(made.members, made.nr_members, sizeof(*made.members), compare_members);
	made.nr = groups_fill(read, made.groups, made.members, made.nr_members);
	qsort(made.groups, made.nr, sizeof(*made.groups), compare_groups);
	*ret = made;
	return 0;
}

void nccl_groups_fini(struct nccl_groups *groups)
{
	free(groups->members);
	free(groups->groups);
}
