// SPDX-License-Identifier: Apache-2.0
#include "python/codes.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/hash_seed.h"
#include "base/strtab.h"
#include "base/time.h"
#include "base/vec.h"
#include "python/codes_state.h"
#include "python/lines.h"
#include "python/text.h"

#define MAX_LINES_BYTES (1U << 20)
#define LONG_TABLE_BYTES 4096
#define LONG_TABLE_SHARE 20 /* one part in so many of the time may go into longer tables */
#define LONG_TABLE_SAVED_NS (NS_PER_SECOND / 5)
#define END_NS (5 * NS_PER_SECOND) /* for all longer tables together at the end */

int codes_new(struct codes **ret, size_t max_bytes)
{
	struct codes *codes = calloc(1, sizeof(*codes));

	if (!codes)
		return -ENOMEM;
	codes->max_bytes = max_bytes;
	hash_table_init(&codes->objects, HASH_TABLE_BOUNDED, struct object, id);
	hash_table_init(&codes->shares, HASH_TABLE_BOUNDED, struct share, python);
	hash_table_init(&codes->tenants, HASH_TABLE_BOUNDED, struct tenant_share, tenant);
	codes->nr_slots = 4096;
	codes->slots = calloc(codes->nr_slots, sizeof(*codes->slots));
	if (!codes->slots || strtab_new(&codes->strings, max_bytes / 4)) {
		codes_free(codes);
		return -ENOMEM;
	}
	codes->seed = hash_seed();
	*ret = codes;
	return 0;
}

void codes_free(struct codes *codes)
{
	struct object *object;
	uint32_t i;

	if (!codes)
		return;
	hash_table_each(&codes->objects, object)
		free(object->table);
	hash_table_clear(&codes->objects);
	hash_table_clear(&codes->shares);
	hash_table_clear(&codes->tenants);
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

static struct share *share_get(struct codes *codes, uint32_t python)
{
	struct share *share = hash_table_find(&codes->shares, &python);

	if (!share && room_take(codes, sizeof(*share)))
		share = hash_table_add(&codes->shares, &python);
	codes->was_full |= !share;
	return share;
}

void codes_set_tenant(struct codes *codes, uint32_t python, uint32_t tenant)
{
	struct share *share = share_get(codes, python);

	if (share && !share->bytes)
		share->tenant = tenant;
}

bool codes_has(const struct codes *codes, uint32_t python)
{
	return hash_table_find(&codes->shares, &python);
}

static bool tenant_take(struct codes *codes, uint32_t tenant, size_t bytes)
{
	struct tenant_share *share = tenant ? hash_table_get(&codes->tenants, &tenant) : NULL;

	if (!tenant)
		return true;
	if (!share || share->bytes + bytes > codes->max_bytes - codes->max_bytes / TENANT_SPARE)
		return false;
	share->bytes += bytes;
	return true;
}

static void tenant_give(struct codes *codes, uint32_t tenant, size_t bytes)
{
	struct tenant_share *share = hash_table_find(&codes->tenants, &tenant);

	if (share)
		share->bytes -= bytes;
}

void codes_count_tenants(struct codes *codes)
{
	struct tenant_share *tenant;
	struct share *share;

	hash_table_clear(&codes->tenants);
	hash_table_each(&codes->shares, share) {
		tenant = share->tenant ? hash_table_get(&codes->tenants, &share->tenant) : NULL;
		if (tenant)
			tenant->bytes += share->bytes;
	}
}

/* Takes room for data of a process; it counts for the process until codes_forget(). */
static bool process_take(struct codes *codes, uint32_t python, size_t bytes)
{
	struct share *share = share_get(codes, python);

	if (!share)
		return false;
	if (share->bytes + bytes > codes->max_bytes / PROCESS_SHARE ||
	    !tenant_take(codes, share->tenant, bytes)) {
		codes->counts.nr_full++;
		share->was_full = true;
		return false;
	}
	if (!room_take(codes, bytes)) {
		tenant_give(codes, share->tenant, bytes);
		share->was_full = true;
		return false;
	}
	share->bytes += bytes;
	return true;
}

/* Gives back what process_take() took. */
static void process_give(struct codes *codes, uint32_t python, size_t bytes)
{
	struct share *share = share_get(codes, python);

	share->bytes -= bytes;
	codes->bytes -= bytes;
	tenant_give(codes, share->tenant, bytes);
}

static struct object *object_find(struct codes *codes, uint64_t id)
{
	return hash_table_find(&codes->objects, &id);
}

static struct object *object_get(struct codes *codes, uint64_t id, uint32_t python)
{
	struct object *object = object_find(codes, id);

	if (object)
		return object;
	if (!process_take(codes, python, sizeof(*object)))
		return NULL;
	object = hash_table_add(&codes->objects, &id);
	if (!object)
		return NULL;
	object->python = python;
	codes->counts.nr_objects++;
	return object;
}

/* Without room for the process the text is "?". */
static uint32_t text_add(struct codes *codes, const struct bpfprof_python_code *piece)
{
	size_t len = python_text(codes->text, sizeof(codes->text), piece->data, piece->len,
				 piece->total, piece->char_bytes);
	uint32_t nr = strtab_count(codes->strings);
	uint32_t id;

	if (!process_take(codes, piece->python, len + 1))
		return strtab_add(codes->strings, "?");
	id = strtab_add_len(codes->strings, codes->text, len);
	if (id < nr) /* a known text costs nothing */
		process_give(codes, piece->python, len + 1);
	return id;
}

static void lines_add(struct codes *codes, struct object *object,
		      const struct bpfprof_python_code *piece)
{
	uint32_t end;

	if (piece->total > MAX_LINES_BYTES) {
		codes->counts.nr_malformed++;
		return;
	}
	/* A piece may come twice, from two CPUs. */
	if ((object->has_total && piece->total != object->total) || piece->off > object->have ||
	    piece->len > piece->total - piece->off)
		return;
	object->total = piece->total;
	object->has_total = true;
	end = piece->off + piece->len;
	if (end > object->have || !object->table) {
		if (!process_take(codes, object->python, end - object->have))
			return;
		if (!vec_fit(object->table, end + 1))
			return;
		memcpy(object->table + piece->off, piece->data, piece->len);
		object->have = end;
	}
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
		if (!codes->codes[i].in_use)
			continue;
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

	if (codes->free_codes) {
		tmp = &codes->codes[codes->free_codes - 1];
		codes->free_codes = tmp->next;
		return tmp;
	}
	if (codes->nr_codes == codes->cap_codes) {
		if (!room_take(codes, (cap - codes->cap_codes) * sizeof(*tmp)) ||
		    !vec_fit(codes->codes, cap))
			return NULL;
		codes->cap_codes = cap;
	}
	return &codes->codes[codes->nr_codes++];
}

bool object_is_whole(const struct object *object)
{
	return object->has_name && object->has_file && object->has_total &&
	       object->have == object->total;
}

static uint64_t code_hash(const struct codes *codes, const uint32_t head[4], const uint8_t *table,
			  uint32_t len)
{
	return XXH3_64bits_withSeed(table, len,
				    XXH3_64bits_withSeed(head, 4 * sizeof(*head), codes->seed));
}

void codes_rehash(struct codes *codes)
{
	struct code *code;
	uint32_t i;

	for (i = 0; i < codes->nr_codes; i++) {
		code = &codes->codes[i];
		if (code->in_use)
			code->hash = code_hash(codes,
					       (uint32_t[]){ code->name, code->file,
							     code->first_line, code->lines },
					       code->table, code->len);
	}
}

void object_complete(struct codes *codes, struct object *object)
{
	uint32_t head[4] = { object->name, object->file, object->first_line, object->lines };
	uint64_t hash = code_hash(codes, head, object->table, object->total);
	struct code *code;
	uint32_t at, i;

	at = (uint32_t)hash & (codes->nr_slots - 1);
	for (i = codes->slots[at]; i; i = codes->codes[i - 1].next) {
		if (!code_is(&codes->codes[i - 1], object, hash))
			continue;
		object->code = i;
		process_give(codes, object->python, object->total);
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
			       .next = codes->slots[at],
			       .in_use = true };
	object->table = NULL;
	object->code = (uint32_t)(code - codes->codes) + 1;
	codes->slots[at] = object->code;
	codes->counts.nr_kept++;
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
	object = object_get(codes, piece->code_id, piece->python);
	if (!object || object->code)
		return;
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
	if (object_is_whole(object))
		object_complete(codes, object);
}

/* Looks up a line within budget: 0, or -EAGAIN if there is no time for it. */
static int line_of(struct codes *codes, uint32_t index, uint32_t lasti, struct budget *budget,
		   uint32_t share, uint64_t saved_ns, uint32_t *ret)
{
	const struct code *code = &codes->codes[index];
	uint64_t key = ((uint64_t)index << BPFPROF_LASTI_BITS | lasti) + 1, start_ns = 0;
	struct line_slot *slot =
		&codes->line_slots[(key * 0x9e3779b97f4a7c15ULL) >> 51 & (LINE_SLOTS - 1)];

	if (lasti == BPFPROF_LASTI_NONE) {
		*ret = code->first_line;
		return 0;
	}
	if (slot->frame != key) {
		if (code->len > LONG_TABLE_BYTES) {
			start_ns = time_monotonic_ns();
			if (!budget_allows(budget, share, saved_ns, start_ns))
				return -EAGAIN;
		}
		slot->line =
			python_line(code->lines, code->table, code->len, code->first_line, lasti);
		slot->frame = key;
		if (start_ns)
			budget_spend(budget, time_monotonic_ns() - start_ns);
	}
	*ret = slot->line;
	return 0;
}

static uint64_t frame_id(uint64_t frame)
{
	return (frame & BPFPROF_FRAME_MASK) >> BPFPROF_LASTI_BITS;
}

/* 0 for a line that does not fit into a frame. */
static uint32_t line_kept(uint32_t line)
{
	return line > BPFPROF_LASTI_MASK ? 0 : line;
}

static uint64_t frame_made(uint32_t code, uint32_t line)
{
	return (uint64_t)BPFPROF_FRAME_PYTHON << BPFPROF_FRAME_SHIFT |
	       (uint64_t)(code - 1) << BPFPROF_LASTI_BITS | line_kept(line);
}

uint64_t codes_frame(struct codes *codes, uint64_t frame, uint32_t python)
{
	struct object *object = object_get(codes, frame_id(frame), python);
	uint32_t line;

	if (!object)
		return frame;
	if (object->code && !line_of(codes, object->code - 1, frame & BPFPROF_LASTI_MASK,
				     &codes->lines, LONG_TABLE_SHARE, LONG_TABLE_SAVED_NS, &line))
		return frame_made(object->code, line);
	object->raw = true;
	return frame;
}

/* May the code of that index + 1 have the line? */
static bool is_around(const struct codes *codes, uint32_t number, uint32_t name, uint32_t file,
		      uint32_t line)
{
	const struct code *code;

	if (!number || number > codes->nr_codes)
		return false;
	code = &codes->codes[number - 1];
	return code->in_use && code->name == name && code->file == file && code->first_line <= line;
}

/* Index + 1 of the code of that name that has the line; 0: there is none. */
static uint32_t code_around(const struct codes *codes, uint32_t name, uint32_t file, uint32_t line)
{
	uint32_t i, best = 0;

	for (i = 1; i <= codes->nr_codes; i++)
		if (is_around(codes, i, name, file, line) &&
		    (!best || codes->codes[i - 1].first_line > codes->codes[best - 1].first_line))
			best = i;
	return best;
}

uint64_t codes_frame_of(struct codes *codes, const char *name, const char *file, uint32_t line)
{
	struct object object = { .name = strtab_add(codes->strings, name),
				 .file = strtab_add(codes->strings, file),
				 .first_line = line,
				 .has_name = true };
	uint32_t *recent;

	recent = &codes->recent[(object.name * 31 + line) % CODES_RECENT];
	object.code = *recent;
	if (!is_around(codes, object.code, object.name, object.file, line))
		object.code = code_around(codes, object.name, object.file, line);
	if (!object.code) {
		object.table = calloc(1, 1);
		if (object.table)
			object_complete(codes, &object);
		free(object.table);
	}
	if (!object.code)
		return (uint64_t)BPFPROF_FRAME_PYTHON << BPFPROF_FRAME_SHIFT |
		       (BPFPROF_CODE_ID_RAW << BPFPROF_LASTI_BITS & BPFPROF_FRAME_MASK);
	*recent = object.code;
	return frame_made(object.code, line);
}

void codes_forget(struct codes *codes, bool (*is_alive)(void *arg, uint32_t python), void *arg)
{
	struct object *object;
	struct share *share;

	hash_table_each(&codes->objects, object) {
		if (is_alive(arg, object->python))
			continue;
		share = share_get(codes, object->python);
		if (!object->code && object->table) { /* no more pieces will come */
			codes->bytes -= object->have;
			share->bytes -= object->have;
			free(object->table);
			object->table = NULL;
			object->have = 0;
		}
		if (object->raw)
			continue;
		hash_table_remove(&codes->objects, object);
		codes->bytes -= sizeof(*object);
		share->bytes -= sizeof(*object);
	}
}

static void describe(const struct codes *codes, uint32_t name, uint32_t file, uint32_t first_line,
		     uint32_t line, struct code_info *ret)
{
	*ret = (struct code_info){ .name = strtab_get(codes->strings, name),
				   .file = strtab_get(codes->strings, file),
				   .first_line = first_line,
				   .line = line };
}

int codes_describe(struct codes *codes, uint64_t frame, struct code_info *ret)
{
	uint32_t lasti = frame & BPFPROF_LASTI_MASK, line = 0;
	uint64_t id = frame_id(frame);
	const struct code *code;
	struct object *object;

	if (id & BPFPROF_CODE_ID_RAW) {
		object = object_find(codes, id);
		if (!object || !object->has_name)
			return -ENOENT;
		if (object->code)
			line_of(codes, object->code - 1, lasti, &codes->end, UINT32_MAX, END_NS,
				&line);
		describe(codes, object->name, object->file, object->first_line, line_kept(line),
			 ret);
		return 0;
	}
	if (id >= codes->nr_codes || !codes->codes[id].in_use)
		return -ENOENT;
	code = &codes->codes[id];
	describe(codes, code->name, code->file, code->first_line, lasti, ret);
	return 0;
}
