// SPDX-License-Identifier: Apache-2.0
#include "python/codes.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <uthash.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/strtab.h"
#include "python/lines.h"
#include "python/text.h"

#define MAX_TEXT 16384 /* of a name, as UTF-8 */
#define MAX_LINES_BYTES (8U << 20)
#define LINE_SLOTS 8192

/* Distinct code: its number is its index. */
struct code {
	uint64_t hash;
	uint32_t name, file; /* in strings */
	uint32_t first_line;
	uint32_t lines; /* enum bpfprof_python_lines */
	uint8_t *table;
	uint32_t len;
	uint32_t next; /* of the same slot, index + 1 */
};

/* A code object by BPF's id. */
struct object {
	UT_hash_handle hh;
	uint64_t id;
	uint32_t python; /* id of its process */
	uint32_t code; /* index + 1, 0 = not all there yet */
	uint32_t name, file;
	uint32_t first_line, lines;
	uint32_t total, have; /* bytes of the line table */
	bool has_name, has_file, has_total;
	uint8_t *table; /* while it is put together */
};

struct line_slot {
	uint64_t frame; /* 0 = free */
	uint32_t line;
};

struct codes {
	size_t bytes, max_bytes;
	uint64_t seed;
	struct strtab *strings;
	struct object *objects;
	struct code *codes;
	uint32_t nr_codes, cap_codes;
	uint32_t *slots; /* index + 1 */
	uint32_t nr_slots;
	struct line_slot line_slots[LINE_SLOTS];
	char text[MAX_TEXT];
	struct codes_counts counts;
};

int codes_new(struct codes **ret, size_t max_bytes)
{
	struct codes *codes = calloc(1, sizeof(*codes));

	if (!codes)
		return -ENOMEM;
	codes->max_bytes = max_bytes;
	codes->nr_slots = 4096;
	codes->slots = calloc(codes->nr_slots, sizeof(*codes->slots));
	if (!codes->slots || strtab_new(&codes->strings, max_bytes / 4)) {
		codes_free(codes);
		return -ENOMEM;
	}
	if (getrandom(&codes->seed, sizeof(codes->seed), GRND_NONBLOCK) != sizeof(codes->seed))
		codes->seed = 0;
	*ret = codes;
	return 0;
}

void codes_free(struct codes *codes)
{
	struct object *object, *next;
	uint32_t i;

	if (!codes)
		return;
	HASH_ITER(hh, codes->objects, object, next) {
		HASH_DEL(codes->objects, object);
		free(object->table);
		free(object);
	}
	for (i = 0; i < codes->nr_codes; i++)
		free(codes->codes[i].table);
	free(codes->codes);
	free(codes->slots);
	strtab_free(codes->strings);
	free(codes);
}

const struct codes_counts *codes_counts(const struct codes *codes)
{
	return &codes->counts;
}

static bool room_take(struct codes *codes, size_t bytes)
{
	if (codes->bytes + bytes > codes->max_bytes) {
		codes->counts.nr_full++;
		return false;
	}
	codes->bytes += bytes;
	return true;
}

static struct object *object_get(struct codes *codes, uint64_t id)
{
	struct object *object;

	HASH_FIND(hh, codes->objects, &id, sizeof(id), object);
	if (object)
		return object;
	if (!room_take(codes, sizeof(*object)))
		return NULL;
	object = calloc(1, sizeof(*object));
	if (!object)
		return NULL;
	object->id = id;
	HASH_ADD(hh, codes->objects, id, sizeof(object->id), object);
	codes->counts.nr_objects++;
	return object;
}

static uint32_t text_add(struct codes *codes, const struct bpfprof_python_code *piece)
{
	size_t len = python_text(codes->text, sizeof(codes->text), piece->data, piece->len,
				 piece->total, piece->char_bytes);

	return strtab_add_len(codes->strings, codes->text, len);
}

static void lines_add(struct codes *codes, struct object *object,
		      const struct bpfprof_python_code *piece)
{
	if (!object->has_total) {
		if (piece->total > MAX_LINES_BYTES) {
			codes->counts.nr_malformed++;
			return;
		}
		if (!room_take(codes, piece->total))
			return;
		object->table = malloc(piece->total + 1);
		if (!object->table)
			return;
		object->total = piece->total;
		object->has_total = true;
	}
	/* One that comes twice, from two CPUs, does no harm. */
	if (!object->table || piece->total != object->total || piece->off > object->have ||
	    piece->len > object->total - piece->off)
		return;
	memcpy(object->table + piece->off, piece->data, piece->len);
	if (piece->off + piece->len > object->have)
		object->have = piece->off + piece->len;
}

static bool code_is(const struct code *code, const struct object *object, uint64_t hash)
{
	return code->hash == hash && code->name == object->name && code->file == object->file &&
	       code->first_line == object->first_line && code->lines == object->lines &&
	       code->len == object->total && !memcmp(code->table, object->table, code->len);
}

static void slots_grow(struct codes *codes)
{
	uint32_t nr = codes->nr_slots * 2, i, at;
	uint32_t *slots;

	if (codes->nr_codes < codes->nr_slots || !room_take(codes, nr / 2 * sizeof(*slots)))
		return;
	slots = calloc(nr, sizeof(*slots));
	if (!slots)
		return;
	for (i = 0; i < codes->nr_codes; i++) {
		at = (uint32_t)codes->codes[i].hash & (nr - 1);
		codes->codes[i].next = slots[at];
		slots[at] = i + 1;
	}
	free(codes->slots);
	codes->slots = slots;
	codes->nr_slots = nr;
}

static struct code *code_append(struct codes *codes)
{
	uint32_t cap = codes->cap_codes ? codes->cap_codes * 2 : 1024;
	struct code *tmp;

	if (codes->nr_codes == codes->cap_codes) {
		if (!room_take(codes, (cap - codes->cap_codes) * sizeof(*tmp)))
			return NULL;
		tmp = realloc(codes->codes, cap * sizeof(*tmp));
		if (!tmp)
			return NULL;
		codes->codes = tmp;
		codes->cap_codes = cap;
	}
	return &codes->codes[codes->nr_codes];
}

/* All pieces are here: finds or makes the code that the object is. */
static void object_complete(struct codes *codes, struct object *object)
{
	uint32_t head[4] = { object->name, object->file, object->first_line, object->lines };
	uint64_t hash = XXH3_64bits_withSeed(head, sizeof(head), codes->seed);
	struct code *code;
	uint32_t at, i;

	hash = XXH3_64bits_withSeed(object->table, object->total, hash);
	at = (uint32_t)hash & (codes->nr_slots - 1);
	for (i = codes->slots[at]; i; i = codes->codes[i - 1].next) {
		if (!code_is(&codes->codes[i - 1], object, hash))
			continue;
		object->code = i;
		codes->bytes -= object->total;
		free(object->table);
		object->table = NULL;
		return;
	}
	code = code_append(codes);
	if (!code)
		return;
	*code = (struct code){ .hash = hash,
			       .name = object->name,
			       .file = object->file,
			       .first_line = object->first_line,
			       .lines = object->lines,
			       .table = object->table,
			       .len = object->total,
			       .next = codes->slots[at] };
	object->table = NULL;
	object->code = ++codes->nr_codes;
	codes->slots[at] = object->code;
	codes->counts.nr_kept = codes->nr_codes;
	slots_grow(codes);
}

void codes_piece(struct codes *codes, const struct bpfprof_python_code *piece, size_t size,
		 uint32_t lines)
{
	struct object *object;

	if (size < offsetof(struct bpfprof_python_code, data) ||
	    piece->len > size - offsetof(struct bpfprof_python_code, data) ||
	    piece->len > BPFPROF_PYTHON_PIECE_BYTES) {
		codes->counts.nr_malformed++;
		return;
	}
	object = object_get(codes, piece->code_id);
	if (!object || object->code)
		return;
	object->python = piece->python;
	object->first_line = piece->first_line;
	object->lines = lines;
	switch (piece->part) {
	case PYTHON_PART_NAME:
		object->name = text_add(codes, piece);
		object->has_name = true;
		break;
	case PYTHON_PART_FILENAME:
		object->file = text_add(codes, piece);
		object->has_file = true;
		break;
	case PYTHON_PART_LINES:
		lines_add(codes, object, piece);
		break;
	default:
		codes->counts.nr_malformed++;
	}
	if (object->has_name && object->has_file && object->has_total &&
	    object->have == object->total)
		object_complete(codes, object);
}

static uint32_t line_of(struct codes *codes, uint32_t index, uint32_t lasti)
{
	const struct code *code = &codes->codes[index];
	uint64_t key = ((uint64_t)index << BPFPROF_LASTI_BITS | lasti) + 1;
	struct line_slot *slot =
		&codes->line_slots[(key * 0x9e3779b97f4a7c15ULL) >> 51 & (LINE_SLOTS - 1)];

	if (lasti == BPFPROF_LASTI_NONE)
		return code->first_line;
	if (slot->frame != key) {
		slot->line =
			python_line(code->lines, code->table, code->len, code->first_line, lasti);
		slot->frame = key;
	}
	return slot->line;
}

static uint64_t frame_id(uint64_t frame)
{
	return (frame & BPFPROF_FRAME_MASK) >> BPFPROF_LASTI_BITS;
}

uint64_t codes_frame(struct codes *codes, uint64_t frame)
{
	uint64_t id = frame_id(frame);
	struct object *object;
	uint32_t line;

	HASH_FIND(hh, codes->objects, &id, sizeof(id), object);
	if (!object || !object->code)
		return frame;
	line = line_of(codes, object->code - 1, frame & BPFPROF_LASTI_MASK);
	if (line > BPFPROF_LASTI_MASK)
		line = 0;
	return (uint64_t)BPFPROF_FRAME_PYTHON << BPFPROF_FRAME_SHIFT |
	       (uint64_t)(object->code - 1) << BPFPROF_LASTI_BITS | line;
}

void codes_forget(struct codes *codes, bool (*is_alive)(void *arg, uint32_t python), void *arg)
{
	struct object *object, *next;

	HASH_ITER(hh, codes->objects, object, next) {
		if (!object->code || is_alive(arg, object->python))
			continue;
		HASH_DEL(codes->objects, object);
		free(object);
		codes->bytes -= sizeof(*object);
	}
}

int codes_describe(struct codes *codes, uint64_t frame, struct code_info *ret)
{
	uint64_t id = frame_id(frame);
	const struct code *code;
	struct object *object;

	if (id & BPFPROF_CODE_ID_RAW) {
		HASH_FIND(hh, codes->objects, &id, sizeof(id), object);
		if (!object || !object->has_name)
			return -ENOENT;
		if (!object->code) {
			*ret = (struct code_info){ .name = strtab_get(codes->strings, object->name),
						   .file = strtab_get(codes->strings, object->file),
						   .first_line = object->first_line };
			return 0;
		}
		frame = codes_frame(codes, frame);
		id = frame_id(frame);
	}
	if (id >= codes->nr_codes)
		return -ENOENT;
	code = &codes->codes[id];
	*ret = (struct code_info){ .name = strtab_get(codes->strings, code->name),
				   .file = strtab_get(codes->strings, code->file),
				   .first_line = code->first_line,
				   .line = frame & BPFPROF_LASTI_MASK };
	return 0;
}
