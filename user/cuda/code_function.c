// SPDX-License-Identifier: Apache-2.0
#include "cuda/code_function.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/sorted.h"
#include "elf/image.h"
#include "elf/plt_entry.h"

#define MAX_RANGES 8
#define MAX_LEADERS 4096
#define MAX_TARGETS (4 * MAX_LEADERS)
#define MAX_SWEPT 32768 /* instructions */
#define MAX_RESTARTS 16
#define MAX_TABLE_ENTRIES 1024
#define FIND_WORK (1 << 16)
#define MAX_JUMPS 4
#define MAX_BEFORE_JUMP 6 /* instructions */
#define MAX_FIRST_INSTRUCTIONS 64

/* An instruction that is reached by another path than from the one before it. */
struct leader {
	uint64_t rva;
	struct code_state *state; /* NULL: not reached yet */
	bool queued;
};

struct walk {
	struct code_reader *reader;
	struct code_bounds *bounds;
	struct code_function *function;
	struct code_range ranges[MAX_RANGES];
	size_t nr_ranges, nr_swept_ranges;
	uint64_t *targets; /* they become leaders */
	size_t nr_targets;
	struct leader *leaders;
	size_t nr_leaders;
	uint32_t *queue; /* a ring, with each leader once at most */
	size_t queue_first, queue_nr;
	uint32_t nr_visits, nr_swept;
	bool again; /* more leaders or ranges were found */
	bool unclear;
	struct code_instruction in;
};

/* The range that rva is in. 0, -ENOENT, -EBADMSG, errors of reading. */
static int bounds_find(struct code_bounds *bounds, uint64_t rva, struct code_range *ret)
{
	struct eh_frame *frame = &bounds->frame;
	struct cfi_program *prog = &bounds->pass->prog;
	struct eh_fde fde;
	uint64_t start, next;
	size_t i;
	int err;

	eh_pass_init(bounds->pass, frame, FIND_WORK);
	err = eh_frame_find(frame, bounds->pass, rva, &i);
	if (err)
		return err;
	if (i >= frame->nr)
		return -ENOENT;
	err = eh_frame_get(frame, bounds->pass, &i, &fde, &start, &next);
	if (err)
		return err;
	if (rva < fde.start || rva >= fde.end || rva >= next)
		return -ENOENT;
	*ret = (struct code_range){ .start = fde.start, .end = fde.end < next ? fde.end : next };
	cfi_program_init(prog, &fde.program, fde.cie, fde.start, fde.end);
	ret->is_function = cfi_program_next(prog) > 0 && prog->start == fde.start &&
			   cfi_cfa_is_entry(&prog->state.cfa);
	return 0;
}

static bool is_inside(const struct walk *w, uint64_t rva)
{
	size_t i;

	for (i = 0; i < w->nr_ranges; i++)
		if (rva >= w->ranges[i].start && rva < w->ranges[i].end)
			return true;
	return false;
}

static int target_add(struct walk *w, uint64_t rva)
{
	if (w->nr_targets == MAX_TARGETS)
		return -E2BIG;
	w->targets[w->nr_targets++] = rva;
	return 0;
}

bool code_function_plt_word(struct code_reader *reader, uint64_t rva, uint64_t *ret)
{
	uint8_t code[PLT_ENTRY_MAX_BYTES];
	int len = code_reader_bytes(reader, rva, code, sizeof(code));
	bool is_index;

	return len > 0 && plt_entry_decode(code, (size_t)len, rva, ret, &is_index) && !is_index;
}

/*
 * A jump leaves the known ranges of the function, to another part of it or to another function.
 * A PLT is one range for .eh_frame, and that of a large library is too much to scan.
 */
static int leave(struct walk *w, uint64_t rva)
{
	struct code_range range;
	uint64_t word;
	int err;

	if (!code_reader_has(w->reader, rva) || code_function_plt_word(w->reader, rva, &word))
		return 0;
	err = bounds_find(w->bounds, rva, &range);
	if (err)
		return err == -ENOENT ? 0 : err;
	if (range.is_function && range.start == rva)
		return 0;
	if (w->nr_ranges == MAX_RANGES)
		return -E2BIG;
	w->ranges[w->nr_ranges++] = range;
	w->again = true;
	return target_add(w, rva);
}

static bool is_branch(const struct code_instruction *in)
{
	return in->insn.kind == INSTRUCTION_BRANCH || in->insn.kind == INSTRUCTION_JUMP;
}

/*
 * Collects the targets of a range's direct branches, and the instructions after a jump or a ret
 * and its padding.
 */
static int sweep(struct walk *w, struct code_range range)
{
	static const struct code_state nothing;
	struct code_target target;
	bool is_after_end = true;
	uint64_t rva;
	int err = 0;

	for (rva = range.start; rva < range.end && !err; rva += w->in.insn.bytes) {
		if (++w->nr_swept > MAX_SWEPT)
			return -E2BIG;
		err = code_reader_get(w->reader, rva, &w->in);
		if (err == -ENOENT) {
			w->in.insn.bytes = 1;
			is_after_end = true;
			err = 0;
			continue;
		}
		if (err)
			return err;
		if (is_after_end && (rva == range.start || w->in.insn.kind != INSTRUCTION_NOP)) {
			err = target_add(w, rva);
			is_after_end = false;
		}
		if (!err && is_branch(&w->in)) {
			target = code_target(&nothing, &w->in);
			if (target.kind == CODE_TARGET_CODE)
				err = is_inside(w, target.n) ? target_add(w, target.n)
							     : leave(w, target.n);
		}
		if (instruction_ends_block(&w->in.insn))
			is_after_end = true;
	}
	return err;
}

static void leaders_fini(struct walk *w)
{
	size_t i;

	for (i = 0; i < w->nr_leaders; i++)
		free(w->leaders[i].state);
	w->nr_leaders = 0;
}

static int leaders_init(struct walk *w)
{
	size_t i;
	int err;

	leaders_fini(w);
	while (w->nr_swept_ranges < w->nr_ranges) {
		err = sweep(w, w->ranges[w->nr_swept_ranges]);
		if (err)
			return err;
		w->nr_swept_ranges++;
	}
	qsort(w->targets, w->nr_targets, sizeof(*w->targets), sorted_by_u64);
	for (i = 0; i < w->nr_targets; i++) {
		if (w->nr_leaders && w->targets[i] == w->leaders[w->nr_leaders - 1].rva)
			continue;
		if (w->nr_leaders == MAX_LEADERS)
			return -E2BIG;
		w->leaders[w->nr_leaders++] = (struct leader){ .rva = w->targets[i] };
	}
	for (i = 0; i < w->nr_leaders; i++)
		w->targets[i] = w->leaders[i].rva;
	w->nr_targets = w->nr_leaders;
	w->queue_first = w->queue_nr = 0;
	w->function->nr = 0;
	w->unclear = w->again = false;
	return 0;
}

static struct leader *leader_find(struct walk *w, uint64_t rva)
{
	return bsearch(&rva, w->leaders, w->nr_leaders, sizeof(*w->leaders), sorted_by_u64);
}

/* A path reaches rva in this state. */
static int arrive(struct walk *w, uint64_t rva, const struct code_state *state)
{
	struct leader *leader = leader_find(w, rva);

	if (!leader && is_inside(w, rva)) {
		w->again = true;
		return target_add(w, rva);
	}
	if (!leader)
		return leave(w, rva);
	if (!leader->state) {
		leader->state = malloc(sizeof(*state));
		if (!leader->state)
			return -ENOMEM;
		*leader->state = *state;
	} else if (!code_state_meet(leader->state, state)) {
		return 0;
	}
	if (!leader->queued) {
		leader->queued = true;
		w->queue[(w->queue_first + w->queue_nr++) % MAX_LEADERS] =
			(uint32_t)(leader - w->leaders);
	}
	return 0;
}

static bool is_possible(struct walk *w, uint64_t rva)
{
	struct code_range range;

	return is_inside(w, rva) || (code_reader_has(w->reader, rva) &&
				     !bounds_find(w->bounds, rva, &range) && !range.is_function);
}

/*
 * A path reaches a switch. Its table ends at an entry that leads elsewhere. Entries read behind
 * its true end only make values unknown.
 */
static int arrive_table(struct walk *w, struct code_target table, const struct code_state *state)
{
	bool narrow = table.kind == CODE_TARGET_TABLE;
	uint64_t off, target;
	int32_t entry;
	uint32_t i;
	int err;

	for (i = 0; i < MAX_TABLE_ENTRIES; i++) {
		err = elf_image_rva_to_off(w->reader->img, table.n + i * (narrow ? 4 : 8), &off);
		if (!err)
			err = narrow ? elf_image_read(w->reader->img, off, &entry, sizeof(entry))
				     : elf_image_read(w->reader->img, off, &target, sizeof(target));
		if (err)
			break;
		if (narrow)
			target = table.n + (uint64_t)(int64_t)entry;
		if (!is_possible(w, target))
			break;
		err = arrive(w, target, state);
		if (err)
			return err;
	}
	if (!i)
		w->unclear = true;
	return 0;
}

static int arrive_jump(struct walk *w, const struct code_state *state)
{
	struct code_target target = code_target(state, &w->in);

	switch (target.kind) {
	case CODE_TARGET_CODE:
		return arrive(w, target.n, state);
	case CODE_TARGET_TABLE:
	case CODE_TARGET_ADDRESSES:
		return arrive_table(w, target, state);
	case CODE_TARGET_UNKNOWN:
		w->unclear = true;
		return 0;
	default:
		return 0; /* another function's begin */
	}
}

static struct code_call *call_get(struct code_function *function, uint64_t rva)
{
	size_t i;

	for (i = function->nr; i > 0; i--)
		if (function->calls[i - 1].rva == rva)
			return &function->calls[i - 1];
	return function->nr < CODE_FUNCTION_MAX_CALLS ? &function->calls[function->nr++] : NULL;
}

/* Each visit knows less than the one before, so the last one counts. */
static int call_note(struct walk *w, const struct code_state *state)
{
	struct code_call *call = call_get(w->function, w->in.rva);
	uint32_t i;

	if (!call)
		return -E2BIG;
	call->rva = w->in.rva;
	call->end = w->in.rva + w->in.insn.bytes;
	call->target = code_target(state, &w->in);
	for (i = 0; i < CODE_NR_ARGUMENTS; i++)
		call->arguments[i] = *code_state_argument(state, i);
	return 0;
}

static int run_block(struct walk *w, const struct leader *leader)
{
	struct code_state state = *leader->state;
	uint64_t rva = leader->rva;
	int err;

	for (;;) {
		err = code_reader_get(w->reader, rva, &w->in);
		if (err)
			return err == -ENOENT ? 0 : err;
		if (++w->nr_visits > CODE_FUNCTION_MAX_VISITS)
			return -E2BIG;
		if (w->in.insn.kind == INSTRUCTION_CALL)
			err = call_note(w, &state);
		else if (is_branch(&w->in))
			err = arrive_jump(w, &state);
		if (err)
			return err;
		if (instruction_ends_block(&w->in.insn))
			return 0;
		rva += w->in.insn.bytes;
		code_state_execute(&state, &w->in);
		if (!is_inside(w, rva))
			return 0;
		if (leader_find(w, rva))
			return arrive(w, rva, &state);
	}
}

static int run_queue(struct walk *w)
{
	struct leader *leader;
	int err = 0;

	while (w->queue_nr && !err && !w->again) {
		leader = &w->leaders[w->queue[w->queue_first]];
		w->queue_first = (w->queue_first + 1) % MAX_LEADERS;
		w->queue_nr--;
		leader->queued = false;
		err = run_block(w, leader);
	}
	return err;
}

/* Follows paths from the begin, then from each place that no path has reached. */
static int run(struct walk *w)
{
	struct code_state state;
	size_t i;
	int err;

	code_state_begin(&state);
	err = arrive(w, w->ranges[0].start, &state);
	if (!err)
		err = run_queue(w);
	code_state_init(&state);
	for (i = 0; i < w->nr_leaders && !err && !w->again; i++) {
		if (w->leaders[i].state)
			continue;
		err = arrive(w, w->leaders[i].rva, &state);
		if (!err)
			err = run_queue(w);
	}
	return err;
}

/* The calls that are known without following any path. */
static int list_calls(struct walk *w, uint64_t end)
{
	static const struct code_state nothing;
	struct code_range range = w->ranges[0];
	uint32_t nr = 0;
	uint64_t rva;
	int err;

	w->function->nr = 0;
	w->function->is_known = false;
	for (rva = range.start; rva < range.end && rva < end; rva += w->in.insn.bytes) {
		if (++nr > MAX_SWEPT)
			return -E2BIG;
		err = code_reader_get(w->reader, rva, &w->in);
		if (err == -ENOENT) {
			w->in.insn.bytes = 1;
			continue;
		}
		if (err)
			return err;
		if (w->in.insn.kind == INSTRUCTION_CALL && rva + w->in.insn.bytes == end)
			return call_note(w, &nothing);
	}
	return 0;
}

static int follow(struct walk *w)
{
	uint32_t i;
	int err = 0;

	w->again = true;
	for (i = 0; w->again && !err; i++) {
		if (i == MAX_RESTARTS)
			return -E2BIG;
		err = leaders_init(w);
		if (!err && !w->again)
			err = run(w);
	}
	return err;
}

int code_function_read(struct code_function *ret, struct code_reader *reader,
		       struct code_bounds *bounds, uint64_t rva, uint64_t end)
{
	struct walk w = { .reader = reader, .bounds = bounds, .function = ret };
	int err;

	ret->nr = 0;
	ret->is_known = false;
	err = bounds_find(bounds, rva, &w.ranges[0]);
	if (err)
		return err;
	w.nr_ranges = 1;
	ret->start = w.ranges[0].start;
	w.targets = malloc(MAX_TARGETS * sizeof(*w.targets));
	w.leaders = malloc(MAX_LEADERS * sizeof(*w.leaders));
	w.queue = malloc(MAX_LEADERS * sizeof(*w.queue));
	if (!w.targets || !w.leaders || !w.queue)
		err = -ENOMEM;
	else if (w.ranges[0].is_function)
		err = follow(&w);
	else
		w.unclear = true;
	ret->is_known = !err && !w.unclear;
	if (err == -E2BIG || (!err && w.unclear))
		err = list_calls(&w, end);
	leaders_fini(&w);
	free(w.targets);
	free(w.leaders);
	free(w.queue);
	return err;
}

const struct code_call *code_function_call(const struct code_function *function, uint64_t end)
{
	size_t i;

	for (i = 0; i < function->nr; i++)
		if (function->calls[i].end == end)
			return &function->calls[i];
	return NULL;
}

/* The jump at rva, after instructions that do not matter. */
static bool is_jump(struct code_reader *reader, uint64_t rva, uint64_t *ret)
{
	static const struct code_state nothing;
	struct code_instruction in;
	struct code_target target;
	int i;

	for (i = 0; i < MAX_BEFORE_JUMP && !code_reader_get(reader, rva, &in); i++) {
		if (in.insn.kind == INSTRUCTION_JUMP) {
			target = code_target(&nothing, &in);
			*ret = target.n;
			return target.kind == CODE_TARGET_CODE;
		}
		if (!code_is_frame(&in))
			return false;
		rva += in.insn.bytes;
	}
	return false;
}

uint64_t code_function_behind_jumps(struct code_reader *reader, uint64_t rva)
{
	uint64_t next;
	int i;

	for (i = 0; i < MAX_JUMPS && is_jump(reader, rva, &next); i++)
		rva = next;
	return rva;
}

uint64_t code_function_first_call(struct code_reader *reader, uint64_t rva)
{
	static const struct code_state nothing;
	struct code_instruction in;
	struct code_target target;
	int i;

	rva = code_function_behind_jumps(reader, rva);
	for (i = 0; i < MAX_FIRST_INSTRUCTIONS && !code_reader_get(reader, rva, &in); i++) {
		if (in.insn.kind == INSTRUCTION_CALL) {
			target = code_target(&nothing, &in);
			return target.kind == CODE_TARGET_CODE ? target.n : 0;
		}
		if (instruction_ends_block(&in.insn))
			return 0;
		rva += in.insn.bytes;
	}
	return 0;
}
