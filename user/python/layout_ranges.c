// SPDX-License-Identifier: Apache-2.0
#include "python/layout_ranges.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/sorted.h"
#include "base/vec.h"
#include "elf/image.h"
#include "elf/symbol_find.h"
#include "python/layout.h"
#include "unwind/code_look.h"
#include "unwind/eh_frame.h"

#define MAX_SYMBOL_BYTES (32U << 20) /* 12 ms; in a larger program jumps lead to the parts */
#define MAX_RANGES 2048 /* before they are joined */
#define MAX_CODE_BYTES (1U << 20) /* of the function; 80 KiB until now */
#define MAX_JUMPS 4096 /* out of the function, looked up in .eh_frame */
#define MAX_PARTS 16
#define EH_FRAME_WORK (4 << 20)
#define MIN_LOOP_BYTES 4096 /* of one that has all instructions in it; more than ten times that */
#define PADDING_BYTES 16 /* between two functions that follow one another */

struct ranges {
	struct python_range *list;
	size_t nr;
};

static bool range_has(const struct python_range *range, uint64_t rva)
{
	return rva >= range->rva && rva - range->rva < range->bytes;
}

/* Adds the part of it that is code in the file. */
static void range_add(struct ranges *ranges, const struct elf_image *img, uint64_t rva,
		      uint64_t bytes)
{
	const struct elf_segment *seg = elf_image_segment_at(img, rva, PF_X);
	uint64_t room;

	if (!seg || !bytes || ranges->nr == MAX_RANGES)
		return;
	room = seg->file_bytes - (rva - seg->va);
	ranges->list[ranges->nr++] =
		(struct python_range){ .rva = rva, .bytes = bytes < room ? bytes : room };
}

/* 1; 0 if there is no .symtab or the function is not in it; -ENOMEM. */
static int add_by_symtab(struct ranges *ranges, struct elf_image *img)
{
	static const struct symbol_pattern patterns[] = {
		{ "_PyEval_EvalFrameDefault", SYMBOL_PARTS },
		{ "_TAIL_CALL_", SYMBOL_PREFIX }, /* 3.14+ with clang: a function per instruction */
	};
	__cleanup(free_mem) struct symbol_found *found = calloc(MAX_RANGES, sizeof(*found));
	size_t nr = 0, i;

	if (!found)
		return -ENOMEM;
	if (symbol_find_all(img, SHT_SYMTAB, MAX_SYMBOL_BYTES, patterns, 2, found, MAX_RANGES, &nr))
		return 0;
	for (i = 0; i < nr; i++)
		if (found[i].type == STT_FUNC)
			range_add(ranges, img, found[i].value, found[i].bytes);
	return ranges->nr > 0;
}

struct part_search {
	struct elf_image *img;
	struct eh_frame frame;
	struct eh_pass *pass;
	struct ranges *ranges;
	uint32_t nr_jumps;
	int64_t work_left; /* of all jumps together */
};

/* A piece of code as .eh_frame describes it: how its frame is found at its start and at one place. */
struct piece {
	struct python_range range;
	struct cfi_cfa start, here;
};

static bool piece_find(struct part_search *s, uint64_t rva, struct piece *ret)
{
	struct cfi_program *prog = &s->pass->prog;
	uint64_t start, next;
	struct eh_fde fde;
	size_t i;

	eh_pass_init(s->pass, &s->frame, s->work_left);
	if (eh_frame_find(&s->frame, s->pass, rva, &i) ||
	    eh_frame_get(&s->frame, s->pass, &i, &fde, &start, &next) || rva < fde.start ||
	    rva >= fde.end)
		return false;
	ret->range = (struct python_range){ fde.start, fde.end - fde.start };
	cfi_program_init(prog, &fde.program, fde.cie, fde.start, fde.end);
	while (cfi_program_next(prog) == 1) {
		if (prog->start == fde.start)
			ret->start = prog->state.cfa;
		ret->here = prog->state.cfa;
		if (rva < prog->end)
			return true;
	}
	return false;
}

static bool piece_read(struct part_search *s, uint64_t rva, struct piece *ret)
{
	bool found = piece_find(s, rva, ret);

	s->work_left = s->pass->blocks.work_left;
	return found;
}

static bool is_same_frame(const struct cfi_cfa *a, const struct cfi_cfa *b)
{
	return a->rule.kind == RULE_REGISTER && b->rule.kind == RULE_REGISTER && a->reg == b->reg &&
	       a->rule.value == b->rule.value;
}

/* A part begins inside of a frame, and the jump there stays in it. Else it is a tail call. */
static void jump_follow(struct part_search *s, uint64_t from, uint64_t rva)
{
	struct piece function, part;
	size_t i;

	for (i = 0; i < s->ranges->nr; i++)
		if (range_has(&s->ranges->list[i], rva))
			return;
	if (s->nr_jumps >= MAX_JUMPS || s->ranges->nr > MAX_PARTS || s->work_left <= 0)
		return;
	s->nr_jumps++;
	if (piece_read(s, rva, &part) && !cfi_cfa_is_entry(&part.start) &&
	    piece_read(s, from, &function) && is_same_frame(&part.here, &function.here))
		range_add(s->ranges, s->img, part.range.rva, part.range.bytes);
}

/* Bytes that only look like a jump lead to no function, or to code with another frame. */
static void jumps_follow(struct part_search *s, const uint8_t *code, size_t len, uint64_t rva)
{
	size_t pos = 0;
	uint64_t to;

	while (!code_jump_next(code, len, rva, &pos, &to))
		jump_follow(s, rva + pos - 1, to);
}

static int add_by_jumps(struct ranges *ranges, struct elf_image *img)
{
	struct python_range function = ranges->list[0];
	__cleanup(free_mem) struct eh_pass *pass = malloc(sizeof(*pass));
	size_t len = function.bytes < MAX_CODE_BYTES ? function.bytes : MAX_CODE_BYTES;
	__cleanup(free_mem) uint8_t *code = malloc(len);
	struct part_search s = {
		.img = img, .pass = pass, .ranges = ranges, .work_left = EH_FRAME_WORK
	};

	if (!pass || !code)
		return -ENOMEM;
	if (!elf_image_is_native(img) || elf_image_read_rva(img, function.rva, code, len) ||
	    eh_frame_init(&s.frame, img))
		return 0;
	if (!eh_frame_prepare(&s.frame))
		jumps_follow(&s, code, len, function.rva);
	eh_frame_fini(&s.frame);
	return 0;
}

static int range_compare(const void *a, const void *b)
{
	const struct python_range *x = a, *y = b;

	return sorted_order(x->rva, y->rva);
}

/* Sorts the ranges and joins those that follow one another, as tail-call handlers do. */
static size_t ranges_join(struct python_range *list, size_t nr)
{
	struct python_range *last;
	size_t i, out = 0;
	uint64_t end;

	qsort(list, nr, sizeof(*list), range_compare);
	for (i = 0; i < nr; i++) {
		last = out ? &list[out - 1] : NULL;
		if (!last || list[i].rva - last->rva >= last->bytes + PADDING_BYTES) {
			list[out++] = list[i];
			continue;
		}
		end = list[i].rva + list[i].bytes;
		if (end - last->rva > last->bytes)
			last->bytes = end - last->rva;
	}
	return out < PYTHON_MAX_EVAL_RANGES ? out : PYTHON_MAX_EVAL_RANGES;
}

/* The function only calls a first handler, and there are no symbols: any function may be one. */
static void add_handlers(struct ranges *ranges, const struct elf_image *img)
{
	const struct elf_segment *seg;
	uint64_t bytes = 0;
	size_t nr, i;

	for (i = 0; i < ranges->nr; i++)
		bytes += ranges->list[i].bytes;
	if (!bytes || bytes >= MIN_LOOP_BYTES)
		return;
	seg = elf_image_segments(img, &nr);
	for (i = 0; i < nr; i++)
		if (seg[i].type == PT_LOAD && seg[i].flags & PF_X)
			range_add(ranges, img, seg[i].va, seg[i].file_bytes);
}

int python_ranges_read(struct elf_image *img, const struct symbol_found *eval, bool tail_calls,
		       struct python_range **ret, size_t *ret_nr)
{
	struct ranges ranges = { .list = calloc(MAX_RANGES, sizeof(*ranges.list)) };
	int err;

	if (!ranges.list)
		return -ENOMEM;
	err = add_by_symtab(&ranges, img);
	if (!err && eval->type == STT_FUNC) {
		range_add(&ranges, img, eval->value, eval->bytes);
		if (ranges.nr)
			err = add_by_jumps(&ranges, img);
		if (!err && tail_calls)
			add_handlers(&ranges, img);
	}
	if (err < 0) {
		free(ranges.list);
		return err;
	}
	*ret_nr = ranges_join(ranges.list, ranges.nr);
	(void)vec_fit(ranges.list, *ret_nr);
	*ret = ranges.list;
	return 0;
}
