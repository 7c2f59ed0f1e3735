// SPDX-License-Identifier: Apache-2.0
/*
 * Writes the open calls of a process with their stacks. For a process without one it writes its
 * threads' stacks.
 */
#include "gpu/nccl_writer.h"

#include <inttypes.h>

#include "base/units.h"
#include "gpu/report_read.h"

#define MAX_OPEN 4 /* calls of one process */
#define MAX_STACK 48 /* lines */
#define MAX_FRAME 160 /* columns */
#define MAX_FUNCTION 20
#define MAX_OPEN_FUNCTION 40 /* "a function of libcuda" is no name, and has its own line */
#define MAX_GROUP 8 /* kinds of collectives */
#define MAX_THREAD 32
#define MAX_WHERE 4 /* threads of one process */

void nccl_add_seconds(struct buf *dst, double seconds)
{
	char text[UNITS_TEXT];

	buf_add_str(dst, units_ns(text, nccl_ns(seconds)));
}

/* How long the call is known to have taken. */
void nccl_add_for(struct buf *dst, const struct gpu_report_open *open)
{
	buf_add_str(dst, open->since_before ? " for more than " : " for ");
	nccl_add_seconds(dst, open->seconds);
}

/* A communicator by its hash, or by its address in the process if the hash is not known. */
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

/* The known collectives of the group that ncclGroupEnd waits for. */
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
		buf_add_str(w->dst, "        (this may not be all)\n");
}

/* Adds the lines of a stack. */
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
	nccl_add_for(w->dst, open);
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

	/* The process may be in a call that began before the hooks and was not found. */
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

void nccl_add_calls(struct nccl_writer *w, const struct gpu_read_process *process)
{
	size_t nr = process->report->nr_open, shown = nr < MAX_OPEN ? nr : MAX_OPEN, i;

	for (i = 0; i < shown; i++)
		nccl_add_open(w, process, &process->report->open[i], false);
	if (shown < nr)
		buf_printf(w->dst, "      ... and %zu more calls open\n", nr - shown);
	if (!nr)
		nccl_add_elsewhere(w, process, false);
}
