// SPDX-License-Identifier: Apache-2.0
#include "python/chain.h"

static int python_frame_read(struct unwind_reader *reader, __u64 va, __u32 len, __u8 *dst)
{
	return reader->read(reader, va, dst, len);
}

#include "unwind_python.h"

int python_chain_frame_read(struct python_chain_frame *ret,
			    const struct bpfprof_python_layout *layout,
			    struct unwind_reader *reader, uint64_t frame_va)
{
	struct python_walk w = { .frame = frame_va, .begun = 1 };
	_Alignas(8) __u8 room[PYTHON_FRAME_ROOM] = { 0 };
	int stop = python_step(&w, layout, reader, room);

	if (stop || !w.code)
		return stop ? stop : PYTHON_STOP_BAD;
	*ret = (struct python_chain_frame){ .code = w.code,
					    .frame_va = frame_va,
					    .lasti = w.lasti };
	return 0;
}

static int code_add(struct python_chain *chain, const struct bpfprof_python_layout *layout,
		    struct unwind_reader *reader, const struct python_walk *w, uint64_t frame_va)
{
	_Alignas(8) __u8 code[256 + 8] = { 0 }; /* python_code_hidden() masks offsets with 0xff */

	if (layout->code_bytes > BPFPROF_PYTHON_CODE_BYTES ||
	    reader->read(reader, w->code, code, layout->code_bytes))
		return PYTHON_STOP_READ_FAULT;
	if (python_code_hidden(layout, code))
		return 0;
	if (chain->nr_frames == PYTHON_CHAIN_MAX_FRAMES)
		return PYTHON_STOP_DEPTH;
	chain->frames[chain->nr_frames++] = (struct python_chain_frame){ .code = w->code,
									 .frame_va = frame_va,
									 .lasti = w->lasti };
	return 0;
}

static int entry_add(struct python_chain *chain, const struct python_walk *w)
{
	uint32_t entered = chain->nr_entries ? chain->entries[chain->nr_entries - 1].nr : 0;

	if (!w->entry || chain->nr_frames == entered)
		return 0;
	if (chain->nr_entries == PYTHON_CHAIN_MAX_ENTRIES)
		return PYTHON_STOP_ENTRIES;
	chain->entries[chain->nr_entries++] =
		(struct bpfprof_python_entry){ .va = w->entry, .nr = chain->nr_frames };
	return 0;
}

void python_chain_add(struct python_chain *chain, const struct bpfprof_python_layout *layout,
		      struct unwind_reader *reader, uint64_t start)
{
	struct python_walk w = { .frame = start, .cframe = start };
	_Alignas(8) __u8 room[PYTHON_FRAME_ROOM] = { 0 };
	uint64_t frame_va;
	uint32_t steps;
	int stop;

	if (layout->chain == PYTHON_CHAIN_ENTRY_FLAG || layout->chain == PYTHON_CHAIN_CFRAME) {
		if (!start)
			return;
		if (unwind_read_u64(reader, start + layout->cframe_frame, &w.frame)) {
			chain->stop = PYTHON_STOP_READ_FAULT;
			return;
		}
	}
	for (steps = 0; steps < PYTHON_CHAIN_MAX_FRAMES + PYTHON_CHAIN_MAX_ENTRIES; steps++) {
		chain->nr_steps++;
		frame_va = w.frame;
		stop = python_step(&w, layout, reader, room);
		if (!stop && w.code)
			stop = code_add(chain, layout, reader, &w, frame_va);
		if (!stop)
			stop = entry_add(chain, &w);
		if (stop) {
			chain->stop = stop;
			return;
		}
	}
	chain->stop = PYTHON_STOP_DEPTH;
}

void python_chain_walk(struct python_chain *ret, const struct bpfprof_python_layout *layout,
		       struct unwind_reader *reader, uint64_t start)
{
	ret->stop = PYTHON_STOP_NONE;
	ret->nr_steps = ret->nr_frames = ret->nr_entries = 0;
	python_chain_add(ret, layout, reader, start);
}
