// SPDX-License-Identifier: Apache-2.0
#include "python_objects.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "python_chain.h"

#define PYTHON_HEAP_LAYOUTS
#define PYTHON_HEAP_PLACES
#include "python/layouts.h"

#define NR_FIELDS (sizeof(struct python_heap_layout) / sizeof(uint32_t))

static const struct {
	uint16_t version, free_threaded;
	uint16_t chain;
} versions[MADE_NR_VERSIONS] = {
	{ 0x308, 0, PYTHON_CHAIN_OBJECTS }, { 0x30b, 0, PYTHON_CHAIN_ENTRY_FLAG },
	{ 0x30c, 0, PYTHON_CHAIN_CFRAME },  { 0x30d, 0, PYTHON_CHAIN_FRAMES },
	{ 0x30e, 0, PYTHON_CHAIN_FRAMES },  { 0x30e, 1, PYTHON_CHAIN_FRAMES },
};

static void must(bool so)
{
	if (!so)
		abort();
}

static int made_read(struct unwind_reader *reader, __u64 va, void *dst, __u32 len)
{
	struct made_objects *made = (struct made_objects *)reader;
	uint64_t off = va - MADE_BASE;

	made->nr_reads++;
	if (off >= MADE_BYTES || len > MADE_BYTES - off)
		return -1;
	memcpy(dst, made->bytes + off, len);
	return 0;
}

void made_put(struct made_objects *made, uint64_t va, const void *src, size_t len)
{
	must(va >= MADE_BASE && len <= MADE_BYTES && va - MADE_BASE <= MADE_BYTES - len);
	if (len)
		memcpy(made->bytes + (va - MADE_BASE), src, len);
}

void made_put_u64(struct made_objects *made, uint64_t va, uint64_t value)
{
	made_put(made, va, &value, sizeof(value));
}

void made_put_u32(struct made_objects *made, uint64_t va, uint32_t value)
{
	made_put(made, va, &value, sizeof(value));
}

uint64_t made_alloc(struct made_objects *made, size_t bytes)
{
	uint64_t va = made->next;

	made->next += (bytes + 15) & ~15ULL;
	must(made->next <= MADE_END);
	return va;
}

/* The facts that CPython 3.13 and later report: they agree with the table. */
static void offsets_put(struct made_objects *made)
{
	const size_t nr = sizeof(python_heap_places) / sizeof(*python_heap_places);
	const size_t nr_rows = sizeof(python_heap_layouts) / sizeof(*python_heap_layouts);
	uint32_t version = made->layout.version, free_threaded = made->layout.free_threaded;
	uint32_t at[NR_FIELDS], fields[NR_FIELDS];
	size_t i, row;

	for (i = 0; i < nr; i++)
		if (python_heap_places[i].version == version &&
		    python_heap_places[i].free_threaded == free_threaded)
			break;
	if (i == nr)
		return;
	for (row = 0; row < nr_rows; row++)
		if (python_heap_layouts[row].version == version &&
		    python_heap_layouts[row].free_threaded == free_threaded)
			break;
	must(row < nr_rows);
	memcpy(at, &python_heap_places[i], sizeof(at));
	memcpy(fields, &python_heap_layouts[row], sizeof(fields));
	made_put(made, MADE_RUNTIME, "xdebugpy", 8);
	made_put_u64(made, MADE_RUNTIME + 8, (uint64_t)version << 16 | 0xf0);
	made_put_u64(made, MADE_RUNTIME + 16, free_threaded);
	for (i = 2; i < NR_FIELDS; i++)
		if (at[i])
			made_put_u64(made, MADE_RUNTIME + at[i], fields[i]);
}

void made_init(struct made_objects *made, uint32_t nr)
{
	memset(made, 0, sizeof(*made));
	made->reader.read = made_read;
	made->next = MADE_FIRST;
	made->layout = *python_layout_made(versions[nr].chain);
	made->layout.version = versions[nr].version;
	made->layout.free_threaded = versions[nr].free_threaded;
	made->layout.runtime_interpreters = 1024;
	if (made->layout.runtime_current)
		made->layout.runtime_current = 1032;
	if (versions[nr].free_threaded) {
		made->layout.unicode_length = 32;
		made->layout.unicode_hash = 40;
		made->layout.unicode_state = 48;
		made->layout.ascii_data = 56;
		made->layout.compact_data = 72;
		made->layout.bytes_size = 32;
		made->layout.bytes_data = 48;
	}
	if (made->layout.version == 0x30d)
		made->layout.code_mask = 0;
	offsets_put(made);
	must(!python_heap_init(&made->heap, &made->reader, &made->layout, MADE_RUNTIME));
	made->nr_reads = 0;
}

uint64_t made_type(struct made_objects *made, const char *name, uint64_t flags)
{
	const struct python_heap_layout *l = &made->heap.objects;
	uint64_t va, text;
	size_t i;

	for (i = 0; i < MADE_MAX_TYPES && made->type_names[i]; i++)
		if (!strcmp(made->type_names[i], name))
			return made->types[i];
	must(i < MADE_MAX_TYPES);
	va = made_alloc(made, 1024);
	text = made_alloc(made, strlen(name) + 1);
	made_put(made, text, name, strlen(name) + 1);
	made_put_u64(made, va + l->type_name, text);
	made_put_u64(made, va + l->type_flags, flags);
	made_put_u64(made, va + l->type_basic, l->object_size);
	made->types[i] = va;
	made->type_names[i] = name;
	return va;
}

uint64_t made_object(struct made_objects *made, const char *type, uint64_t flags, size_t bytes)
{
	uint64_t type_va = made_type(made, type, flags), va = made_alloc(made, bytes);

	made_put_u64(made, va + made->heap.objects.object_type, type_va);
	return va;
}

uint64_t made_int(struct made_objects *made, int64_t value)
{
	const struct python_heap_layout *l = &made->heap.objects;
	uint64_t va = made_object(made, "int", MADE_INT, 64), nr = 0;
	uint64_t left = value < 0 ? -(uint64_t)value : (uint64_t)value;

	for (; left; left >>= 30, nr++)
		made_put_u32(made, va + l->int_digits + nr * 4, left & ((1U << 30) - 1));
	if (l->int_tag)
		made_put_u64(made, va + l->int_tag, nr << 3 | (value < 0 ? 2 : !value));
	else
		made_put_u64(made, va + l->object_size, value < 0 ? -nr : nr);
	return va;
}

uint64_t made_str(struct made_objects *made, const char *text)
{
	const struct bpfprof_python_layout *l = &made->layout;
	uint64_t va = made_object(made, "str", MADE_STR, l->ascii_data + strlen(text) + 1);

	made_put_u64(made, va + l->unicode_length, strlen(text));
	made_put_u32(made, va + l->unicode_state, (1 | 8 | 16) << l->unicode_kind_shift);
	made_put(made, va + l->ascii_data, text, strlen(text) + 1);
	return va;
}

uint64_t made_bytes(struct made_objects *made, const void *data, size_t len)
{
	const struct bpfprof_python_layout *l = &made->layout;
	uint64_t va = made_object(made, "bytes", MADE_BYTES_TYPE, l->bytes_data + len + 1);

	made_put_u64(made, va + l->bytes_size, len);
	made_put(made, va + l->bytes_data, data, len);
	return va;
}

static uint64_t words(struct made_objects *made, const uint64_t *items, size_t nr)
{
	uint64_t va = made_alloc(made, nr * 8 + 1);

	made_put(made, va, items, nr * 8);
	return va;
}

uint64_t made_tuple(struct made_objects *made, const uint64_t *items, size_t nr)
{
	const struct python_heap_layout *l = &made->heap.objects;
	uint64_t va = made_object(made, "tuple", MADE_TUPLE, l->tuple_items + nr * 8);

	made_put_u64(made, va + l->tuple_size, nr);
	made_put(made, va + l->tuple_items, items, nr * 8);
	return va;
}

uint64_t made_list(struct made_objects *made, const uint64_t *items, size_t nr)
{
	const struct python_heap_layout *l = &made->heap.objects;
	uint64_t va = made_object(made, "list", MADE_LIST, l->list_items + 8);

	made_put_u64(made, va + l->list_size, nr);
	made_put_u64(made, va + l->list_items, words(made, items, nr));
	return va;
}

uint64_t made_keys(struct made_objects *made, const uint64_t *pairs, size_t nr, enum made_keys kind)
{
	const struct python_heap_layout *l = &made->heap.objects;
	size_t entry_words = l->keys_size || kind == MADE_KEYS_GENERAL ? 3 : 2;
	size_t log2 = 3, index_bytes, i;
	uint64_t va, entry;

	while ((1UL << log2) * 2 / 3 < nr)
		log2++;
	index_bytes = (1UL << log2) * (log2 < 8 ? 1 : log2 < 16 ? 2 : 4);
	va = made_alloc(made, l->keys_indices + index_bytes + entry_words * 8 * (nr + 1));
	made_put_u64(made, va + l->keys_nr, nr);
	if (l->keys_size) {
		made_put_u64(made, va + l->keys_size, 1UL << log2);
	} else {
		made->bytes[va - MADE_BASE + l->keys_index] = (uint8_t)__builtin_ctzl(index_bytes);
		made->bytes[va - MADE_BASE + l->keys_kind] = (uint8_t)kind;
	}
	for (i = 0; i < nr; i++) {
		entry = va + l->keys_indices + index_bytes + i * entry_words * 8 +
			(entry_words - 2) * 8;
		made_put_u64(made, entry, pairs[2 * i]);
		made_put_u64(made, entry + 8, kind == MADE_KEYS_SPLIT ? 0 : pairs[2 * i + 1]);
	}
	return va;
}

uint64_t made_values(struct made_objects *made, const uint64_t *pairs, size_t nr)
{
	const struct python_heap_layout *l = &made->heap.objects;
	uint64_t va = made_alloc(made, l->values_first + (nr + 1) * 8);

	for (size_t i = 0; i < nr; i++)
		made_put_u64(made, va + l->values_first + i * 8, pairs[2 * i + 1]);
	return va;
}

uint64_t made_dict(struct made_objects *made, const uint64_t *pairs, size_t nr, enum made_keys kind)
{
	const struct python_heap_layout *l = &made->heap.objects;
	uint64_t va = made_object(made, "dict", MADE_DICT, 64);

	made_put_u64(made, va + l->dict_keys, made_keys(made, pairs, nr, kind));
	if (kind == MADE_KEYS_SPLIT)
		made_put_u64(made, va + l->dict_values, made_values(made, pairs, nr));
	return va;
}

uint64_t made_instance(struct made_objects *made, const char *type, const uint64_t *pairs,
		       size_t nr)
{
	const struct python_heap_layout *l = &made->heap.objects;
	uint64_t type_va = made_type(made, type, l->flag_managed | l->flag_inline);
	uint64_t va = made_alloc(made, 64 + 512 + nr * 8) + 64;

	made_put_u64(made, va + l->object_type, type_va);
	if (l->type_keys)
		made_put_u64(made, type_va + l->type_keys,
			     made_keys(made, pairs, nr, MADE_KEYS_SPLIT));
	switch (l->instance) {
	case PYTHON_INSTANCE_DICT:
		made_put_u64(made, type_va + l->type_dict, l->object_size);
		made_put_u64(made, va + l->object_size,
			     made_dict(made, pairs, nr, MADE_KEYS_SPLIT));
		break;
	case PYTHON_INSTANCE_VALUES:
		made_put_u64(made, va - l->instance_dict - 8, made_values(made, pairs, nr));
		break;
	case PYTHON_INSTANCE_TAGGED:
		made_put_u64(made, va - l->instance_dict, made_values(made, pairs, nr) - 1);
		break;
	default:
		made->bytes[va - MADE_BASE + l->object_size + l->values_valid] = 1;
		for (size_t i = 0; i < nr; i++)
			made_put_u64(made, va + l->object_size + l->values_first + i * 8,
				     pairs[2 * i + 1]);
	}
	return va;
}

uint64_t made_module(struct made_objects *made, const uint64_t *pairs, size_t nr)
{
	const struct python_heap_layout *l = &made->heap.objects;
	uint64_t type = made_type(made, "module", 0);
	uint64_t va = made_object(made, "module", 0, 64);

	made_put_u64(made, type + l->type_dict, l->object_size);
	made_put_u64(made, va + l->object_size, made_dict(made, pairs, nr, MADE_KEYS_STR));
	return va;
}
