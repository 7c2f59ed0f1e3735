// SPDX-License-Identifier: Apache-2.0
/*
 * Who is behind. All ranks of a communicator make the same collective calls in the same order, so
 * that one which is in none while the others wait in one is what they wait for. Where that does not
 * tell, the number of calls does, as far as it goes: each file counts from when bpfprof came, so that
 * a rank which was in its call by then has a number that says nothing. Sends and receives are between
 * two ranks: their numbers tell nothing, and who waits in one does so for the rank that it names.
 */
#include "gpu/nccl_writer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/units.h"
#include "gpu/report_read.h"

#define WAIT_SECONDS 1.0 /* in a call, from which on it is no wait as usual */
#define MAX_BEHIND 8 /* of which more is told, unless all rows were asked for */
#define MAX_HINTS 8
#define MAX_OPEN 4 /* calls of one process */
#define MAX_STACK 48 /* lines */
#define MAX_FRAME 160 /* columns */
#define MAX_FUNCTION 20
#define MAX_OPEN_FUNCTION 40 /* "a function of libcuda" is no name, and stands on its own line */
#define MAX_GROUP_MARK 8 /* " (group)" */
#define MAX_CALL_TEXT 80 /* bytes */
#define MAX_GROUP 8 /* kinds of collectives */
#define MAX_THREAD 32
#define MAX_WHERE 4 /* threads of one process */
#define OPEN_WIDTH 32
#define RUNS_DIFFER 1.1 /* durations: by so much they differ much */

/* A rank of a communicator, in one process of one file. */
struct member {
	const struct gpu_report_comm *comm;
	const struct gpu_read_process *process;
	const struct gpu_report_open *open; /* the oldest in it, or end of a group; or NULL */
	const struct gpu_report_open
		*other; /* the oldest elsewhere: waits for the device; or NULL */
	double calls; /* collective ones */
	bool last; /* of this rank: older files tell of older moments */
	bool uncounted; /* in its call since before it was watched */
	bool waits;
	bool unsure; /* waits for this or for another communicator */
	bool peers_only; /* waits, but with sends and receives alone: for those that it names */
	bool awaited; /* by one that waits */
	bool behind;
};

/* The calls of a group wait in its end, which by itself does not say of which communicator they are. */
static bool is_group_end(const struct gpu_report_open *open)
{
	return !strcmp(open->function, "ncclGroupEnd");
}

/* The first of them that is of this communicator, or NULL. */
static const struct gpu_report_grouped *grouped_of(const struct gpu_report_open *open,
						   uint64_t comm)
{
	size_t i;

	for (i = 0; i < open->group.nr; i++)
		if (open->group.rows[i].comm == comm)
			return &open->group.rows[i];
	return NULL;
}

/* A collective from before it was watched, whose frame did not tell of which communicator it is. */
static bool is_of_unknown(const struct gpu_report_open *open)
{
	return open->since_before && !open->comm &&
	       !strncmp(open->function, "nccl", strlen("nccl")) &&
	       strncmp(open->function, "ncclComm", strlen("ncclComm")) != 0 &&
	       !gpu_read_is_between_two(open->function);
}

/* How sure it is that the call waits for the others of a communicator; the surest one is told. */
enum presence { NOT_IN_IT, MAYBE_IN_IT, IN_ITS_GROUP, IN_IT };

static enum presence presence_of(const struct gpu_report_open *open, uint64_t comm)
{
	if (!is_group_end(open) && is_of_unknown(open))
		return MAYBE_IN_IT;
	if (!is_group_end(open))
		return open->comm == comm ? IN_IT : NOT_IN_IT;
	if (!open->group.complete)
		return MAYBE_IN_IT;
	return grouped_of(open, comm) ? IN_ITS_GROUP : NOT_IN_IT;
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

/* Where NCCL's calls only enqueue, who waits does so in a synchronizing call. */
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

static int compare(const void *first, const void *second)
{
	const struct member *m = first, *n = second;
	const struct gpu_report_comm *a = m->comm, *b = n->comm;

	return GPU_ORDER(a->hash, b->hash) ?: GPU_ORDER(a->size, b->size) ?:
	       GPU_ORDER(a->rank, b->rank) ?: GPU_ORDER(m->process, n->process) ?:
	       GPU_ORDER(a, b);
}

static bool same_comm(const struct member *a, const struct member *b)
{
	return a->comm->hash == b->comm->hash && a->comm->size == b->comm->size;
}

/* Of the members for which *(bool *)(member + flag) is as wanted: "rank 1", "ranks 1, 3-5". */
static void add_ranks(struct buf *dst, const struct member *members, size_t nr, size_t flag,
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

static void add_seconds(struct buf *dst, double seconds)
{
	char text[UNITS_TEXT];

	buf_add_str(dst, units_ns(text, nccl_ns(seconds)));
}

/* How long the call is known to have taken. */
static void add_for(struct buf *dst, const struct gpu_report_open *open)
{
	buf_add_str(dst, open->since_before ? " for more than " : " for ");
	add_seconds(dst, open->seconds);
}

/* "ncclAllReduce", "ncclSend (group)": what the call does in that communicator. */
static const char *call_text(char text[MAX_CALL_TEXT], const struct gpu_report_open *open,
			     uint64_t comm)
{
	const struct gpu_report_grouped *grouped = NULL;

	if (is_group_end(open) && open->group.complete)
		grouped = grouped_of(open, comm);
	snprintf(text, MAX_CALL_TEXT, "%.64s%s", grouped ? grouped->operation : open->function,
		 grouped ? " (group)" : "");
	return text;
}

static void add_members(struct nccl_writer *w, const struct member *members, size_t nr)
{
	size_t shown = nr < w->rows ? nr : w->rows, i;
	const struct gpu_report_open *call;
	const struct member *member;
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
			add_seconds(&open, call->seconds);
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

/* By its hash, as everything here; by its address in its process where that is not known. */
static void add_comm_name(struct nccl_writer *w, const struct gpu_report_process *process,
			  uint64_t va)
{
	const struct gpu_report_comm *comm = gpu_report_comm_of(process, va);

	if (va == UINT64_MAX)
		buf_add_str(w->dst, "communicator not known");
	else if (comm && comm->known)
		buf_printf(w->dst, "communicator 0x%" PRIx64, comm->hash);
	else
		buf_printf(w->dst, "communicator at 0x%" PRIx64, va);
}

static void add_grouped(struct nccl_writer *w, const struct gpu_report_process *process,
			const struct gpu_report_grouped *grouped)
{
	char text[UNITS_TEXT];

	buf_printf(w->dst, "%" PRIu64 " ", grouped->count);
	nccl_add_name(w, grouped->operation, MAX_FUNCTION);
	buf_add_char(w->dst, ' ');
	nccl_add_name(w, grouped->datatype, MAX_FUNCTION);
	buf_printf(w->dst, " %s", units_bytes(text, grouped->bytes));
	if (gpu_read_is_between_two(grouped->operation))
		buf_printf(w->dst, " peer %s", grouped->extra ? grouped->extra : "0");
	buf_add_str(w->dst, ", ");
	add_comm_name(w, process, grouped->comm);
	buf_printf(w->dst, ", stream 0x%" PRIx64 "\n", grouped->stream);
}

/* What ncclGroupEnd waits for, as far as it was told. */
static void add_open_group(struct nccl_writer *w, const struct gpu_report_process *process,
			   const struct gpu_report_group *group)
{
	size_t shown = group->nr < MAX_GROUP ? group->nr : MAX_GROUP, i;

	for (i = 0; i < shown; i++) {
		buf_add_str(w->dst, i ? "        and " : "        in the group: ");
		add_grouped(w, process, &group->rows[i]);
	}
	if (shown < group->nr)
		buf_printf(w->dst, "        ... and %zu more\n", group->nr - shown);
	if (group->nr && !group->complete)
		buf_add_str(w->dst, "        (that may not be all of it)\n");
}

/* Lines of a stack; none if there is none. */
static void add_frames(struct nccl_writer *w, const char *const *stack, size_t nr)
{
	size_t shown = nr < MAX_STACK ? nr : MAX_STACK, i;

	for (i = 0; i < shown; i++) {
		buf_add_str(w->dst, "        ");
		nccl_add_name(w, stack[i], MAX_FRAME);
		buf_add_char(w->dst, '\n');
	}
	if (shown < nr)
		buf_printf(w->dst, "        ... and %zu more frames\n", nr - shown);
}

void nccl_add_open(struct nccl_writer *w, const struct gpu_read_process *process,
		   const struct gpu_report_open *open, bool of_many)
{
	buf_add_str(w->dst, "      in ");
	nccl_add_name(w, open->function, MAX_OPEN_FUNCTION);
	if (of_many)
		buf_add_str(w->dst, ", the longest");
	add_for(w->dst, open);
	buf_add_str(w->dst, ": thread ");
	if (!of_many)
		buf_printf(w->dst, "%" PRIu32 " ", open->tid);
	nccl_add_name(w, open->thread, MAX_THREAD);
	buf_add_char(w->dst, '\n');
	add_open_group(w, process->report, &open->group);
	add_frames(w, open->stack, open->nr_stack);
	if (!open->nr_stack)
		buf_add_str(w->dst, "        (no stack was taken)\n");
}

static void add_dump_hint(struct nccl_writer *w, const struct gpu_read_process *process)
{
	buf_printf(w->dst, "; to see where: bpfprof dump -p %" PRIu32 ", on ",
		   process->report->pid);
	nccl_add_name(w, w->read->files[process->file].report.host, MAX_FUNCTION);
}

void nccl_add_elsewhere(struct nccl_writer *w, const struct gpu_read_process *process, bool of_many)
{
	const struct gpu_report_where *where;
	size_t nr = process->report->nr_where, i;

	/* Of one that made none since, a call from before may not have been found. */
	buf_add_str(w->dst, process->silent ? "      in no CUDA or NCCL call that is known"
					    : "      in no CUDA or NCCL call");
	for (i = 0; i < nr && i < MAX_WHERE; i++) {
		where = &process->report->where[i];
		buf_add_str(w->dst, i ? "      and thread " : ": thread ");
		if (!of_many)
			buf_printf(w->dst, "%" PRIu32 " ", where->tid);
		nccl_add_name(w, where->thread, MAX_THREAD);
		if (where->was_in_nccl && nr > 1)
			buf_add_str(w->dst, ", the last seen in NCCL");
		if (where->running)
			buf_add_str(w->dst, ", on a CPU");
		if (!where->nr_stack)
			add_dump_hint(w, process);
		buf_add_char(w->dst, '\n');
		add_frames(w, where->stack, where->nr_stack);
	}
	if (!i) {
		add_dump_hint(w, process);
		buf_add_char(w->dst, '\n');
	}
}

/* What it has open, of whatever kind, with the stacks; else where it is. */
static void add_where(struct nccl_writer *w, const struct gpu_read_process *process)
{
	size_t nr = process->report->nr_open, shown = nr < MAX_OPEN ? nr : MAX_OPEN, i;

	for (i = 0; i < shown; i++)
		nccl_add_open(w, process, &process->report->open[i], false);
	if (shown < nr)
		buf_printf(w->dst, "      ... and %zu more calls open\n", nr - shown);
	if (!nr)
		nccl_add_elsewhere(w, process, false);
}

static bool is_idle(const struct member *member)
{
	return member->last && member->awaited && !member->waits && !member->unsure;
}

/* What is known of a communicator's members that are judged. */
struct counts {
	size_t nr, nr_waiting, nr_unsure, nr_uncounted;
	bool unsure_before; /* one of the unsure in a collective from before */
	size_t nr_idle; /* that somebody waits for */
	bool peers_only; /* all that wait do so in sends and receives */
	double fewest, most; /* calls, where they are counted */
	double most_waiting;
	const struct member *busiest; /* most calls; NULL: none of them is counted */
	const struct member *longest; /* waiting */
	const struct member *elsewhere; /* longest waiting in other calls */
	double shortest_run, longest_run; /* of those that are counted, */
	bool one_file; /* which are all of it */
	bool waiting_counted; /* so are all that wait */
};

static void counts_add(const struct nccl_writer *w, struct counts *counts,
		       const struct member *member)
{
	double seconds = w->read->files[member->process->file].report.seconds;

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

static struct counts counts_of(const struct nccl_writer *w, const struct member *members, size_t nr)
{
	struct counts counts = { .one_file = true, .peers_only = true, .waiting_counted = true };
	const struct member *member;
	size_t i;

	for (i = 0; i < nr; i++) {
		member = &members[i];
		if (!member->last)
			continue;
		if (!member->uncounted)
			counts_add(w, &counts, member);
		counts.nr++;
		counts.nr_uncounted += member->uncounted;
		counts.nr_unsure += member->unsure;
		counts.unsure_before |= member->unsure && !is_group_end(member->open);
		counts.nr_idle += is_idle(member);
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

static void add_longest(struct nccl_writer *w, const struct counts *counts)
{
	char text[MAX_CALL_TEXT];

	buf_add_str(w->dst, counts->nr_waiting > 1 ? ", the longest in " : ", in ");
	call_text(text, counts->longest->open, counts->longest->comm->comm);
	nccl_add_name(w, text, MAX_FUNCTION + MAX_GROUP_MARK);
	add_for(w->dst, counts->longest->open);
}

/* Where none waits in a collective. */
static void add_elsewhere(struct nccl_writer *w, const struct counts *counts)
{
	if (!counts->elsewhere) {
		buf_add_str(w->dst, "  None waits in a call: they may be running as usual\n");
		return;
	}
	buf_printf(w->dst, "  None waits in a collective, but rank %" PRIu32 " does in ",
		   counts->elsewhere->comm->rank);
	nccl_add_name(w, counts->elsewhere->other->function, MAX_FUNCTION);
	buf_add_char(w->dst, ',');
	add_for(w->dst, counts->elsewhere->other);
	buf_add_char(w->dst, '\n');
}

static void add_not_comparable(struct nccl_writer *w, const struct counts *counts)
{
	if (counts->one_file || counts->fewest == counts->most)
		return;
	buf_add_str(w->dst, "  Calls are counted from when bpfprof came, and these are of several "
			    "files, ");
	if (counts->longest_run > RUNS_DIFFER * counts->shortest_run)
		buf_printf(w->dst,
			   "of %.1f s to %.1f s:\n  the difference may be no more than that\n",
			   counts->shortest_run, counts->longest_run);
	else
		buf_printf(w->dst, "of %.1f s each:\n  a difference may come from their start\n",
			   counts->longest_run);
}

/* Those in no call, where others wait. */
static void judge_waiting(struct nccl_writer *w, struct member *members, size_t nr,
			  const struct counts *counts)
{
	double fewest = (double)UINT64_MAX, most = 0;
	size_t i;

	for (i = 0; i < nr; i++)
		members[i].behind = is_idle(&members[i]);
	buf_add_str(w->dst, "  BEHIND: ");
	add_ranks(w->dst, members, nr, offsetof(struct member, behind), true);
	buf_printf(w->dst, ", in no %s of this communicator, while ",
		   counts->peers_only ? "call" : "collective");
	add_ranks(w->dst, members, nr, offsetof(struct member, waits), true);
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

static void judge_calls(struct nccl_writer *w, struct member *members, size_t nr,
			const struct counts *counts)
{
	size_t i;

	for (i = 0; i < nr; i++)
		members[i].behind = members[i].last && !members[i].uncounted &&
				    members[i].calls == counts->fewest;
	buf_add_str(w->dst, "  BEHIND: ");
	add_ranks(w->dst, members, nr, offsetof(struct member, behind), true);
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

static void judge_equal(struct nccl_writer *w, const struct counts *counts)
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

/* Where there is not a number for each. */
static void judge_uncounted(struct nccl_writer *w, const struct counts *counts)
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

static void add_uncounted(struct nccl_writer *w, const struct member *members, size_t nr,
			  const struct counts *counts)
{
	buf_printf(w->dst, "  In it since before %s watched: ",
		   counts->nr_uncounted == 1 ? "it was" : "they were");
	add_ranks(w->dst, members, nr, offsetof(struct member, uncounted), true);
	buf_add_str(w->dst, ", whose calls cannot be compared\n");
}

/* Ranks in different calls at once never come together. */
static void add_mismatch(struct nccl_writer *w, const struct member *members, size_t nr)
{
	const struct member *first = NULL, *member;
	char text[UNITS_TEXT];
	size_t i;

	for (i = 0; i < nr; i++) {
		member = &members[i];
		if (!member->last || !member->waits || is_group_end(member->open) ||
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

/* The least of the ranks from first to last that one has who is not in the communicator. */
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
		w->looks -= process->nr_comms < w->looks ? process->nr_comms : w->looks;
		if (has_comm(process, comm))
			continue;
		*ret = rank;
		found = true;
	}
	return found;
}

/* Its environment calls it so: of the whole job, which this communicator may not be of. */
static void add_hints(struct nccl_writer *w, const struct gpu_report_comm *comm, uint32_t first,
		      uint32_t last, size_t *nr)
{
	const struct gpu_read_process *process;
	uint32_t rank = first, of_process;
	size_t i;

	for (; *nr < MAX_HINTS && w->looks > w->read->nr_processes; first = rank + 1) {
		w->looks -= w->read->nr_processes;
		if (!rank_find(w, comm, first, last, &rank))
			return;
		for (i = 0; i < w->read->nr_processes && *nr < MAX_HINTS; i++) {
			process = &w->read->processes[i];
			if (!gpu_read_number(process->report->rank, &of_process) ||
			    of_process != rank || has_comm(process->report, comm))
				continue;
			(*nr)++;
			buf_printf(w->dst, "    RANK=%" PRIu32 ", if that is it: ", rank);
			nccl_add_process(w, process);
			buf_add_char(w->dst, '\n');
			add_where(w, process);
		}
		if (rank == last)
			return;
	}
}

static void add_missing(struct nccl_writer *w, const struct member *members, size_t nr,
			const struct counts *counts)
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
		   counts->nr_waiting ? ".\n  Others wait: if watched, that is who is behind" : "");
	for (i = 0, next = 0; i <= nr; i++) {
		end = i < nr ? members[i].comm->rank : size;
		if (end > next)
			add_hints(w, members[0].comm, next, end - 1, &nr_hints);
		next = i < nr ? end + 1 : end;
	}
}

static void add_behind(struct nccl_writer *w, const struct member *members, size_t nr)
{
	size_t max = w->rows == SIZE_MAX ? SIZE_MAX : MAX_BEHIND, shown = 0, i;

	for (i = 0; i < nr && shown < max; i++) {
		if (!members[i].behind)
			continue;
		shown++;
		buf_printf(w->dst, "    Rank %" PRIu32 ": ", members[i].comm->rank);
		nccl_add_process(w, members[i].process);
		buf_add_char(w->dst, '\n');
		add_where(w, members[i].process);
	}
}

/* One communicator. */
struct group {
	struct member *members;
	size_t nr;
	struct counts counts;
	unsigned int severity;
};

static bool some_are_idle(const struct counts *counts)
{
	return counts->nr_waiting && counts->nr_idle;
}

static unsigned int severity_of(const struct group *group)
{
	const struct counts *counts = &group->counts;

	if (some_are_idle(counts))
		return 4;
	if (counts->nr_waiting || counts->nr_unsure || counts->elsewhere)
		return counts->fewest < counts->most || counts->nr < group->members->comm->size ? 3
												: 2;
	return counts->fewest < counts->most;
}

static int compare_groups(const void *first, const void *second)
{
	const struct group *a = first, *b = second;

	return GPU_ORDER(b->severity, a->severity) ?: GPU_ORDER(a->members, b->members);
}

static void add_group(struct nccl_writer *w, const struct group *group)
{
	const struct counts *counts = &group->counts;
	struct member *members = group->members;
	size_t nr = group->nr;

	buf_printf(w->dst, "\nCommunicator 0x%" PRIx64 ", %" PRIu32 " %s\n", members->comm->hash,
		   members->comm->size, members->comm->size == 1 ? "rank" : "ranks");
	add_members(w, members, nr);
	if (some_are_idle(counts))
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
		add_uncounted(w, members, nr, counts);
	if (counts->nr_unsure && counts->unsure_before)
		buf_add_str(w->dst, "  Of calls from before it is not always known for which "
				    "communicator they wait\n");
	else if (counts->nr_unsure)
		buf_add_str(w->dst,
			    "  Who waits in ncclGroupEnd may do so for another communicator\n");
	if (counts->nr_waiting && counts->peers_only && !counts->nr_idle)
		buf_add_str(w->dst, "  Whoever these send to or receive from waits, too, is not in "
				    "these files, or is not known\n");
	add_not_comparable(w, counts);
	add_mismatch(w, members, nr);
	add_behind(w, members, nr);
	add_missing(w, members, nr, counts);
}

static bool is_in_call(const struct member *member)
{
	return member->open && member->open->seconds >= WAIT_SECONDS;
}

/* Of what its group has of this communicator. */
static bool is_peers_only(const struct member *member)
{
	const struct gpu_report_group *group = &member->open->group;
	size_t i;

	for (i = 0; i < group->nr; i++)
		if (group->rows[i].comm == member->comm->comm &&
		    !gpu_read_is_between_two(group->rows[i].operation))
			return false;
	return true;
}

static void member_judge(struct member *member)
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

/* Among those of one communicator, by rank. */
static struct member *member_find(struct member *members, size_t nr, uint32_t rank)
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

/* A send or receive by itself may be the one that is waited for. */
static void peer_await(struct member *members, size_t nr, const char *operation, const char *extra)
{
	struct member *peer;
	uint32_t rank;

	if (!gpu_read_peer(operation, extra, &rank))
		return;
	peer = member_find(members, nr, rank);
	if (peer && !is_in_call(peer))
		peer->awaited = true;
}

/* In a collective each waits for all, in sends and receives for whom these are with. */
static void awaited_mark(struct member *members, size_t nr)
{
	const struct gpu_report_grouped *grouped;
	const struct gpu_report_open *open;
	bool all = false;
	size_t i, k;

	for (i = 0; i < nr; i++)
		all |= members[i].last && members[i].waits && !members[i].peers_only;
	for (i = 0; i < nr; i++) {
		/* For its peer, who waits for all: it is what the others wait for. */
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

static void member_init(struct member *member, const struct gpu_read_process *process,
			const struct gpu_report_comm *comm)
{
	*member = (struct member){ .comm = comm,
				   .process = process,
				   .open = open_of(process->report, comm->comm),
				   .other = other_open_of(process->report, comm->comm),
				   .calls = collective_calls(process->report, comm) };
	member->uncounted = member->open && member->open->since_before;
	member_judge(member);
}

static size_t members_fill(const struct gpu_read *read, struct member *members)
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

/* Members of one communicator stand together, by rank. */
static size_t groups_fill(const struct nccl_writer *w, struct group *groups, struct member *members,
			  size_t nr)
{
	size_t nr_groups = 0, i;
	struct group *group = NULL;

	for (i = 0; i < nr; i++) {
		members[i].last = i + 1 == nr || !same_comm(&members[i], &members[i + 1]) ||
				  members[i].comm->rank != members[i + 1].comm->rank;
		if (!i || !same_comm(&members[i - 1], &members[i])) {
			group = &groups[nr_groups++];
			*group = (struct group){ .members = &members[i] };
		}
		group->nr++;
	}
	for (i = 0; i < nr_groups; i++) {
		awaited_mark(groups[i].members, groups[i].nr);
		groups[i].counts = counts_of(w, groups[i].members, groups[i].nr);
		groups[i].severity = severity_of(&groups[i]);
	}
	return nr_groups;
}

int nccl_add_comms(struct nccl_writer *w)
{
	const struct gpu_read *read = w->read;
	__cleanup(free_mem) struct member *members = calloc(read->nr_comms + 1, sizeof(*members));
	__cleanup(free_mem) struct group *groups = calloc(read->nr_comms + 1, sizeof(*groups));
	size_t nr, nr_groups, shown, i;

	if (!members || !groups)
		return -ENOMEM;
	nr = members_fill(read, members);
	qsort(members, nr, sizeof(*members), compare);
	nr_groups = groups_fill(w, groups, members, nr);
	qsort(groups, nr_groups, sizeof(*groups), compare_groups);
	shown = nr_groups < w->rows ? nr_groups : w->rows;
	for (i = 0; i < shown; i++)
		add_group(w, &groups[i]);
	if (shown < nr_groups)
		buf_printf(w->dst, "\n... and %zu more communicators\n", nr_groups - shown);
	if (!nr)
		buf_add_str(w->dst,
			    "\nNo communicator was used while these processes were watched\n");
	if (read->nr_comms > nr)
		buf_printf(w->dst, "\n%zu more communicators, whose ranks are not known\n",
			   read->nr_comms - nr);
	return 0;
}
