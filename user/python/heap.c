// SPDX-License-Identifier: Apache-2.0
#include "python/heap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/utf8.h"
#include "python/text.h"

#define MIN_VA 4096ULL
#define MAX_VA (1ULL << 56)
#define MAX_STRING_CHARS (1U << 20)
#define MAX_HEADER 512 /* fields that are read of a type, an object or a dict end below it */
#define DIGIT_BITS 30
#define LARGEST_KEYS (1ULL << 32)

int python_heap_read(struct python_heap *heap, uint64_t va, void *dst, uint32_t len)
{
	if (va < MIN_VA || va >= MAX_VA || heap->reader->read(heap->reader, va, dst, len)) {
		heap->counts.nr_unreadable++;
		return -EFAULT;
	}
	return 0;
}

int python_heap_u64(struct python_heap *heap, uint64_t va, uint64_t *ret)
{
	return python_heap_read(heap, va, ret, sizeof(*ret));
}

int python_heap_bad(struct python_heap *heap)
{
	heap->counts.nr_bad++;
	return -EBADMSG;
}

int python_heap_init(struct python_heap *heap, struct unwind_reader *reader,
		     const struct bpfprof_python_layout *layout, uint64_t runtime)
{
	uint8_t offsets[PYTHON_HEAP_OFFSETS_MAX];
	bool described = python_heap_layout_is_described(layout->version);
	int err;

	memset(heap, 0, sizeof(*heap));
	heap->reader = reader;
	heap->layout = layout;
	heap->runtime = runtime;
	if (described && python_heap_read(heap, runtime, offsets, sizeof(offsets)))
		return -EFAULT;
	err = python_heap_layout_find(&heap->objects, layout->version, layout->free_threaded,
				      described ? offsets : NULL, sizeof(offsets));
	if (err == -EBADMSG)
		heap->counts.nr_bad++;
	heap->has_objects = !err;
	return err;
}

struct string {
	uint64_t data; /* address */
	uint64_t chars;
	uint32_t kind; /* bytes of each */
	bool ascii;
};

/* Parses the first ascii_data bytes of a str object. */
static void string_parse(const struct bpfprof_python_layout *l, uint64_t va, const uint8_t *header,
			 struct string *ret, bool *ret_compact)
{
	uint32_t state = bytes_u32(header + l->unicode_state) >> (l->unicode_kind_shift & 31);

	ret->chars = bytes_u64(header + l->unicode_length);
	ret->kind = state & 7;
	ret->ascii = state & 16;
	ret->data = va + (ret->ascii ? l->ascii_data : l->compact_data);
	*ret_compact = state & 8;
}

/* Do these fields lie in the shortest form of a str object? */
static bool string_layout_fits(const struct bpfprof_python_layout *l)
{
	return l->ascii_data <= 128 && l->unicode_state + 4 <= l->ascii_data &&
	       l->unicode_length + 8 <= l->ascii_data;
}

static int string_find(struct python_heap *heap, uint64_t va, struct string *ret)
{
	const struct bpfprof_python_layout *l = heap->layout;
	uint8_t header[128];
	bool compact;
	int err;

	if (!string_layout_fits(l))
		return python_heap_bad(heap);
	err = python_heap_read(heap, va, header, l->ascii_data);
	if (err)
		return err;
	string_parse(l, va, header, ret, &compact);
	if ((ret->kind != 1 && ret->kind != 2 && ret->kind != 4) || ret->chars >> 40)
		return python_heap_bad(heap);
	/* Objects of classes derived from str have their characters elsewhere. */
	return compact ? 0 : python_heap_u64(heap, va + l->compact_data, &ret->data);
}

int python_heap_string(struct python_heap *heap, uint64_t va, size_t max_chars, char **ret,
		       size_t *ret_len, bool *ret_cut)
{
	struct string string;
	size_t nr, bytes, len, cap;
	uint8_t *data;
	char *text;
	int err;

	err = string_find(heap, va, &string);
	if (err)
		return err;
	if (max_chars > MAX_STRING_CHARS)
		max_chars = MAX_STRING_CHARS;
	nr = string.chars < max_chars ? string.chars : max_chars;
	bytes = nr * string.kind;
	cap = nr * 4 + 8; /* python_text() needs room for its mark */
	data = malloc(bytes + 1);
	text = malloc(cap);
	err = data && text ? 0 : -ENOMEM;
	if (!err && bytes)
		err = python_heap_read(heap, string.data, data, (uint32_t)bytes);
	if (!err) {
		len = python_text(text, cap, data, bytes, bytes, string.kind);
		*ret = text;
		text = NULL;
		if (ret_len)
			*ret_len = len;
		if (ret_cut)
			*ret_cut = string.chars > nr;
	}
	free(data);
	free(text);
	return err;
}

static bool string_is(struct python_heap *heap, uint64_t va, const char *text)
{
	const struct bpfprof_python_layout *l = heap->layout;
	size_t len = strlen(text);
	uint8_t object[128 + 64];
	struct string string;
	bool compact;

	if (len > 64 || !string_layout_fits(l) || va < MIN_VA || va >= MAX_VA)
		return false;
	/* A shorter string at the end of mapped memory cannot be read that far, and is not equal. */
	if (heap->reader->read(heap->reader, va, object, l->ascii_data + (uint32_t)len))
		return false;
	string_parse(l, va, object, &string, &compact);
	return compact && string.ascii && string.kind == 1 && string.chars == len &&
	       !memcmp(object + l->ascii_data, text, len);
}

/* Replaces invalid UTF-8; drops a cut character at the end. */
static void utf8_check(char *text, size_t len)
{
	size_t at = 0, n;
	uint32_t c;

	while (at < len) {
		n = utf8_decode(text + at, len - at, &c);
		if (!n && len == PYTHON_MAX_TYPE_NAME && len - at < 4 && text[at] < 0)
			break;
		if (!n) {
			text[at] = '?';
			n = 1;
		}
		at += n;
	}
	text[at] = '\0';
}

/* A C string, read in steps that do not reach beyond a mapped page. */
static int c_string(struct python_heap *heap, uint64_t va, char text[PYTHON_MAX_TYPE_NAME + 1])
{
	uint32_t len = 0, step;
	int err;

	while (len < PYTHON_MAX_TYPE_NAME) {
		step = 64 - (uint32_t)((va + len) % 64);
		if (step > PYTHON_MAX_TYPE_NAME - len)
			step = PYTHON_MAX_TYPE_NAME - len;
		err = python_heap_read(heap, va + len, text + len, step);
		if (err)
			return err;
		if (memchr(text + len, '\0', step)) {
			len += (uint32_t)strnlen(text + len, step);
			break;
		}
		len += step;
	}
	utf8_check(text, len);
	return 0;
}

static int type_read(struct python_heap *heap, uint64_t va, struct python_type *ret)
{
	const struct python_heap_layout *l = &heap->objects;
	uint8_t buf[MAX_HEADER];
	int err;

	err = python_heap_read(heap, va + l->type_name, buf + l->type_name,
			       l->type_dict + 8 - l->type_name);
	if (err)
		return err;
	ret->base = bytes_u64(buf + l->type_base);
	ret->flags = bytes_u64(buf + l->type_flags);
	ret->basic_bytes = bytes_u64(buf + l->type_basic);
	ret->dict_offset = (int64_t)bytes_u64(buf + l->type_dict);
	ret->members = bytes_u64(buf + l->type_members);
	ret->awaited = UINT64_MAX;
	err = c_string(heap, bytes_u64(buf + l->type_name), ret->name);
	if (!err)
		ret->va = va;
	return err;
}

int python_heap_type_at(struct python_heap *heap, uint64_t va, const struct python_type **ret)
{
	struct python_type *slot = &heap->types[(va >> 4 ^ va >> 12) % PYTHON_TYPE_SLOTS];
	int err;

	if (va & 7 || !va)
		return python_heap_bad(heap);
	if (slot->va != va) {
		slot->va = 0;
		err = type_read(heap, va, slot);
		if (err)
			return err;
	}
	*ret = slot;
	return 0;
}

int python_heap_type(struct python_heap *heap, uint64_t va, const struct python_type **ret)
{
	uint64_t type;
	int err;

	if (!heap->has_objects)
		return -ENOTSUP;
	err = python_heap_u64(heap, va + heap->objects.object_type, &type);
	return err ? err : python_heap_type_at(heap, type, ret);
}

/* Is this the field with the awaited object: one that Python code can only read? */
static bool is_awaited(const struct python_member *member, const char *name)
{
	static const char *const names[] = { "cr_await", "gi_yieldfrom", "ag_await" };

	if (member->type != PYTHON_MEMBER_OBJECT || !(member->flags & PYTHON_MEMBER_READONLY))
		return false;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

static uint64_t awaited_find(struct python_heap *heap, const struct python_type *type)
{
	char name[PYTHON_MAX_TYPE_NAME + 1];
	struct python_member member;
	uint64_t at = type->members;
	uint32_t i;

	for (i = 0; at && i < PYTHON_MAX_MEMBERS; i++, at += sizeof(member)) {
		if (python_heap_read(heap, at, &member, sizeof(member)) || !member.name ||
		    c_string(heap, member.name, name))
			return 0;
		if (!is_awaited(&member, name))
			continue;
		if (member.offset >= heap->objects.object_size && !(member.offset & 7) &&
		    member.offset < type->basic_bytes)
			return member.offset;
		heap->counts.nr_bad++;
		return 0;
	}
	heap->counts.nr_cut += at != 0;
	return 0;
}

uint64_t python_heap_awaited(struct python_heap *heap, const struct python_type *type)
{
	struct python_type *slot = &heap->types[type - heap->types];

	if (slot->awaited == UINT64_MAX)
		slot->awaited = awaited_find(heap, slot);
	return slot->awaited;
}

int python_heap_int_parts(struct python_heap *heap, uint64_t va, bool *ret_negative,
			  uint64_t *ret_digits)
{
	const struct python_heap_layout *l = &heap->objects;
	uint64_t word;
	int err;

	err = python_heap_u64(heap, va + (l->int_tag ? l->int_tag : l->object_size), &word);
	if (err)
		return err;
	if (l->int_tag) {
		if ((word & 3) == 3)
			return python_heap_bad(heap);
		*ret_negative = (word & 3) == 2;
		*ret_digits = (word & 3) == 1 ? 0 : word >> 3;
	} else {
		*ret_negative = word >> 63;
		*ret_digits = *ret_negative ? -word : word;
	}
	return *ret_digits >> 40 ? python_heap_bad(heap) : 0;
}

int python_heap_int(struct python_heap *heap, uint64_t va, int64_t *ret)
{
	uint32_t digits[3] = { 0 };
	uint64_t nr, value = 0;
	bool negative;
	int err;

	err = python_heap_int_parts(heap, va, &negative, &nr);
	if (err)
		return err;
	if (nr > 3)
		return -ERANGE;
	if (nr)
		err = python_heap_read(heap, va + heap->objects.int_digits, digits,
				       (uint32_t)nr * 4);
	if (err)
		return err;
	if (digits[0] >> DIGIT_BITS || digits[1] >> DIGIT_BITS)
		return python_heap_bad(heap);
	if (digits[2] >> (63 - 2 * DIGIT_BITS))
		return -ERANGE;
	for (int i = 3; i--;)
		value = value << DIGIT_BITS | digits[i];
	*ret = negative ? -(int64_t)value : (int64_t)value;
	return 0;
}

/* Finds the entries of a table of keys. */
static int keys_parse(struct python_dict_iter *iter, uint64_t keys)
{
	const struct python_heap_layout *l = &iter->heap->objects;
	uint64_t size, nr, index_bytes;
	uint8_t buf[64];
	int err;

	err = python_heap_read(iter->heap, keys, buf, l->keys_indices);
	if (err)
		return err;
	nr = bytes_u64(buf + l->keys_nr);
	iter->entry_words = 3;
	if (l->keys_size) {
		size = bytes_u64(buf + l->keys_size);
		if (size > LARGEST_KEYS)
			return python_heap_bad(iter->heap);
		index_bytes = size * (size <= 0xff ? 1 : size <= 0xffff ? 2 : 4);
	} else {
		if (buf[l->keys_index] > 40 || buf[l->keys_kind] > 2)
			return python_heap_bad(iter->heap);
		index_bytes = 1ULL << buf[l->keys_index];
		if (buf[l->keys_kind])
			iter->entry_words = 2;
	}
	if (nr > LARGEST_KEYS)
		return python_heap_bad(iter->heap);
	if (nr > PYTHON_MAX_DICT) {
		iter->heap->counts.nr_cut++;
		nr = PYTHON_MAX_DICT;
	}
	iter->entries = keys + l->keys_indices + index_bytes;
	iter->nr = (uint32_t)nr;
	return 0;
}

static void iter_start(struct python_dict_iter *iter, struct python_heap *heap)
{
	iter->heap = heap;
	iter->values = 0;
	iter->nr = iter->at = iter->first = iter->nr_loaded = 0;
}

int python_dict_init(struct python_dict_iter *iter, struct python_heap *heap, uint64_t va)
{
	const struct python_heap_layout *l = &heap->objects;
	uint64_t keys, values;
	int err;

	iter_start(iter, heap);
	if (!heap->has_objects)
		return -ENOTSUP;
	err = python_heap_u64(heap, va + l->dict_keys, &keys);
	if (!err)
		err = python_heap_u64(heap, va + l->dict_values, &values);
	if (!err)
		err = keys_parse(iter, keys);
	if (!err && values)
		iter->values = values + l->values_first;
	return err;
}

/* Values without a dict: the type has their names. */
static int values_init(struct python_dict_iter *iter, const struct python_type *type,
		       uint64_t values)
{
	uint64_t keys;
	int err;

	err = python_heap_u64(iter->heap, type->va + iter->heap->objects.type_keys, &keys);
	if (!err)
		err = keys_parse(iter, keys);
	if (!err)
		iter->values = values + iter->heap->objects.values_first;
	return err;
}

static int inline_init(struct python_dict_iter *iter, uint64_t va, const struct python_type *type)
{
	const struct python_heap_layout *l = &iter->heap->objects;
	uint8_t valid;
	int err;

	if (!(type->flags & l->flag_inline))
		return -ENODATA;
	if (type->basic_bytes > MAX_HEADER)
		return python_heap_bad(iter->heap);
	va += type->basic_bytes;
	err = python_heap_read(iter->heap, va + l->values_valid, &valid, 1);
	if (err)
		return err;
	return valid ? values_init(iter, type, va) : -ENODATA;
}

static int managed_init(struct python_dict_iter *iter, uint64_t va, const struct python_type *type)
{
	const struct python_heap_layout *l = &iter->heap->objects;
	uint64_t dict, values;
	int err;

	err = python_heap_u64(iter->heap, va - l->instance_dict, &dict);
	if (err)
		return err;
	if (l->instance == PYTHON_INSTANCE_TAGGED && dict & 1)
		return values_init(iter, type, dict + 1);
	if (dict)
		return python_dict_init(iter, iter->heap, dict);
	if (l->instance == PYTHON_INSTANCE_INLINE)
		return inline_init(iter, va, type);
	if (l->instance != PYTHON_INSTANCE_VALUES)
		return -ENODATA;
	err = python_heap_u64(iter->heap, va - l->instance_dict - 8, &values);
	if (err)
		return err;
	return values ? values_init(iter, type, values) : -ENODATA;
}

int python_instance_init(struct python_dict_iter *iter, struct python_heap *heap, uint64_t va,
			 const struct python_type *type)
{
	uint64_t dict;
	int err;

	iter_start(iter, heap);
	if (!heap->has_objects)
		return -ENOTSUP;
	if (heap->objects.flag_managed && type->flags & heap->objects.flag_managed)
		return managed_init(iter, va, type);
	if (type->dict_offset <= 0 || type->dict_offset > MAX_HEADER)
		return -ENODATA;
	err = python_heap_u64(heap, va + (uint64_t)type->dict_offset, &dict);
	if (err)
		return err;
	return dict ? python_dict_init(iter, heap, dict) : -ENODATA;
}

/* Loads entries from the next one on, as many as there is room for. */
static int entries_load(struct python_dict_iter *iter)
{
	uint32_t nr = sizeof(iter->loaded) / 8 / iter->entry_words;
	uint32_t bytes = iter->entry_words * 8;

	if (nr > iter->nr - iter->at)
		nr = iter->nr - iter->at;
	iter->first = iter->at;
	iter->nr_loaded = nr;
	return python_heap_read(iter->heap, iter->entries + (uint64_t)iter->at * bytes,
				iter->loaded, nr * bytes);
}

bool python_dict_next(struct python_dict_iter *iter, uint64_t *ret_key, uint64_t *ret_value)
{
	const uint64_t *entry;
	uint64_t key, value;
	uint32_t i;

	while (iter->at < iter->nr) {
		if (iter->at - iter->first >= iter->nr_loaded && entries_load(iter))
			break;
		i = iter->at++;
		entry = iter->loaded + (size_t)(i - iter->first) * iter->entry_words;
		key = entry[iter->entry_words - 2];
		value = entry[iter->entry_words - 1];
		if (key && iter->values &&
		    python_heap_u64(iter->heap, iter->values + (uint64_t)i * 8, &value))
			break;
		if (!key || !value)
			continue;
		*ret_key = key;
		*ret_value = value;
		return true;
	}
	iter->at = iter->nr;
	return false;
}

/* The strings of a dict's keys lie anywhere: all that are loaded are read at once. */
static void keys_want(struct python_dict_iter *iter, const char *key)
{
	struct unwind_reader *reader = iter->heap->reader;
	uint64_t bytes = iter->heap->layout->ascii_data + strlen(key);
	uint32_t i;

	if (!reader->want)
		return;
	for (i = 0; i < iter->nr_loaded; i++)
		reader->want(reader, iter->loaded[(i + 1) * iter->entry_words - 2], bytes);
}

uint64_t python_dict_find(struct python_dict_iter *iter, const char *key, uint32_t limit)
{
	uint32_t wanted = UINT32_MAX; /* the entry from which on keys are wanted */
	uint64_t at, value;

	for (; limit && python_dict_next(iter, &at, &value); limit--) {
		if (iter->first != wanted)
			keys_want(iter, key);
		wanted = iter->first;
		if (string_is(iter->heap, at, key))
			return value;
	}
	return 0;
}
