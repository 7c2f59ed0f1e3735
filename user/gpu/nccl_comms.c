// SPDX-License-Identifier: Apache-2.0
/*
 * Finds the ranks that are behind. All ranks of a communicator make the same collective calls in
 * the same order, so the others wait for a rank that is in no call. If all ranks are in calls, the
 * number of calls may show it; but each file counts from the start of its bpfprof, so a rank whose
 * call began before then has no useful number. A send or receive is between two ranks: its rank
 * waits for the rank that it names.
 */
#include "gpu/nccl_members.h"
#include "gpu/nccl_writer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "gpu/report_read.h"

#define MAX_BEHIND 8 /* these ranks are shown with their calls, unless all rows are asked for */
#define MAX_HINTS 8
#define MAX_FUNCTION 20
#define MAX_GROUP_MARK 8 /* " (group)" */
#define MAX_CALL_TEXT 80 /* bytes */
#define OPEN_WIDTH 32
#define RUNS_DIFFER 1.1 /* durations that differ by this factor differ much */

/* Adds "rank 1" or "ranks 1, 3-5": the members whose flag, at that offset, is as wanted. */
static void add_ranks(struct buf *dst, const struct nccl_member *members, size_t nr, size_t flag,
		      bool wanted)
{
	struct nccl_ranges ranges = { .dst = dst };
	uint32_t first = 0, last = 0;
	size_t i, found = 0;

	for (i = 0; i < nr; i++)
		found += members[i].last && *((const bool *)&members[i] + flag) == wanted;
	buf_add_str(dst, found == 1 ? "rank " : "ranks ");
	for (i = 0, found = 0; i < nr; i++) {
		if (!members[i].last || *((const bool *)&members[i] + flag) != wanted)
			continue;
		if (!found++) {
			first = members[i].comm->rank;
		} else if (members[i].comm->rank != last + 1) {
			nccl_range_add(&ranges, first, last);
			first = members[i].comm->rank;
		}
		last = members[i].comm->rank;
	}
	if (found)
		nccl_range_add(&ranges, first, last);
}

/* The name of the call in that communicator, such as "ncclAllReduce" or "ncclSend (group)". */
static const char *call_text(char text[MAX_CALL_TEXT], const struct gpu_report_open *open,
			     uint64_t comm)
{
	const struct gpu_report_grouped *grouped = NULL;

	if (nccl_is_group_end(open) && open->group.complete)
		grouped = nccl_grouped_of(open, comm);
	snprintf(text, MAX_CALL_TEXT, "%.64s%s", grouped ? grouped->operation : open->function,
		 grouped ? " (group)" : "");
	return text;
}

static void add_members(struct nccl_writer *w, const struct nccl_member *members, size_t nr)
{
	size_t shown = nr < w->rows ? nr : w->rows, i;
	const struct gpu_report_open *call;
	const struct nccl_member *member;
	char text[MAX_CALL_TEXT];
	struct buf open;

	buf_init(&open, 256);
	buf_printf(w->dst, "  %6s  %9s  %-*s  %-*s  %s\n", "Rank", "Calls", MAX_FUNCTION, "Last",
		   OPEN_WIDTH, "Open", "Process");
	for (i = 0; i < shown; i++) {
		member = &members[i];
		buf_printf(w->dst, "  %6" PRIu32 "  ", member->comm->rank);
		if (member->uncounted && !member->comm->calls)
			buf_printf(w->dst, "%9s  ", "-");
		else
			buf_printf(w->dst, "%9" PRIu64 "  ", member->comm->calls);
		nccl_add_cell(w, *member->comm->last ? member->comm->last : "-", MAX_FUNCTION);
		buf_add_str(w->dst, "  ");
		buf_reset(&open);
		call = member->open ? member->open : member->other;
		if (call) {
			buf_printf(&open, "%s for %s", call_text(text, call, member->comm->comm),
				   call->since_before ? "> " : "");
			nccl_add_seconds(&open, call->seconds);
		}
		nccl_add_cell(w, open.len ? open.data : "-", OPEN_WIDTH);
		buf_add_str(w->dst, "  ");
		nccl_add_process(w, member->process);
		buf_add_str(w->dst, member->last ? "\n" : " (an older file)\n");
	}
	if (shown < nr)
		buf_printf(w->dst, "  ... and %zu more\n", nr - shown);
	buf_fini(&open);
}

static void add_longest(struct nccl_writer *w, const struct nccl_counts *counts)
{
	char text[MAX_CALL_TEXT];

	buf_add_str(w->dst, counts->nr_waiting > 1 ? ", the longest in " : ", in ");
	call_text(text, counts->longest->open, counts->longest->comm->comm);
	nccl_add_name(w, text, MAX_FUNCTION + MAX_GROUP_MARK);
	nccl_add_for(w->dst, counts->longest->open);
}

/* Judges a communicator in which no rank waits in a collective. */
static void add_elsewhere(struct nccl_writer *w, const struct nccl_counts *counts)
{
	if (!counts->elsewhere) {
		buf_add_str(w->dst, "  No rank waits in a call: all may run as usual\n");
		return;
	}
	buf_printf(w->dst, "  No rank waits in a collective, but rank %" PRIu32 " does in ",
		   counts->elsewhere->comm->rank);
	nccl_add_name(w, counts->elsewhere->other->function, MAX_FUNCTION);
	buf_add_char(w->dst, ',');
	nccl_add_for(w->dst, counts->elsewhere->other);
	buf_add_char(w->dst, '\n');
}

static void add_not_comparable(struct nccl_writer *w, const struct nccl_counts *counts)
{
	if (counts->one_file || counts->fewest == counts->most)
		return;
	buf_add_str(w->dst, "  bpfprof counts calls from its own start, and these are of several "
			    "files, ");
	if (counts->longest_run > RUNS_DIFFER * counts->shortest_run)
		buf_printf(w->dst,
			   "of %.1f s to %.1f s:\n  this alone may explain the difference\n",
			   counts->shortest_run, counts->longest_run);
	else
		buf_printf(w->dst, "of %.1f s each:\n  a difference may come from their start\n",
			   counts->longest_run);
}

/* Judges a communicator in which some ranks wait and others are in no call. */
static void judge_waiting(struct nccl_writer *w, struct nccl_member *members, size_t nr,
			  const struct nccl_counts *counts)
{
	double fewest = (double)UINT64_MAX, most = 0;
	size_t i;

	for (i = 0; i < nr; i++)
		members[i].behind = nccl_is_absent(&members[i]);
	buf_add_str(w->dst, "  BEHIND: ");
	add_ranks(w->dst, members, nr, offsetof(struct nccl_member, behind), true);
	buf_printf(w->dst, ", in no %s of this communicator, while ",
		   counts->peers_only ? "call" : "collective");
	add_ranks(w->dst, members, nr, offsetof(struct nccl_member, waits), true);
	buf_add_str(w->dst, counts->nr_waiting == 1 ? " waits" : " wait");
	add_longest(w, counts);
	buf_add_char(w->dst, '\n');
	if (!counts->waiting_counted)
		return;
	for (i = 0; i < nr; i++) {
		if (!members[i].behind)
			continue;
		if (members[i].calls < fewest)
			fewest = members[i].calls;
		if (members[i].calls > most)
			most = members[i].calls;
	}
	if (most < counts->most_waiting)
		buf_printf(w->dst, "  With fewer calls, too: at most %.0f, those that wait %.0f\n",
			   most, counts->most_waiting);
	else if (fewest > counts->most_waiting)
		buf_printf(w->dst, "  But with more calls: %.0f or more, those that wait %.0f\n",
			   fewest, counts->most_waiting);
}

static void judge_calls(struct nccl_writer *w, struct nccl_member *members, size_t nr,
			const struct nccl_counts *counts)
{
	size_t i;

	for (i = 0; i < nr; i++)
		members[i].behind = members[i].last && !members[i].uncounted &&
				    members[i].calls == counts->fewest;
	buf_add_str(w->dst, "  BEHIND: ");
	add_ranks(w->dst, members, nr, offsetof(struct nccl_member, behind), true);
	buf_printf(w->dst, ", with %.0f calls, while rank %" PRIu32 " has made %.0f\n",
		   counts->fewest, counts->busiest->comm->rank, counts->most);
	if (counts->nr_waiting) {
		buf_add_str(w->dst,
			    counts->nr_waiting == counts->nr ? "  All wait" : "  Some wait");
		add_longest(w, counts);
		buf_add_char(w->dst, '\n');
	} else if (!counts->nr_unsure) {
		add_elsewhere(w, counts);
	}
}

static void judge_equal(struct nccl_writer *w, const struct nccl_counts *counts)
{
	buf_printf(w->dst, "  All %zu ranks have made %.0f calls", counts->nr, counts->most);
	if (counts->nr_waiting) {
		buf_add_str(w->dst, counts->nr_waiting == counts->nr ? ", and all wait"
								     : ", and some wait");
		add_longest(w, counts);
	}
	buf_add_char(w->dst, '\n');
	if (!counts->nr_waiting && !counts->nr_unsure)
		add_elsewhere(w, counts);
}

/* Judges a communicator in which some ranks have no number of calls. */
static void judge_uncounted(struct nccl_writer *w, const struct nccl_counts *counts)
{
	if (counts->nr_waiting) {
		buf_printf(w->dst, "  %s %zu ranks wait",
			   counts->nr_waiting == counts->nr ? "All" : "Some of", counts->nr);
		add_longest(w, counts);
		buf_add_char(w->dst, '\n');
	} else if (counts->elsewhere && !counts->nr_unsure) {
		add_elsewhere(w, counts);
	}
}

static void add_uncounted(struct nccl_writer *w, const struct nccl_member *members, size_t nr)
{
	buf_add_str(w->dst, "  In a call since before the hooks: ");
	add_ranks(w->dst, members, nr, offsetof(struct nccl_member, uncounted), true);
	buf_add_str(w->dst, ", whose calls cannot be compared\n");
}

/* Ranks in different calls never come together. */
static void add_mismatch(struct nccl_writer *w, const struct nccl_member *members, size_t nr)
{
	const struct nccl_member *first = NULL, *member;
	char text[UNITS_TEXT];
	size_t i;

	for (i = 0; i < nr; i++) {
		member = &members[i];
		if (!member->last || !member->waits || nccl_is_group_end(member->open) ||
		    gpu_read_is_between_two(member->open->function))
			continue;
		if (!first)
			first = member;
		if (strcmp(first->open->function, member->open->function) ||
		    first->open->bytes != member->open->bytes)
			break;
	}
	if (!first || i == nr)
		return;
	buf_printf(w->dst, "  They wait in different calls: rank %" PRIu32 " in ",
		   first->comm->rank);
	nccl_add_name(w, first->open->function, MAX_FUNCTION);
	buf_printf(w->dst, " of %s, rank %" PRIu32 " in ", units_bytes(text, first->open->bytes),
		   member->comm->rank);
	nccl_add_name(w, member->open->function, MAX_FUNCTION);
	buf_printf(w->dst, " of %s\n", units_bytes(text, member->open->bytes));
}

static bool has_comm(const struct gpu_report_process *process, const struct gpu_report_comm *comm)
{
	const struct gpu_report_comm *other;
	size_t i;

	for (i = 0; i < process->nr_comms; i++) {
		other = &process->comms[i];
		if (other->known && other->hash == comm->hash && other->size == comm->size)
			return true;
	}
	return false;
}

/* The least RANK from first to last of a process that is not in the communicator. */
static bool rank_find(struct nccl_writer *w, const struct gpu_report_comm *comm, uint32_t first,
		      uint32_t last, uint32_t *ret)
{
	const struct gpu_report_process *process;
	bool found = false;
	uint32_t rank;
	size_t i;

	for (i = 0; i < w->read->nr_processes; i++) {
		process = w->read->processes[i].report;
		if (!gpu_read_number(process->rank, &rank) || rank < first || rank > last ||
		    (found && rank >= *ret))
			continue;
		w->scans_left -=
			process->nr_comms < w->scans_left ? process->nr_comms : w->scans_left;
		if (has_comm(process, comm))
			continue;
		*ret = rank;
		found = true;
	}
	return found;
}

/* RANK in the environment is the rank in the whole job, which may be another communicator. */
static void add_hints(struct nccl_writer *w, const struct gpu_report_comm *comm, uint32_t first,
		      uint32_t last, size_t *nr)
{
	const struct gpu_read_process *process;
	uint32_t rank = first, of_process;
	size_t i;

	for (; *nr < MAX_HINTS && w->scans_left > w->read->nr_processes; first = rank + 1) {
		w->scans_left -= w->read->nr_processes;
		if (!rank_find(w, comm, first, last, &rank))
			return;
		for (i = 0; i < w->read->nr_processes && *nr < MAX_HINTS; i++) {
			process = &w->read->processes[i];
			if (!gpu_read_number(process->report->rank, &of_process) ||
			    of_process != rank || has_comm(process->report, comm))
				continue;
			(*nr)++;
			buf_printf(w->dst, "    RANK=%" PRIu32 ", which may be it: ", rank);
			nccl_add_process(w, process);
			buf_add_char(w->dst, '\n');
			nccl_add_calls(w, process);
		}
		if (rank == last)
			return;
	}
}

static void add_missing(struct nccl_writer *w, const struct nccl_member *members, size_t nr,
			const struct nccl_counts *counts)
{
	uint32_t size = members[0].comm->size, next, end;
	struct nccl_ranges ranges = { .dst = w->dst };
	size_t i, nr_hints = 0;

	if (counts->nr == size)
		return;
	buf_printf(w->dst, "  Not in these files: %s ", size - counts->nr == 1 ? "rank" : "ranks");
	for (i = 0, next = 0; i <= nr; i++) {
		end = i < nr ? members[i].comm->rank : size;
		if (end > next)
			nccl_range_add(&ranges, next, end - 1);
		next = i < nr ? end + 1 : end;
	}
	buf_printf(w->dst, " of %" PRIu32 ": without a call while %s watched, or not watched%s\n",
		   size, size - counts->nr == 1 ? "it was" : "they were",
		   counts->nr_waiting
			   ? ".\n  Others wait: a missing rank is behind, if it was watched"
			   : "");
	for (i = 0, next = 0; i <= nr; i++) {
		end = i < nr ? members[i].comm->rank : size;
		if (end > next)
			add_hints(w, members[0].comm, next, end - 1, &nr_hints);
		next = i < nr ? end + 1 : end;
	}
}

static void add_behind(struct nccl_writer *w, const struct nccl_member *members, size_t nr)
{
	size_t max = w->rows == SIZE_MAX ? SIZE_MAX : MAX_BEHIND, shown = 0, i;

	for (i = 0; i < nr && shown < max; i++) {
		if (!members[i].behind)
			continue;
		shown++;
		buf_printf(w->dst, "    Rank %" PRIu32 ": ", members[i].comm->rank);
		nccl_add_process(w, members[i].process);
		buf_add_char(w->dst, '\n');
		nccl_add_calls(w, members[i].process);
	}
}

static void add_group(struct nccl_writer *w, const struct nccl_group *group)
{
	const struct nccl_counts *counts = &group->counts;
	struct nccl_member *members = group->members;
	size_t nr = group->nr;

	buf_printf(w->dst, "\nCommunicator 0x%" PRIx64 ", %" PRIu32 " %s\n", members->comm->hash,
		   members->comm->size, members->comm->size == 1 ? "rank" : "ranks");
	add_members(w, members, nr);
	if (nccl_some_are_absent(counts))
		judge_waiting(w, members, nr, counts);
	else if (counts->fewest < counts->most)
		judge_calls(w, members, nr, counts);
	else if (counts->nr > 1 && counts->nr_uncounted)
		judge_uncounted(w, counts);
	else if (counts->nr > 1)
		judge_equal(w, counts);
	else if (members->comm->size > 1)
		buf_add_str(w->dst, "  One rank alone: there is none to compare it with\n");
	if (counts->nr > 1 && counts->nr_uncounted)
		add_uncounted(w, members, nr);
	if (counts->nr_unsure && counts->unsure_before)
		buf_add_str(w->dst, "  Some calls began before the hooks: which communicator they "
				    "wait for is not always known\n");
	else if (counts->nr_unsure)
		buf_add_str(w->dst, "  A rank in ncclGroupEnd may wait for another communicator\n");
	if (counts->nr_waiting && counts->peers_only && !counts->nr_absent)
		buf_add_str(w->dst, "  The awaited ranks wait, too, are not in these files, or are "
				    "not known\n");
	add_not_comparable(w, counts);
	add_mismatch(w, members, nr);
	add_behind(w, members, nr);
	add_missing(w, members, nr, counts);
}

int nccl_add_comms(struct nccl_writer *w)
{
	struct nccl_groups groups;
	size_t shown, i;

	if (nccl_groups_make(&groups, w->read))
		return -ENOMEM;
	shown = groups.nr < w->rows ? groups.nr : w->rows;
	for (i = 0; i < shown; i++)
		add_group(w, &groups.groups[i]);
	if (shown < groups.nr)
		buf_printf(w->dst, "\n... and %zu more communicators\n", groups.nr - shown);
	if (!groups.nr_members)
		buf_add_str(w->dst,
			    "\nNo communicator was used while these processes were watched\n");
	if (w->read->nr_comms > groups.nr_members)
		buf_printf(w->dst, "\n%zu more communicators, whose ranks are not known\n",
			   w->read->nr_comms - groups.nr_members);
	nccl_groups_fini(&groups);
	return 0;
}
