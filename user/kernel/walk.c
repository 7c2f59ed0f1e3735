// SPDX-License-Identifier: Apache-2.0
#include "kernel/walk.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bpfprof.h"
#include "kernel/anon_code.h"
#include "kernel/tables.h"
#include "kernel/walk_code.h"
#include "kernel/walk_mappings.h"
#include "kernel/walk_marks.h"
#include "kernel/walk_rows.h"
#include "proc/images.h"
#include "proc/processes.h"
#include "unwind/cfi.h"
#include "unwind/reader.h"
#include "unwind_native.h"

/*
 * The mappings of a process with very many of them are read less often than its samples ask for:
 * this may take 2% of the time. An ordinary process takes some 50 us and is read at once.
 */
#define REFRESH_DEAR_NS 1000000ULL
#define REFRESH_DEAR_FACTOR 50
#define STACK_PAGE_BYTES 4096

int walker_init(struct walker *walker)
{
	walker->row_buffer = malloc(CFI_PAGE_MAX_ROWS * sizeof(*walker->row_buffer));
	if (!walker->row_buffer)
		return -ENOMEM;
	walker->copies = (struct image_copies){ .images = walker->images,
						.processes = walker->processes,
						.refusals = walker->refusals,
						.session = walker->session,
						.runner = walker->runner,
						.pid = getpid() };
	return anon_code_new(&walker->anon_code, walker->session, walker->runner);
}

void walker_fini(struct walker *walker)
{
	free(walker->row_buffer);
	walker->row_buffer = NULL;
	anon_code_free(walker->anon_code);
	walker->anon_code = NULL;
}

/* Reads from the copy of the stack. */
struct copy_reader {
	struct unwind_reader reader; /* first */
	uint64_t va, holes;
	uint32_t len;
	bool beyond; /* a read went beyond the copy */
	const uint8_t *data;
};

/* Is any byte of [va, va + len) in a page without memory? */
static bool in_hole(const struct copy_reader *copy, uint64_t va, uint32_t len)
{
	uint64_t first = va / STACK_PAGE_BYTES - copy->va / STACK_PAGE_BYTES;
	uint64_t last = (va + len - 1) / STACK_PAGE_BYTES - copy->va / STACK_PAGE_BYTES;

	for (; copy->holes && len && first <= last && first < BPFPROF_STACK_PAGES; first++)
		if (copy->holes >> first & 1)
			return true;
	return false;
}

static int copy_read(struct unwind_reader *reader, __u64 va, void *dst, __u32 len)
{
	struct copy_reader *copy = (struct copy_reader *)reader;
	uint64_t off = va - copy->va;

	if (off >= copy->len || len > copy->len - off || in_hole(copy, va, len)) {
		copy->beyond = true;
		return -EFAULT;
	}
	memcpy(dst, copy->data + off, len);
	return 0;
}

/* Reads a stack in which return probes have replaced return addresses. */
struct returns_reader {
	struct unwind_reader reader; /* first */
	struct unwind_reader *stack;
	const struct bpfprof_return *returns;
	uint32_t nr;
};

static uint64_t return_restore(const struct bpfprof_return *returns, uint32_t nr, uint64_t va,
			       uint64_t ra)
{
	uint32_t i;

	for (i = 0; i < nr && i < BPFPROF_MAX_RETURNS; i++)
		if (returns[i].va == va && !(ra & (STACK_PAGE_BYTES - 1)))
			return returns[i].to;
	return ra;
}

static int returns_read(struct unwind_reader *reader, __u64 va, void *dst, __u32 len)
{
	struct returns_reader *over = (struct returns_reader *)reader;
	int err = over->stack->read(over->stack, va, dst, len);
	uint64_t value;

	if (err || len != sizeof(value))
		return err;
	memcpy(&value, dst, sizeof(value));
	value = return_restore(over->returns, over->nr, va, value);
	memcpy(dst, &value, sizeof(value));
	return 0;
}

static bool has_rule(uint64_t row)
{
	return unwind_row_kind(row) == ROW_CFA || unwind_row_kind(row) == ROW_PLT ||
	       unwind_row_kind(row) == ROW_DEREF || unwind_row_kind(row) == ROW_SIGNAL;
}

/* May the mappings be read again for this sample: is it newer, and is the time left? */
static bool may_refresh(const struct process *process, uint64_t sample_ns, uint64_t now_ns)
{
	if (process->dead || sample_ns <= process->read_ns)
		return false;
	return process->read_cost_ns < REFRESH_DEAR_NS ||
	       now_ns - process->read_ns >= process->read_cost_ns * REFRESH_DEAR_FACTOR;
}

/* The mapping of pc; reads the mappings again if there is none. */
static const struct process_mapping *mapping_need(struct walker *walker, struct process *process,
						  uint64_t pc, uint64_t sample_ns, uint64_t now_ns)
{
	const struct process_mapping *m = process_mapping_find(process, pc);

	if (m || !may_refresh(process, sample_ns, now_ns))
		return m;
	walker_refresh(walker, process, now_ns);
	return process_mapping_find(process, pc);
}

/* Walks one frame; 0: the walk goes on. all_registers: use the complete rules, not rows. */
static uint32_t walk_one(struct walker *walker, struct process *process, struct unwind_state *state,
			 struct unwind_reader *reader, bool all_registers, uint64_t sample_ns,
			 uint64_t *ret_frame, uint64_t now_ns)
{
	struct code_trial trial = { .walker = walker,
				    .process = process,
				    .state = state,
				    .reader = reader,
				    .now_ns = now_ns };
	uint64_t pc = unwind_lookup_pc(state), off, row;
	bool learned = false;
	const struct process_mapping *m = mapping_need(walker, process, pc, sample_ns, now_ns);
	struct image *image;

	*ret_frame = 0;
	if (!m && (process->dead || !process->mappings_known))
		return BPFPROF_STOP_MISS_GONE;
	if (!m) /* there is no code, or no time to read the mappings */
		return process->read_ns >= sample_ns ? BPFPROF_STOP_BAD_FRAME
						     : BPFPROF_STOP_NO_MAPPING;
	if (m->image == BPFPROF_IMAGE_NONE) {
		*ret_frame = (uint64_t)BPFPROF_FRAME_NATIVE_VA << BPFPROF_FRAME_SHIFT |
			     (pc & BPFPROF_FRAME_MASK);
		row = code_row_anon(walker, process, m, &trial, now_ns);
		return row ? (uint32_t)unwind_step(state, row, reader) : BPFPROF_STOP_MISS_RATE;
	}
	trial.mapping = m;
	off = pc - m->start + m->off;
	*ret_frame = (uint64_t)BPFPROF_FRAME_NATIVE << BPFPROF_FRAME_SHIFT |
		     m->image << BPFPROF_OFF_BITS | (off & BPFPROF_OFF_MASK);
	image = images_get(walker->images, (uint32_t)m->image);
	row = rows_look_up(walker, image, off, state->exact, now_ns);
	if (unwind_row_unexplored(row)) {
		if (may_refresh(process, sample_ns, now_ns))
			walker_refresh(walker, process, now_ns);
		trial.mapping = process_mapping_find(process, pc);
		trial.all_mapped = process->read_ns >= sample_ns;
		row = code_row_learn(walker, image, off, state->exact, &trial, now_ns);
		learned = true;
	}
	if (!row)
		return trial.unread ? BPFPROF_STOP_READ_FAULT : BPFPROF_STOP_MISS_RATE;
	/* No row can hold the rule, or the walk must not lose a register. */
	*ret_frame += unwind_signal_entry(state, row, off);
	if (learned || (unwind_row_kind(row) != ROW_RARE && !(all_registers && has_rule(row))))
		return (uint32_t)unwind_step(state, row, reader);
	return rules_step(walker, image, off, state, reader, now_ns);
}

/* Reads the mappings of the process if the mapping of pc is not known and a read is possible. */
static struct process *process_prepare(struct walker *walker, const struct walker_miss *miss,
				       uint64_t pc, uint64_t now_ns)
{
	struct process *process = processes_get(walker->processes, &miss->sample->task);
	struct process_mapping found;
	bool void_now;

	if (!process)
		return NULL;
	void_now = !process->mappings_known || tables_is_void(walker->tables, process) ||
		   miss->sample->stop == BPFPROF_STOP_NO_PROCESS;
	if (void_now && may_refresh(process, miss->sample->rec.ts_ns, now_ns))
		walker_refresh(walker, process, now_ns);
	else
		mapping_need(walker, process, pc, miss->sample->rec.ts_ns, now_ns);
	if (miss->sample->flags & BPFPROF_SAMPLE_VMA && !process_mapping_find(process, pc)) {
		found = walker_mapping_of(walker->images, walker_own_pid(walker, process),
					  process->tenant, &miss->at->leaf_vma, NULL);
		process_mapping_add(process, &found);
	}
	return process;
}

/* Walks from the registers to the end. Returns the new number of frames. */
static uint32_t walk(struct walker *walker, struct process *process,
		     const struct walker_stack *stack, bool all_registers, uint64_t *frames,
		     uint32_t nr, uint32_t cap, uint32_t *stop, uint64_t now_ns)
{
	struct unwind_state state = { .valid = stack->regs_valid, .exact = stack->pc_exact };
	struct marking marking = {
		.walker = walker, .stack = stack, .next = stack->next_entry, .nr = stack->nr_entries
	};
	uint32_t why = 0;
	uint64_t frame;

	memcpy(state.regs, stack->regs, sizeof(state.regs));
	while (!why) {
		if (nr >= cap) {
			why = BPFPROF_STOP_DEPTH;
			break;
		}
		if (marking.next < marking.nr)
			unwind_settle(&state, stack->reader);
		marking.before = state;
		why = walk_one(walker, process, &state, stack->reader, all_registers, stack->ts_ns,
			       &frame, now_ns);
		if (frame && !why)
			frame = eval_mark(&marking, state.regs[UNWIND_SP], frame, frames, nr);
		if (frame && stack->sps)
			stack->sps[nr] = marking.before.regs[UNWIND_SP];
		if (frame)
			frames[nr++] = frame;
	}
	if (stack->sps)
		stack->sps[nr] = state.regs[UNWIND_SP];
	*stop = why;
	return nr;
}

uint32_t walker_walk(struct walker *walker, struct process *process,
		     const struct walker_stack *stack, uint64_t *frames, uint32_t nr, uint32_t cap,
		     uint32_t *stop, uint64_t now_ns)
{
	bool lost = *stop == BPFPROF_STOP_REG_LOST;
	struct returns_reader over = { .reader.read = returns_read,
				       .stack = stack->reader,
				       .returns = stack->returns,
				       .nr = stack->nr_returns };
	struct walker_stack restored = *stack;
	uint32_t total;

	if (stack->nr_returns)
		restored.reader = &over.reader;
	total = walk(walker, process, &restored, lost, frames, nr, cap, stop, now_ns);
	/*
	 * Rows are quicker but lose registers: if one was missing, walk again and follow all of
	 * them.
	 */
	if (*stop == BPFPROF_STOP_REG_LOST && !lost && !rules_allowed(walker))
		*stop = BPFPROF_STOP_MISS_RATE; /* the result of the rows is better than nothing */
	else if (*stop == BPFPROF_STOP_REG_LOST && !lost)
		total = walk(walker, process, &restored, true, frames, nr, cap, stop, now_ns);
	return total;
}

uint32_t walker_finish(struct walker *walker, const struct walker_miss *miss, uint64_t *frames,
		       uint32_t nr, uint32_t cap, uint32_t *stop, uint64_t now_ns)
{
	__u64 regs[BPFPROF_NR_REGS];
	uint64_t pc;
	struct process *process;
	struct copy_reader copy = { .reader.read = copy_read,
				    .va = miss->at->stack_va,
				    .holes = miss->at->stack_holes,
				    .len = miss->at->stack_len,
				    .data = miss->stack };
	struct walker_stack stack = { .regs = regs,
				      .regs_valid = miss->at->regs_valid,
				      .pc_exact = miss->at->pc_exact,
				      .reader = &copy.reader,
				      .entries = miss->entries,
				      .nr_entries = miss->at->nr_entries,
				      .next_entry = miss->at->next_entry,
				      .returns = miss->at->returns,
				      .nr_returns = miss->at->nr_returns,
				      .ts_ns = miss->sample->rec.ts_ns };

	memcpy(regs, miss->at->regs, sizeof(regs));
	if (!miss->at->pc_exact)
		regs[UNWIND_PC] = return_restore(stack.returns, stack.nr_returns,
						 regs[UNWIND_SP] - 8, regs[UNWIND_PC]);
	pc = regs[UNWIND_PC] - !miss->at->pc_exact;
	process = process_prepare(walker, miss, pc, now_ns);
	if (!process) {
		*stop = BPFPROF_STOP_MISS_GONE;
		return nr;
	}
	/*
	 * The thread never enters user mode (io_uring, vhost): the miss only reports its process.
	 */
	if (!miss->at->regs[UNWIND_PC] && !miss->at->regs[UNWIND_SP]) {
		*stop = BPFPROF_STOP_NO_USER;
		return nr;
	}
	*stop = miss->sample->stop;
	nr = walker_walk(walker, process, &stack, frames, nr, cap, stop, now_ns);
	if (*stop == BPFPROF_STOP_READ_FAULT && copy.beyond && copy.len)
		*stop = BPFPROF_STOP_MISS_WINDOW;
	return nr;
}
