// SPDX-License-Identifier: Apache-2.0
/* python_step() over memory with false content, for each kind of chain. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

#include "python/layout.h"
#include "python_chain.h"

#define BASE 0x7f1200000000ULL /* memory lies here, and nothing around it */
#define NR_WORDS 4096
#define END (BASE + NR_WORDS * 8ULL)
#define FRAME(i) (BASE + (uint64_t)(i)*256)
#define CODE(i) (BASE + 16384 + (uint64_t)(i)*512)
#define CFRAME(i) (BASE + 24576 + (uint64_t)(i)*64)
#define STRING (BASE + 28672)
#define MAX_STEPS (PYTHON_CHAIN_MAX_FRAMES + PYTHON_CHAIN_MAX_ENTRIES)

struct made_memory {
	struct unwind_reader reader; /* first member */
	const struct bpfprof_python_layout *layout;
	uint64_t words[NR_WORDS];
	struct python_chain chain; /* of the last walk */
};

static struct made_memory memory;

static int made_read(struct unwind_reader *reader, __u64 va, void *dst, __u32 len)
{
	struct made_memory *m = (struct made_memory *)reader;
	uint64_t off = va - BASE;

	if (off >= sizeof(m->words) || len > sizeof(m->words) - off)
		return -1;
	memcpy(dst, (char *)m->words + off, len);
	return 0;
}

static void put(uint64_t va, const void *src, size_t len)
{
	cr_assert(va >= BASE && va + len <= END);
	memcpy((char *)memory.words + (va - BASE), src, len);
}

static void put_u64(uint64_t va, uint64_t value)
{
	put(va, &value, sizeof(value));
}

static void put_u32(uint64_t va, uint32_t value)
{
	put(va, &value, sizeof(value));
}

/* Some code objects, cframes, and nothing else. */
static void memory_make(uint32_t chain)
{
	const struct bpfprof_python_layout *l = python_layout_made(chain);

	memset(&memory, 0, sizeof(memory));
	memory.reader.read = made_read;
	memory.layout = l;
	cr_assert_eq(l->chain, chain);
	cr_assert_eq(python_layout_check(l), 0);
	for (int i = 0; i < 16; i++) {
		for (int word = 0; word < 64; word++)
			put_u64(CODE(i) + 8ULL * word,
				0x0101010101010101ULL * (uint64_t)(word + 1));
		put_u64(CODE(i) + l->code_name, STRING);
		put_u64(CODE(i) + l->code_filename, STRING + 64);
		put_u32(CODE(i) + l->code_firstlineno, 1);
	}
}

/* lasti in instructions. */
static void frame_put(uint64_t va, uint64_t code, uint64_t previous, uint32_t lasti, uint8_t owner)
{
	const struct bpfprof_python_layout *l = memory.layout;

	put_u64(va + l->frame_code, code);
	put_u64(va + l->frame_previous, previous);
	if (l->chain == PYTHON_CHAIN_OBJECTS) {
		put_u32(va + l->frame_lasti, lasti * 2);
		return;
	}
	put_u64(va + l->frame_lasti, (code & ~7ULL) + l->code_adaptive + 2ULL * lasti);
	put(va + l->frame_owner, &owner, 1);
}

static bool has_cframes(void)
{
	return memory.layout->chain == PYTHON_CHAIN_ENTRY_FLAG ||
	       memory.layout->chain == PYTHON_CHAIN_CFRAME;
}

static void cframe_put(int i, uint64_t frame, uint64_t previous)
{
	put_u64(CFRAME(i) + memory.layout->cframe_frame, frame);
	put_u64(CFRAME(i) + memory.layout->cframe_previous, previous);
}

/* Conditions that hold after every walk. */
static void chain_check(const char *what)
{
	const struct python_chain *c = &memory.chain;
	uint32_t i;

	cr_assert(c->stop >= PYTHON_STOP_NONE && c->stop < PYTHON_NR_STOPS, "%s: %d", what,
		  c->stop);
	cr_assert(c->nr_steps <= MAX_STEPS, "%s", what);
	cr_assert(c->stop || !c->nr_steps, "%s", what);
	for (i = 0; i < c->nr_frames; i++) {
		cr_assert(c->frames[i].code >= 4096 && c->frames[i].code < 1ULL << 56, "%s", what);
		cr_assert_leq(c->frames[i].lasti, BPFPROF_LASTI_NONE, "%s", what);
	}
	for (i = 0; i < c->nr_entries; i++) {
		cr_assert(c->entries[i].nr && c->entries[i].nr <= c->nr_frames, "%s", what);
		cr_assert(!i || c->entries[i].nr > c->entries[i - 1].nr, "%s", what);
	}
}

static int walk_from(uint64_t start, const char *what)
{
	python_chain_walk(&memory.chain, memory.layout, &memory.reader, start);
	chain_check(what);
	return memory.chain.stop;
}

/* From the frame at va, by way of a cframe where there are any. */
static int walk(uint64_t va, const char *what)
{
	if (!has_cframes())
		return walk_from(va, what);
	cframe_put(0, va, CFRAME(1));
	return walk_from(CFRAME(0), what);
}

#define FOR_EACH_CHAIN(chain)                                                                      \
	for (uint32_t chain = PYTHON_CHAIN_OBJECTS; chain <= PYTHON_CHAIN_FRAMES; chain++)

TestSuite(python_hostile, .timeout = 60);

/* First a right chain: three C calls of the eval loop, with 1, 3 and 4 frames. */
Test(python_hostile, right)
{
	static const uint8_t ends[] = { 1, 0, 0, 1, 0, 0, 0, 1 };
	const uint32_t nr[] = { 0, 1, 4, 8 };
	uint64_t at, next;

	FOR_EACH_CHAIN(chain)
	{
		bool shims = chain >= PYTHON_CHAIN_CFRAME;
		int i, frame = 0;

		memory_make(chain);
		for (i = 0; i < 8; i++) {
			at = FRAME(frame++);
			if (shims && ends[i])
				frame_put(FRAME(frame), 0, FRAME(frame + 1), 0,
					  memory.layout->shim_owner),
					frame++;
			next = i < 7 ? FRAME(frame) : 0;
			if (shims && i == 7)
				put_u64(FRAME(frame - 1) + memory.layout->frame_previous, 0);
			frame_put(at, CODE(i), shims && ends[i] ? at + 256 : next, 10 + i,
				  !shims && ends[i]);
		}
		for (i = 1; i < 4 && has_cframes(); i++)
			cframe_put(i, i < 3 ? FRAME(nr[i]) : 0, i < 3 ? CFRAME(i + 1) : 0);
		cr_assert_eq(walk(FRAME(0), "right"), PYTHON_STOP_COMPLETE, "chain %u", chain);
		cr_assert_eq(memory.chain.nr_frames, 8);
		for (i = 0; i < 8; i++) {
			cr_assert_eq(memory.chain.frames[i].code, CODE(i));
			cr_assert_eq(memory.chain.frames[i].lasti, 10U + (uint32_t)i);
		}
		/* Up to 3.10 each frame has a call of its own. */
		cr_assert_eq(memory.chain.nr_entries, chain == PYTHON_CHAIN_OBJECTS ? 8 : 3);
		for (i = 0; i < 8 && chain == PYTHON_CHAIN_OBJECTS; i++) {
			cr_assert_eq(memory.chain.entries[i].nr, (uint32_t)i + 1);
			cr_assert_eq(memory.chain.entries[i].va, FRAME(i));
		}
		for (i = 0; i < 3 && chain != PYTHON_CHAIN_OBJECTS; i++) {
			cr_assert_eq(memory.chain.entries[i].nr, nr[i + 1]);
			cr_assert_eq(memory.chain.entries[i].va,
				     shims ? FRAME(nr[i + 1] + (uint32_t)i) : CFRAME(i));
		}
	}
}

/*
 * 3.11: the C calls of the eval loop are separated by the frame that was current when the next call
 * began, not by the flags of frames: waiting coroutines also have these flags, and a frame that is
 * just beginning may lack them.
 */
Test(python_hostile, boundaries)
{
	static const struct {
		const char *name;
		uint8_t flags[4];
		int current[3]; /* frame that each cframe says is its current one, -1 = none */
		uint32_t nr_entries, nr[2];
		int first; /* cframe of the first entry */
	} cases[] = {
		{ "two calls", { 1, 0, 0, 1 }, { 0, 1, -1 }, 2, { 1, 4 }, 0 },
		{ "no flag yet", { 0, 0, 0, 1 }, { 0, 1, -1 }, 2, { 1, 4 }, 0 },
		{ "thrown through two that wait", { 1, 1, 1, 1 }, { 0, 1, -1 }, 2, { 1, 4 }, 0 },
		{ "ending", { 1, 1, 0, 1 }, { 1, 1, -1 }, 1, { 3 }, 1 },
		{ "the first of its thread", { 0, 0, 0, 0 }, { 0, -1, -1 }, 1, { 4 }, 0 },
		{ "no call at all", { 1, 1, 1, 1 }, { 0, 3, 2 }, 1, { 3 }, 0 },
	};
	size_t i;
	int k;

	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		memory_make(PYTHON_CHAIN_ENTRY_FLAG);
		for (k = 0; k < 4; k++)
			frame_put(FRAME(k), CODE(k), k < 3 ? FRAME(k + 1) : 0, 1,
				  cases[i].flags[k]);
		for (k = 0; k < 3; k++)
			cframe_put(k, cases[i].current[k] < 0 ? 0 : FRAME(cases[i].current[k]),
				   k < 2 ? CFRAME(k + 1) : 0);
		cr_assert_eq(walk_from(CFRAME(0), cases[i].name), PYTHON_STOP_COMPLETE);
		cr_assert_eq(memory.chain.nr_entries, cases[i].nr_entries, "%s: %u", cases[i].name,
			     memory.chain.nr_entries);
		for (k = 0; k < (int)cases[i].nr_entries; k++) {
			cr_assert_eq(memory.chain.entries[k].va, CFRAME(cases[i].first + k), "%s",
				     cases[i].name);
			cr_assert_eq(memory.chain.entries[k].nr, cases[i].nr[k], "%s",
				     cases[i].name);
		}
	}
}

Test(python_hostile, cycles)
{
	FOR_EACH_CHAIN(chain)
	{
		memory_make(chain);
		frame_put(FRAME(0), CODE(0), FRAME(0), 1, 0);
		cr_assert_eq(walk(FRAME(0), "itself"), PYTHON_STOP_DEPTH);
		cr_assert_eq(memory.chain.nr_frames, PYTHON_CHAIN_MAX_FRAMES);
		for (int i = 0; i < 3; i++)
			frame_put(FRAME(i), CODE(i), FRAME((i + 1) % 3), 1, 0);
		cr_assert_eq(walk(FRAME(2), "three"), PYTHON_STOP_DEPTH);
		cr_assert_eq(memory.chain.nr_frames, PYTHON_CHAIN_MAX_FRAMES);
		cr_assert_eq(memory.chain.frames[PYTHON_CHAIN_MAX_FRAMES - 1].code,
			     CODE((2 + PYTHON_CHAIN_MAX_FRAMES - 1) % 3));
		if (chain < PYTHON_CHAIN_CFRAME)
			continue;
		/* Nothing but shims: no frame, no entry, and still an end. */
		frame_put(FRAME(0), 0, FRAME(1), 0, 3);
		frame_put(FRAME(1), 0, FRAME(0), 0, 3);
		cr_assert_eq(walk(FRAME(0), "shims"), PYTHON_STOP_DEPTH);
		cr_assert_eq(memory.chain.nr_steps, MAX_STEPS);
		cr_assert_eq(memory.chain.nr_frames, 0);
		cr_assert_eq(memory.chain.nr_entries, 0);
		/* A shim after each frame. */
		frame_put(FRAME(0), CODE(0), FRAME(1), 0, 0);
		cr_assert_eq(walk(FRAME(0), "entries"), PYTHON_STOP_DEPTH);
		cr_assert_eq(memory.chain.nr_entries, PYTHON_CHAIN_MAX_ENTRIES);
		/* Hidden frames are not counted, and do not continue the walk for ever. */
		put_u64(CODE(0) + memory.layout->code_filename, STRING);
		put_u32(CODE(0) + memory.layout->code_firstlineno, 0);
		frame_put(FRAME(0), CODE(0), FRAME(0), 0, 0);
		cr_assert_eq(walk(FRAME(0), "hidden"), PYTHON_STOP_DEPTH);
		cr_assert_eq(memory.chain.nr_steps, chain == PYTHON_CHAIN_FRAMES
							    ? MAX_STEPS
							    : PYTHON_CHAIN_MAX_FRAMES + 1);
		cr_assert_eq(memory.chain.nr_frames,
			     chain == PYTHON_CHAIN_FRAMES ? 0 : PYTHON_CHAIN_MAX_FRAMES);
	}
}

Test(python_hostile, cframe_cycles)
{
	memory_make(PYTHON_CHAIN_ENTRY_FLAG);
	for (int i = 0; i < 3; i++)
		cframe_put(i, FRAME(0), CFRAME((i + 1) % 3));
	frame_put(FRAME(0), CODE(0), FRAME(0), 1, 1);
	cr_assert_eq(walk_from(CFRAME(0), "cycle"), PYTHON_STOP_DEPTH);
	cr_assert_eq(memory.chain.nr_entries, PYTHON_CHAIN_MAX_ENTRIES);
	cr_assert_eq(memory.chain.entries[4].va, CFRAME(2));
	/* One that leads nowhere: the frame before that needs it is the last. */
	cframe_put(0, FRAME(1), CFRAME(1));
	cframe_put(2, FRAME(0), 8);
	frame_put(FRAME(1), CODE(1), FRAME(2), 1, 0);
	frame_put(FRAME(2), CODE(2), FRAME(0), 1, 0);
	cr_assert_eq(walk_from(CFRAME(0), "wild"), PYTHON_STOP_READ_FAULT);
	cr_assert_eq(memory.chain.nr_frames, 2);
	cframe_put(2, FRAME(0), ~7ULL);
	cr_assert_eq(walk_from(CFRAME(0), "wraps"), PYTHON_STOP_READ_FAULT);
}

struct pointer_case {
	uint64_t va;
	int stop;
};

static const struct pointer_case frame_pointers[] = {
	{ 0, PYTHON_STOP_COMPLETE },
	{ 8, PYTHON_STOP_BAD },
	{ 4088, PYTHON_STOP_BAD },
	{ 4096, PYTHON_STOP_READ_FAULT },
	{ FRAME(1) + 1, PYTHON_STOP_BAD },
	{ FRAME(1) + 2, PYTHON_STOP_BAD },
	{ FRAME(1) + 3, PYTHON_STOP_BAD },
	{ FRAME(1) + 4, PYTHON_STOP_BAD },
	{ FRAME(1) + 7, PYTHON_STOP_BAD },
	{ BASE - 8, PYTHON_STOP_READ_FAULT },
	{ END - 8, PYTHON_STOP_READ_FAULT },
	{ END, PYTHON_STOP_READ_FAULT },
	{ (1ULL << 47) - 8, PYTHON_STOP_READ_FAULT },
	{ (1ULL << 56) - 8, PYTHON_STOP_READ_FAULT },
	{ 1ULL << 56, PYTHON_STOP_BAD },
	{ 0xffff888000000000ULL, PYTHON_STOP_BAD }, /* the kernel's */
	{ 1ULL << 63, PYTHON_STOP_BAD },
	{ ~7ULL, PYTHON_STOP_BAD },
	{ ~0ULL, PYTHON_STOP_BAD },
};

Test(python_hostile, frame_pointers)
{
	FOR_EACH_CHAIN(chain)
	{
		for (size_t i = 0; i < sizeof(frame_pointers) / sizeof(*frame_pointers); i++) {
			const struct pointer_case *c = &frame_pointers[i];

			memory_make(chain);
			if (c->va > FRAME(1) && c->va < FRAME(2)) /* it could be read */
				frame_put(c->va, CODE(1), 0, 1, 0);
			frame_put(FRAME(0), CODE(0), c->va, 1, 0);
			cr_assert_eq(walk(FRAME(0), "second"), c->stop, "chain %u, %lx: %d", chain,
				     c->va, memory.chain.stop);
			cr_assert_eq(memory.chain.nr_frames, 1);
			cr_assert_eq(walk(c->va, "first"), c->stop, "chain %u, %lx", chain, c->va);
			cr_assert_eq(memory.chain.nr_frames, 0);
		}
	}
}

/* And where the thread state itself points. */
Test(python_hostile, starts)
{
	FOR_EACH_CHAIN(chain)
	{
		memory_make(chain);
		cr_assert_eq(walk_from(0, "none"),
			     has_cframes() ? PYTHON_STOP_NONE : PYTHON_STOP_COMPLETE);
		cr_assert_eq(memory.chain.nr_frames, 0);
		cr_assert_eq(walk_from(~0ULL, "end"),
			     has_cframes() ? PYTHON_STOP_READ_FAULT : PYTHON_STOP_BAD);
		cr_assert_eq(walk_from(END - memory.layout->cframe_frame, "above"),
			     PYTHON_STOP_READ_FAULT);
		cr_assert_eq(walk_from(BASE - 4096, "below"), PYTHON_STOP_READ_FAULT);
	}
}

Test(python_hostile, page_ends)
{
	FOR_EACH_CHAIN(chain)
	{
		uint64_t last = END - python_layout_made(chain)->frame_bytes;

		memory_make(chain);
		for (uint64_t va = last - 128; va <= last; va += 8) {
			frame_put(va, CODE(1), 0, 7, 0);
			cr_assert_eq(walk(va, "end"), PYTHON_STOP_COMPLETE, "chain %u", chain);
			cr_assert_eq(memory.chain.nr_frames, 1);
			cr_assert_eq(memory.chain.frames[0].lasti, 7);
			memset((char *)memory.words + (va - BASE), 0, END - va);
		}
		frame_put(FRAME(0), CODE(1), last + 8, 7, 0);
		cr_assert_eq(walk(FRAME(0), "beyond"), PYTHON_STOP_READ_FAULT);
		cr_assert_eq(memory.chain.nr_frames, 1);
		/* A code object that is cut off. */
		frame_put(FRAME(0), END - memory.layout->code_bytes, 0, 7, 0);
		cr_assert_eq(walk(FRAME(0), "code"), PYTHON_STOP_COMPLETE);
		frame_put(FRAME(0), END - memory.layout->code_bytes + 8, 0, 7, 0);
		cr_assert_eq(walk(FRAME(0), "cut"), PYTHON_STOP_READ_FAULT);
	}
}

Test(python_hostile, owners)
{
	FOR_EACH_CHAIN(chain)
	{
		for (int owner = 0; owner < 256; owner++) {
			bool shim = chain >= PYTHON_CHAIN_CFRAME && owner >= 3;
			uint32_t nr = chain == PYTHON_CHAIN_OBJECTS ? 2 : 1;

			if (chain >= PYTHON_CHAIN_CFRAME)
				nr = shim;
			memory_make(chain);
			frame_put(FRAME(0), CODE(0), FRAME(1), 1, 0);
			frame_put(FRAME(1), CODE(1), 0, 2, (uint8_t)owner);
			cr_assert_eq(walk(FRAME(0), "owner"), PYTHON_STOP_COMPLETE);
			cr_assert_eq(memory.chain.nr_frames, shim ? 1 : 2, "chain %u, %d", chain,
				     owner);
			cr_assert_eq(memory.chain.nr_entries, nr, "chain %u, %d", chain, owner);
			if (shim)
				cr_assert_eq(memory.chain.entries[0].va, FRAME(1));
			if (chain == PYTHON_CHAIN_ENTRY_FLAG) /* whatever its flags say */
				cr_assert_eq(memory.chain.entries[0].va, CFRAME(0));
		}
	}
}

/* References carry tags in their low bits; what is no tag in this version stays. */
Test(python_hostile, tags)
{
	struct bpfprof_python_layout layout;

	FOR_EACH_CHAIN(chain)
	{
		for (uint64_t i = 0; i < 64; i++) {
			uint64_t tag = i & 7, mask = i >> 3;

			memory_make(chain);
			layout = *memory.layout;
			layout.code_mask = (uint16_t)mask;
			memory.layout = &layout;
			frame_put(FRAME(0), CODE(0) | tag, 0, 9, 0);
			cr_assert_eq(walk(FRAME(0), "tag"), PYTHON_STOP_COMPLETE);
			cr_assert_eq(memory.chain.nr_frames, 1);
			cr_assert_eq(memory.chain.frames[0].code, (CODE(0) | tag) & ~mask);
			if (chain == PYTHON_CHAIN_OBJECTS || !(tag & ~mask))
				cr_assert_eq(memory.chain.frames[0].lasti, 9);
		}
	}
}

static const struct pointer_case code_pointers[] = {
	{ 0, PYTHON_STOP_BAD },
	{ 1, PYTHON_STOP_BAD },
	{ 4092, PYTHON_STOP_BAD },
	{ 4096, PYTHON_STOP_READ_FAULT },
	{ BASE - 8, PYTHON_STOP_READ_FAULT },
	{ END - 8, PYTHON_STOP_READ_FAULT },
	{ END, PYTHON_STOP_READ_FAULT },
	{ (1ULL << 56) - 8, PYTHON_STOP_READ_FAULT },
	{ 1ULL << 56, PYTHON_STOP_BAD },
	{ ~0ULL, PYTHON_STOP_BAD },
	{ 0xffff888000000000ULL, PYTHON_STOP_BAD },
};

Test(python_hostile, code_pointers)
{
	FOR_EACH_CHAIN(chain)
	{
		for (size_t i = 0; i < sizeof(code_pointers) / sizeof(*code_pointers); i++) {
			memory_make(chain);
			frame_put(FRAME(0), CODE(0), FRAME(1), 1, 0);
			frame_put(FRAME(1), code_pointers[i].va, FRAME(0), 1, 0);
			cr_assert_eq(walk(FRAME(0), "code"), code_pointers[i].stop,
				     "chain %u, %lx: %d", chain, code_pointers[i].va,
				     memory.chain.stop);
			cr_assert_eq(memory.chain.nr_frames, 1);
		}
	}
}

Test(python_hostile, instruction_pointers)
{
	static const struct {
		int64_t off; /* from the first instruction */
		uint32_t lasti;
	} cases[] = { { 0, 0 },
		      { 1, 0 },
		      { 2, 1 },
		      { 2 * (BPFPROF_LASTI_NONE - 1), BPFPROF_LASTI_NONE - 1 },
		      { 2 * BPFPROF_LASTI_NONE, BPFPROF_LASTI_NONE },
		      { 2 * (BPFPROF_LASTI_NONE + 1), BPFPROF_LASTI_NONE },
		      { -1, BPFPROF_LASTI_NONE },
		      { -2, BPFPROF_LASTI_NONE },
		      { INT64_MAX, BPFPROF_LASTI_NONE },
		      { INT64_MIN, BPFPROF_LASTI_NONE } };

	for (uint32_t chain = PYTHON_CHAIN_ENTRY_FLAG; chain <= PYTHON_CHAIN_FRAMES; chain++) {
		for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
			memory_make(chain);
			frame_put(FRAME(0), CODE(0), 0, 0, 0);
			put_u64(FRAME(0) + memory.layout->frame_lasti,
				CODE(0) + memory.layout->code_adaptive + (uint64_t)cases[i].off);
			cr_assert_eq(walk(FRAME(0), "lasti"), PYTHON_STOP_COMPLETE);
			cr_assert_eq(memory.chain.frames[0].lasti, cases[i].lasti, "%ld",
				     (long)cases[i].off);
		}
	}
}

Test(python_hostile, instruction_numbers)
{
	static const struct {
		int32_t value;
		uint32_t lasti[2]; /* counted in bytes; in instructions (3.10) */
	} cases[] = { { 0, { 0, 0 } },
		      { 3, { 1, 3 } },
		      { 6, { 3, 6 } },
		      { -1, { BPFPROF_LASTI_NONE, BPFPROF_LASTI_NONE } },
		      { BPFPROF_LASTI_NONE - 1,
			{ (BPFPROF_LASTI_NONE - 1) / 2, BPFPROF_LASTI_NONE - 1 } },
		      { BPFPROF_LASTI_NONE, { BPFPROF_LASTI_NONE / 2, BPFPROF_LASTI_NONE } },
		      { INT32_MAX, { BPFPROF_LASTI_NONE, BPFPROF_LASTI_NONE } },
		      { INT32_MIN, { BPFPROF_LASTI_NONE, BPFPROF_LASTI_NONE } } };
	struct bpfprof_python_layout layout;

	for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(*cases); i++) {
		memory_make(PYTHON_CHAIN_OBJECTS);
		layout = *memory.layout;
		layout.lasti_unit = (uint16_t)(1 + i % 2);
		memory.layout = &layout;
		frame_put(FRAME(0), CODE(0), 0, 0, 0);
		put_u32(FRAME(0) + layout.frame_lasti, (uint32_t)cases[i / 2].value);
		cr_assert_eq(walk(FRAME(0), "lasti"), PYTHON_STOP_COMPLETE);
		cr_assert_eq(memory.chain.frames[0].lasti, cases[i / 2].lasti[i % 2], "%d: %u",
			     cases[i / 2].value, memory.chain.frames[0].lasti);
	}
}

static const char *string_at(uint64_t va, uint64_t length, uint32_t kind, uint32_t flags)
{
	static char text[BPFPROF_PYTHON_PIECE_BYTES + 8];

	if (va < END - 64) {
		put_u64(va + memory.layout->unicode_length, length);
		put_u32(va + memory.layout->unicode_state,
			(kind | flags << 3) << memory.layout->unicode_kind_shift);
	}
	memset(text, 'x', sizeof(text) - 1);
	cr_assert_eq(python_chain_string(&memory.reader, memory.layout, va, text, sizeof(text)),
		     strlen(text));
	return text;
}

#define COMPACT 1U
#define ASCII 2U

Test(python_hostile, strings)
{
	static const uint64_t absurd[] = { 1ULL << 28, 1ULL << 60, (1ULL << 62) + 1, 1ULL << 63,
					   ~0ULL };

	memory_make(PYTHON_CHAIN_FRAMES);
	put(STRING + memory.layout->ascii_data, "abcdefghijklmnopqrstuvwxyz", 26);
	cr_assert_str_eq(string_at(STRING, 3, 1, COMPACT | ASCII), "abc");
	cr_assert_str_eq(string_at(STRING, 3, 1, COMPACT), "qrs"); /* what lies there */
	cr_assert_str_eq(string_at(STRING, 0, 1, COMPACT | ASCII), "");
	for (uint32_t kind = 0; kind < 8; kind++) {
		for (size_t i = 0; i < sizeof(absurd) / sizeof(*absurd); i++)
			cr_assert_str_eq(string_at(STRING, absurd[i], kind, COMPACT | ASCII), "");
		cr_assert_str_eq(string_at(STRING, 3, kind, ASCII), "", "not compact");
		if (kind != 1 && kind != 2 && kind != 4)
			cr_assert_str_eq(string_at(STRING, 3, kind, COMPACT | ASCII), "");
		/* Longer than what is there to read. */
		cr_assert_str_eq(string_at(STRING, (1ULL << 28) - 1, kind, COMPACT | ASCII), "");
		cr_assert_str_eq(string_at(STRING, (END - STRING - 40) + 1, kind, COMPACT | ASCII),
				 "");
	}
	/* Longer than what is taken: cut where one can see it. */
	memset((char *)memory.words + (FRAME(0) + 40 - BASE), 'a', 20000);
	cr_assert_eq(strlen(string_at(FRAME(0), 20000, 1, COMPACT | ASCII)),
		     BPFPROF_PYTHON_PIECE_BYTES + 3);
	cr_assert_str_eq(string_at(END - 8, 0, 0, 0), "");
	cr_assert_str_eq(string_at(~0ULL, 0, 0, 0), "");
}

static uint64_t random_u64(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Mostly pointers that lead to something, else it would end too soon. */
static uint64_t random_word(uint64_t *state)
{
	uint64_t r = random_u64(state), i = r >> 8;

	switch (r % 16) {
	case 0:
		return 0;
	case 1:
		return i;
	case 2:
		return FRAME(i % 48) + (r >> 4) % 16;
	case 3:
	case 4:
	case 5:
		return CODE(i % 16) + 200 + (i >> 8) % 4096;
	case 6:
	case 7:
	case 8:
		return CODE(i % 16) | (i >> 8) % 4;
	case 9:
		return CFRAME(i % 32);
	default:
		return FRAME(i % 48);
	}
}

Test(python_hostile, random)
{
	uint32_t nr_stops[PYTHON_NR_STOPS] = { 0 };
	uint64_t state = 0x9e3779b97f4a7c15ULL;

	for (int round = 0; round < 8000; round++) {
		memory_make(PYTHON_CHAIN_OBJECTS + (uint32_t)round % 4);
		for (int i = 0; i < 48 * 256 / 8; i++)
			memory.words[i] = random_word(&state);
		for (int i = 0; i < 32; i++)
			cframe_put(i, random_word(&state), CFRAME(random_u64(&state) % 33));
		nr_stops[walk_from(has_cframes() ? CFRAME(0) : FRAME(0), "random")]++;
	}
	/* It was worth it: all ways to end were met. */
	for (int stop = PYTHON_STOP_COMPLETE; stop < PYTHON_NR_STOPS; stop++)
		cr_assert(nr_stops[stop] || stop == PYTHON_STOP_THREADS ||
				  stop == PYTHON_STOP_ENTRIES,
			  "stop %d: none", stop);
}
