// SPDX-License-Identifier: Apache-2.0
/* fuzz: max_len=4096 */
#include "../hostbpf/python_chain.c" /* a fuzzer is one file */

#include <stdlib.h>

#include "python/layout.h"

#define PYTHON_MIN_VA 4096ULL
#define PYTHON_MAX_VA (1ULL << 56)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX_STEPS (PYTHON_CHAIN_MAX_FRAMES + PYTHON_CHAIN_MAX_ENTRIES)
#define LOW_VA 0x10000ULL
#define HIGH_VA (PYTHON_MAX_VA - 1024) /* some of it is above what can be an object */
#define NR_NAMED 4

struct made_memory {
	struct unwind_reader reader; /* first member */
	const uint8_t *data;
	size_t size;
	uint64_t va;
	uint32_t nr_reads;
};

static int made_read(struct unwind_reader *reader, __u64 va, void *dst, __u32 len)
{
	struct made_memory *memory = (struct made_memory *)reader;
	uint64_t off = va - memory->va;

	memory->nr_reads++;
	if (off >= memory->size || len > memory->size - off)
		return -1;
	memcpy(dst, memory->data + off, len);
	return 0;
}

/* Code objects are where something can be, entries rise. */
static void chain_check(const struct python_chain *chain, const struct made_memory *memory)
{
	uint32_t i, nr = 0;

	if (chain->stop < PYTHON_STOP_NONE || chain->stop >= PYTHON_NR_STOPS ||
	    (!chain->stop && chain->nr_steps) || chain->nr_steps > MAX_STEPS ||
	    memory->nr_reads > 4 * chain->nr_steps +
				       5 || /* 3.11: two more for each call, four for the first */
	    chain->nr_frames > PYTHON_CHAIN_MAX_FRAMES ||
	    chain->nr_entries > PYTHON_CHAIN_MAX_ENTRIES)
		abort();
	for (i = 0; i < chain->nr_frames; i++)
		if (chain->frames[i].code < PYTHON_MIN_VA ||
		    chain->frames[i].code >= PYTHON_MAX_VA ||
		    chain->frames[i].lasti > BPFPROF_LASTI_NONE)
			abort();
	for (i = 0; i < chain->nr_entries; i++) {
		if (chain->entries[i].nr <= nr || chain->entries[i].nr > chain->nr_frames)
			abort();
		nr = chain->entries[i].nr;
	}
}

static void names_read(struct made_memory *memory, const struct bpfprof_python_layout *layout,
		       const struct python_chain *chain)
{
	char name[64];
	__u64 string;

	for (uint32_t i = 0; i < chain->nr_frames && i < NR_NAMED; i++) {
		if (unwind_read_u64(&memory->reader, chain->frames[i].code + layout->code_name,
				    &string))
			continue;
		if (python_chain_string(&memory->reader, layout, string, name, sizeof(name)) !=
		    strlen(name))
			abort();
	}
}

/*
 * One byte: the layout to begin with and where memory lies; one: how many 16-bit words of the
 * layout are changed, each by its number and its value; two: where in memory it starts; memory.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct made_memory memory = { .reader.read = made_read };
	struct bpfprof_python_layout layout;
	static struct python_chain chain;
	uint16_t change[2], start;
	uint8_t *words = (uint8_t *)&layout;
	size_t nr;

	if (size < 4)
		return 0;
	layout = *python_layout_made(PYTHON_CHAIN_OBJECTS + (data[0] & 3U));
	memory.va = data[0] & 4 ? HIGH_VA : LOW_VA;
	nr = data[1] & 15;
	data += 2;
	size -= 2;
	for (; nr && size >= 6; nr--, data += 4, size -= 4) {
		memcpy(change, data, 4);
		memcpy(words + change[0] % (sizeof(layout) / 2) * 2, &change[1], 2);
	}
	if (python_layout_check(&layout))
		return 0;
	memcpy(&start, data, 2);
	memory.data = data + 2;
	memory.size = size - 2;
	python_chain_walk(&chain, &layout, &memory.reader, memory.va + start);
	chain_check(&chain, &memory);
	names_read(&memory, &layout, &chain);
	return 0;
}
