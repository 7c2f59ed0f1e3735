// SPDX-License-Identifier: Apache-2.0
/* Evicts code that no process runs any more, so that struct codes can live for ever. */
#include "python/codes_state.h"

#include <stdlib.h>
#include <string.h>

#include "base/strtab.h"

static uint64_t frame_id(uint64_t frame)
{
	return (frame & BPFPROF_FRAME_MASK) >> BPFPROF_LASTI_BITS;
}

/* Marks the code of frames that are still to be described. */
static void frames_mark(struct codes *codes, const uint64_t *frames, size_t nr)
{
	struct object *object;
	uint64_t id;
	size_t i;

	for (i = 0; i < nr; i++) {
		if (frames[i] >> BPFPROF_FRAME_SHIFT != BPFPROF_FRAME_PYTHON)
			continue;
		id = frame_id(frames[i]);
		if (!(id & BPFPROF_CODE_ID_RAW)) {
			if (id < codes->nr_codes)
				codes->codes[id].marked = true;
			continue;
		}
		object = hash_table_find(&codes->objects, &id);
		if (object)
			object->raw = true;
	}
}

static void code_free(struct codes *codes, uint32_t i)
{
	struct code *code = &codes->codes[i];

	free(code->table);
	*code = (struct code){ .next = codes->free_codes };
	codes->free_codes = i + 1;
	codes->counts.nr_kept--;
}

static void slots_fill(struct codes *codes)
{
	struct code *code;
	uint32_t i, at;

	memset(codes->slots, 0, codes->nr_slots * sizeof(*codes->slots));
	for (i = 0; i < codes->nr_codes; i++) {
		code = &codes->codes[i];
		if (!code->in_use)
			continue;
		at = (uint32_t)code->hash & (codes->nr_slots - 1);
		code->next = codes->slots[at];
		codes->slots[at] = i + 1;
	}
	/* Lines are cached by the number of the code, which other code may get. */
	memset(codes->line_slots, 0, sizeof(codes->line_slots));
}

static uint32_t string_move(const struct codes *codes, struct strtab *strings, uint32_t id)
{
	return strtab_add(strings, strtab_get(codes->strings, id));
}

/* Moves used strings into a new table; without memory for it all strings stay. */
static void strings_move(struct codes *codes)
{
	struct object *object;
	struct strtab *strings;
	struct code *code;
	uint32_t i;

	if (strtab_new(&strings, codes->max_bytes / 4))
		return;
	for (i = 0; i < codes->nr_codes; i++) {
		code = &codes->codes[i];
		if (!code->in_use)
			continue;
		code->name = string_move(codes, strings, code->name);
		code->file = string_move(codes, strings, code->file);
	}
	hash_table_each(&codes->objects, object) {
		object->name = string_move(codes, strings, object->name);
		object->file = string_move(codes, strings, object->file);
	}
	strtab_free(codes->strings);
	codes->strings = strings;
}

/* Counts the bytes again, and drops shares of processes without code. */
static void bytes_count(struct codes *codes)
{
	struct share *share;
	struct object *object;
	uint32_t i;

	codes->bytes =
		codes->cap_codes * sizeof(*codes->codes) + codes->nr_slots * sizeof(*codes->slots);
	for (i = 0; i < codes->nr_codes; i++)
		codes->bytes += codes->codes[i].in_use ? codes->codes[i].len : 0;
	for (i = 0; i < strtab_count(codes->strings); i++)
		codes->bytes += strlen(strtab_get(codes->strings, i)) + 1;
	hash_table_each(&codes->shares, share)
		share->bytes = 0;
	hash_table_each(&codes->objects, object) {
		share = hash_table_find(&codes->shares, &object->python);
		if (share)
			share->bytes += sizeof(*object) + object->have;
		codes->bytes += sizeof(*object) + (object->table ? object->have : 0);
	}
	hash_table_each(&codes->shares, share) {
		codes->bytes += sizeof(*share);
		if (share->bytes)
			continue;
		codes->bytes -= sizeof(*share);
		hash_table_remove(&codes->shares, share);
	}
	codes_count_tenants(codes);
}

void codes_sweep(struct codes *codes, const uint64_t *frames, size_t nr,
		 bool (*is_alive)(void *arg, uint32_t python), void *arg)
{
	struct object *object;
	uint32_t i;

	for (i = 0; i < codes->nr_codes; i++)
		codes->codes[i].marked = false;
	hash_table_each(&codes->objects, object)
		object->raw = false;
	frames_mark(codes, frames, nr);
	codes_forget(codes, is_alive, arg);
	hash_table_each(&codes->objects, object)
		if (object->code)
			codes->codes[object->code - 1].marked = true;
	for (i = 0; i < codes->nr_codes; i++)
		if (codes->codes[i].in_use && !codes->codes[i].marked)
			code_free(codes, i);
	strings_move(codes);
	codes_rehash(codes);
	slots_fill(codes);
	bytes_count(codes);
	/* There may be room now for objects that had none. */
	hash_table_each(&codes->objects, object)
		if (!object->code && object->table && object_is_whole(object))
			object_complete(codes, object);
	codes->is_crowded = codes->was_full || codes->bytes > codes->max_bytes / 4 * 3;
	codes->was_full = false;
}

bool codes_is_crowded(const struct codes *codes, uint32_t python)
{
	const struct share *share = hash_table_find(&codes->shares, &python);

	return codes->is_crowded ||
	       (share && (share->was_full || share->bytes > codes->max_bytes / PROCESS_SHARE / 2));
}
