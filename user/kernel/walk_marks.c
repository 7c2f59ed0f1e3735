// SPDX-License-Identifier: Apache-2.0
#include "kernel/walk_marks.h"

#include <stdbool.h>
#include <string.h>

#include "bpfprof.h"
#include "kernel/walk.h"
#include "proc/images.h"
#include "python/layout.h"
#include "python/pythons.h"
#include "unwind/reader.h"
#include "unwind_native.h"

/* Words of the C frame of a call of the eval loop; without optimization it has 200. */
#define HELD_WORDS 512
#define HELD_AHEAD 256 /* Python frames between two calls that no call runs */

/*
 * Does the image switch between C stacks? That is greenlet's module, under the names of all its
 * versions.
 */
static bool is_switching(struct walker *walker, uint32_t id)
{
	const struct image *image = images_get(walker->images, id);
	const char *name = image && image->path ? strrchr(image->path, '/') : NULL;

	if (!name)
		return false;
	name += name[1] == '_' ? 2 : 1;
	return !strncmp(name, "greenlet.", 9);
}

enum python_native walker_frame_kind(void *arg, uint64_t frame)
{
	struct walker *walker = arg;
	uint32_t image = (uint32_t)((frame & BPFPROF_FRAME_MASK) >> BPFPROF_OFF_BITS);
	uint64_t off = frame & BPFPROF_OFF_MASK;

	if (frame >> BPFPROF_FRAME_SHIFT != BPFPROF_FRAME_NATIVE)
		return PYTHON_NATIVE_OTHER;
	if (!pythons_is_eval(walker->pythons, image, off))
		return is_switching(walker, image) ? PYTHON_NATIVE_SWITCH : PYTHON_NATIVE_OTHER;
	return pythons_is_surely_eval(walker->pythons, image, off) ? PYTHON_NATIVE_EVAL
								   : PYTHON_NATIVE_PERHAPS;
}

static uint64_t mark_make(const struct marking *m, uint32_t entry)
{
	const struct bpfprof_python_entry *entries = m->stack->entries;
	uint32_t before = m->next ? entries[m->next - 1].nr : 0;

	return (uint64_t)BPFPROF_FRAME_EVAL << BPFPROF_FRAME_SHIFT |
	       ((entries[entry].nr - before) & 0xffff);
}

/* Values that a call holds in callee-saved registers and in the words of its C frame. */
struct held {
	__u64 words[HELD_WORDS];
	size_t nr;
};

static void held_read(const struct marking *m, uint64_t cfa, struct held *held)
{
	static const uint32_t saved[] = UNWIND_PRESERVED;
	uint64_t sp = m->before.regs[UNWIND_SP], at;
	size_t i;

	held->nr = 0;
	for (i = 0; i < UNWIND_NR_PRESERVED; i++)
		held->words[held->nr++] =
			m->before.valid >> saved[i] & 1 ? m->before.regs[saved[i]] : 0;
	for (at = cfa - 16; held->nr < HELD_WORDS && at >= sp && at < cfa; at -= 8)
		if (unwind_read_u64(m->stack->reader, at, &held->words[held->nr++]))
			held->words[held->nr - 1] = 0;
}

/*
 * Index + 1 of va in held; 0: not there. All calls of a build hold their frames in the same place:
 * other words of a C frame may hold old values, even other frames of the chain.
 */
static size_t held_find(const struct held *held, size_t place, uint64_t va)
{
	size_t i, nr = place && held->nr > UNWIND_NR_PRESERVED ? UNWIND_NR_PRESERVED : held->nr;

	if (place && place <= held->nr && held->words[place - 1] == va)
		return place;
	for (i = 0; i < nr; i++) /* registers hold no old values */
		if (held->words[i] == va)
			return i + 1;
	return 0;
}

/* The place for the image of a call that holds its frame; NULL: the call holds none. */
static struct python_place *holding_place(const struct marking *m, uint64_t frame)
{
	uint32_t image = (uint32_t)((frame & BPFPROF_FRAME_MASK) >> BPFPROF_OFF_BITS);
	const struct python_range *ranges;

	return frame >> BPFPROF_FRAME_SHIFT == BPFPROF_FRAME_NATIVE &&
			       pythons_holding_ranges(m->walker->pythons, image, &ranges) &&
			       pythons_is_eval(m->walker->pythons, image, frame & BPFPROF_OFF_MASK)
		       ? pythons_place(m->walker->pythons, image)
		       : NULL;
}

/* Marks a call of an eval loop up to 3.10. */
static uint64_t holding_mark(struct marking *m, uint64_t cfa, uint64_t frame, uint64_t *frames,
			     uint32_t at, struct python_place *place)
{
	const struct bpfprof_python_entry *entries = m->stack->entries;
	uint32_t entry = m->next, ahead = m->in_vain < PYTHON_PLACE_TRIES ? HELD_AHEAD : 1,
		 last = m->nr - m->next > ahead ? m->next + ahead : m->nr;
	size_t known = place->score ? place->place : 0, found = 0;
	struct held held;
	uint64_t mark;
	bool second = m->inner_last;

	held_read(m, cfa, &held);
	m->inner_last = false;
	if (second && !(known && held_find(&held, known, entries[entry].va) == known) &&
	    held_find(&held, 0, entries[entry - 1].va)) {
		mark = frames[m->inner_at];
		frames[m->inner_at] = m->inner_frame;
		return mark;
	}
	while (entry < last && !(found = held_find(&held, known, entries[entry].va)))
		entry++;
	if (entry == last) {
		m->in_vain++;
		place->score -= known && m->next;
		return frame;
	}
	if (m->next && entry == m->next)
		python_place_vote(place, (uint32_t)found);
	m->inner_last = !m->next;
	m->inner_at = at;
	m->inner_frame = frame;
	frame = mark_make(m, entry);
	m->next = entry + 1;
	return frame;
}

uint64_t eval_mark(struct marking *m, uint64_t cfa, uint64_t frame, uint64_t *frames, uint32_t at)
{
	uint64_t sp = m->before.regs[UNWIND_SP];
	struct python_place *place;

	if (m->next >= m->nr)
		return frame;
	place = holding_place(m, frame);
	if (place)
		return holding_mark(m, cfa, frame, frames, at, place);
	if (cfa < sp || m->stack->entries[m->next].va - sp >= cfa - sp)
		return frame;
	frame = mark_make(m, m->next);
	m->next++;
	return frame;
}
