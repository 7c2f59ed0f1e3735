// SPDX-License-Identifier: Apache-2.0
#include "unwind/go_rows.h"

#include <errno.h>
#include <stddef.h>

#include "unwind/go_code.h"
#include "unwind/go_work.h"
#include "unwind/reader.h"
#include "unwind_native.h"

/*
 * The caller of a Go function is found at the stack pointer (sp) + the table's value (pcsp). The function
 * saves the frame pointer (bp) right below the return address: since Go 1.21 by a push, before that by a
 * store after sp was lowered, so that bp is still the caller's between the two instructions. Hand-written
 * functions save bp anywhere or not at all.
 *
 * A function that writes sp other than by a constant (Go marks it: SPWRITE) changes stacks, or rounds
 * sp down for C code. The table is right before the first such write and after the last one. Between
 * them:
 * - systemstack, mcall, morestack and the first function of a thread stand on a stack of the scheduler
 *   that begins with them. Go's own traceback ends there: these stacks are complete.
 * - asmcgocall calls C on the thread's own stack, and leaves the way back to its own there (ROW_GO_C).
 * - Others keep a frame that bp points to, which leads to their caller. So does cgocallback, by which C
 *   calls Go: bp points to its frame on the stack of C, and Go's functions preserve bp.
 * - gogo has taken the stack of another goroutine and jumps to it: it has no caller any more.
 * Go marks functions that are outermost on their stack (TOPFRAME). For Go sigtramp is one, but the
 * kernel calls it, and the interrupted function can be found.
 */

#define WORK_PER_LOOK_UP 64 /* finding a function by its address; a value counts as 1 */
#define WORK_PER_FUNCTION 32

static uint64_t row_cfa(uint32_t reg, int64_t off, uint32_t bp_rule, int32_t bp_off)
{
	return unwind_row_make(0, ROW_CFA, reg, (int32_t)(off / 8), bp_rule, bp_off / 8, 1);
}

static uint64_t row_kind(uint32_t kind)
{
	return unwind_row_make(0, kind, 0, 0, 0, 0, 0);
}

/* The caller's frame is off from reg, perhaps on another stack. */
static uint64_t row_far(uint32_t reg, int64_t off, uint32_t bp_rule, int32_t bp_off)
{
	return unwind_row_make(0, ROW_FAR, reg, (int32_t)(off % UNWIND_FAR_BYTES / 8), bp_rule,
			       bp_off / 8, (int32_t)(off / UNWIND_FAR_BYTES));
}

static uint64_t row_switched(const struct go_code *f, const struct go_region *region, uint64_t rva)
{
	int64_t off = (int64_t)f->sp_before + 8;

	if (f->switched == GO_SWITCHED_OUTERMOST)
		return row_kind(ROW_END);
	if (f->switched == GO_SWITCHED_BP)
		return row_far(UNWIND_FP, f->bp_to_cfa, BP_AT_CFA, -GO_CODE_BP_OFF);
	if (f->switched == GO_SWITCHED_C && region->c_from && rva >= region->c_from && off > 0 &&
	    off < UNWIND_FAR_BYTES)
		return unwind_row_make(0, ROW_GO_C, 0, (int32_t)(off / 8),
				       f->bp_off == -GO_CODE_BP_OFF ? BP_AT_CFA : BP_SAME,
				       region->c_slots[0] / 8, region->c_slots[1] / 8);
	return row_kind(ROW_RARE);
}

static uint64_t row_sp(int64_t off, uint32_t bp_rule, int32_t bp_off)
{
	return off < UNWIND_FAR_BYTES ? row_cfa(UNWIND_SP, off, bp_rule, bp_off)
				      : row_far(UNWIND_SP, off, bp_rule, bp_off);
}

static uint64_t row_plain(const struct go_code *f, uint64_t rva, int32_t sp)
{
	if (sp < 0 || sp & 7 || sp >= GO_CODE_MAX_FRAME - 8)
		return row_kind(ROW_RARE);
	if (f->bp_off && rva >= f->bp_from && sp >= -f->bp_off - 8)
		return row_sp(sp + 8, BP_AT_CFA, f->bp_off);
	if (f->bp_off ? rva < f->bp_from || !sp : f->bp_kept && !sp)
		return row_sp(sp + 8, BP_SAME, 0);
	return row_sp(sp + 8, BP_LOST, 0);
}

/* The receiver of rows, and the addresses that it wants. */
struct sink {
	uint64_t start, end;
	go_row_fn add;
	void *arg;
};

static void put(const struct sink *sink, uint64_t start, uint64_t end, uint64_t row)
{
	if (start < sink->start)
		start = sink->start;
	if (end > sink->end)
		end = sink->end;
	if (start < end)
		sink->add(sink->arg, start, end, row);
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The region of rva, or NULL. Lowers *to to the end of the region or to the start of the next one. */
static const struct go_region *region_find(const struct go_code *f, uint64_t rva, uint64_t *to)
{
	const struct go_region *region;
	uint64_t from;

	for (region = f->regions; region < f->regions + f->nr_regions; region++) {
		from = f->switched == GO_SWITCHED_BP ? region->start : region->from;
		if (!from)
			continue;
		if (rva < from) {
			*to = smaller(*to, from);
			return NULL;
		}
		if (rva < region->to) {
			*to = smaller(*to, region->to);
			if (rva < region->c_from)
				*to = smaller(*to, region->c_from);
			return region;
		}
	}
	return NULL;
}

/* In [start, end) the return address is at the stack pointer + sp; cuts it where other rules begin. */
static void put_plain(const struct sink *sink, const struct go_code *f, uint64_t start,
		      uint64_t end, int32_t sp)
{
	const struct go_region *region;
	uint64_t to;

	for (; start < end; start = to) {
		to = end;
		if (f->bp_off && start < f->bp_from)
			to = smaller(to, f->bp_from);
		region = region_find(f, start, &to);
		put(sink, start, to,
		    region ? row_switched(f, region, start) : row_plain(f, start, sp));
	}
}

static int put_function(const struct sink *sink, struct go_code *f)
{
	struct sink own = { .start = f->from > sink->start ? f->from : sink->start,
			    .end = smaller(f->to, sink->end),
			    .add = sink->add,
			    .arg = sink->arg };
	struct go_values v;
	int err = go_work_take(f->work_left, WORK_PER_FUNCTION);

	if (err)
		return err;
	go_code_scan(f);
	if (!*f->work_left) /* not all of its code was decoded */
		return -E2BIG;
	switch (f->kind) {
	case GO_CODE_OUTERMOST:
		put(&own, f->from, f->to, row_kind(ROW_END));
		return 0;
	case GO_CODE_SIGNAL_RETURN:
		put(&own, f->from, f->to,
		    unwind_row_make(0, ROW_SIGNAL, 0, UNWIND_SIGNAL_CONTEXT / 8, 0, 0, 0));
		return 0;
	case GO_CODE_NO_TABLE:
		return 0;
	default:
		break;
	}
	go_values_init(&v, f->tab, &f->fn, f->fn.sp_values);
	while ((err = go_work_values_next(f->work_left, &v)) > 0 && v.start < own.end)
		put_plain(&own, f, v.start == f->fn.start ? f->from : v.start, v.end, v.value);
	if (err > 0) /* the other values lie behind the end */
		return 0;
	if (err == -E2BIG)
		return err;
	if (err)
		put(&own, v.end, f->to, row_kind(ROW_RARE));
	else /* padding */
		put_plain(&own, f, v.end, f->to, v.value);
	return err;
}

int go_rows_make(const struct go_table *tab, uint64_t start, uint64_t end, int64_t *work_left,
		 go_row_fn add, void *arg)
{
	struct sink sink = { .start = start, .end = end, .add = add, .arg = arg };
	struct go_code f = { .tab = tab, .work_left = work_left };
	struct go_function fn;
	uint64_t index = 0;
	int err;

	if (start >= tab->end || end <= tab->start)
		return 0;
	err = go_work_take(work_left, WORK_PER_LOOK_UP);
	if (err)
		return err;
	err = go_table_function(tab, start < tab->start ? tab->start : start, &fn, &index);
	f.to = err ? 0 : go_table_look_up_from(tab, fn.start);
	while (!err && f.to < end) {
		f = (struct go_code){ .tab = tab, .work_left = work_left, .fn = fn, .from = f.to };
		f.to = go_table_look_up_from(tab, fn.end);
		err = put_function(&sink, &f);
		if (err && err != -EBADMSG)
			return err;
		if (++index >= tab->nr_functions)
			return 0;
		err = go_table_function_at(tab, index, &fn);
		/* Rows must ascend: Go's linker gives each function at least 16 bytes. */
		if (!err && (fn.start < f.fn.end || fn.end == fn.start))
			err = -EBADMSG;
	}
	return err;
}
