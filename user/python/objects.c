// SPDX-License-Identifier: Apache-2.0
#include "python/objects.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "python/heap.h"

#define MAX_CHARS 65536
#define MAX_OBJECTS 4096 /* read for one value, which may contain itself */
#define MAX_DIGITS 512 /* of 30 bits */
#define MAX_DEPTH 512 /* objects in each other, each of which takes room on our stack */
#define LEAST_CHARS 5 /* "..." fills less room than this */

struct repr {
	struct python_heap *heap;
	struct buf *out;
	uint32_t *budget;
	uint32_t depth; /* objects around the next one */
};

static int value_add(struct repr *r, uint64_t va, size_t max);

/* Divides by 10^9 and returns the rest. */
static uint32_t digits_divide(uint32_t *digits, size_t nr)
{
	uint64_t rest = 0;

	while (nr--) {
		rest = rest << 30 | digits[nr];
		digits[nr] = (uint32_t)(rest / 1000000000);
		rest %= 1000000000;
	}
	return (uint32_t)rest;
}

/* An int of more than 63 bits. */
static int large_int_add(struct repr *r, uint64_t va, size_t max)
{
	uint32_t digits[MAX_DIGITS], parts[MAX_DIGITS + 16];
	size_t nr_parts = 0, nr;
	bool negative;
	uint64_t left;
	int err;

	err = python_heap_int_parts(r->heap, va, &negative, &left);
	if (err)
		return err;
	if (left > MAX_DIGITS || left * 9 > max) {
		buf_add_str(r->out, negative ? "-bigint" : "+bigint");
		return 0;
	}
	nr = (size_t)left;
	err = python_heap_read(r->heap, va + r->heap->objects.int_digits, digits, (uint32_t)nr * 4);
	if (err)
		return err;
	for (size_t i = 0; i < nr; i++)
		digits[i] &= (1U << 30) - 1;
	while (nr && nr_parts < sizeof(parts) / sizeof(*parts)) {
		parts[nr_parts++] = digits_divide(digits, nr);
		while (nr && !digits[nr - 1])
			nr--;
	}
	buf_printf(r->out, "%s%u", negative ? "-" : "", nr_parts ? parts[nr_parts - 1] : 0);
	while (nr_parts > 1)
		buf_printf(r->out, "%09u", parts[--nr_parts - 1]);
	return 0;
}

static int int_add(struct repr *r, uint64_t va, const struct python_type *type, size_t max)
{
	bool is_bool = !strcmp(type->name, "bool");
	int64_t value;
	int err;

	err = python_heap_int(r->heap, va, &value);
	if (err == -ERANGE)
		return large_int_add(r, va, max);
	if (err)
		return err;
	if (is_bool)
		buf_add_str(r->out, value > 0 ? "True" : "False");
	else
		buf_printf(r->out, "%" PRId64, value);
	return 0;
}

/* The fewest digits that identify the value, without an exponent. */
static void float_add(struct buf *out, double value, bool is_single)
{
	char text[64], digits[32];
	int exponent, nr = 0, i;

	if (isnan(value) || isinf(value)) {
		buf_add_str(out, isnan(value) ? "NaN" : value < 0 ? "-inf" : "inf");
		return;
	}
	for (i = 0; i < 17; i++) {
		snprintf(text, sizeof(text), "%.*e", i, value);
		if (is_single ? strtof(text, NULL) == (float)value : strtod(text, NULL) == value)
			break;
	}
	for (i = 0; text[i] && text[i] != 'e'; i++)
		if (text[i] >= '0' && text[i] <= '9')
			digits[nr++] = text[i];
	exponent = (int)strtod(text + i + 1, NULL);
	while (nr > 1 && digits[nr - 1] == '0')
		nr--;
	if (text[0] == '-')
		buf_add_char(out, '-');
	if (exponent < 0)
		buf_add_str(out, "0.");
	for (i = exponent; i < -1; i++)
		buf_add_char(out, '0');
	for (i = 0; i < nr; i++) {
		if (i && i == exponent + 1)
			buf_add_char(out, '.');
		buf_add_char(out, digits[i]);
	}
	for (i = nr; i <= exponent; i++)
		buf_add_char(out, '0');
}

static size_t char_length(const char *text)
{
	size_t len = 1;

	while (utf8_continues(text[len]))
		len++;
	return len;
}

static int str_add(struct repr *r, uint64_t va, size_t max)
{
	size_t room = max - LEAST_CHARS, nr = 0, len;
	char *text, *at;
	bool cut;
	int err;

	err = python_heap_string(r->heap, va, room + 1, &text, NULL, &cut);
	if (err)
		return err;
	buf_add_char(r->out, '"');
	for (at = text; *at && nr < room; at += len) {
		len = char_length(at);
		if (*at != '\'' && *at != '\n') {
			buf_add(r->out, at, len);
			nr++;
			continue;
		}
		/* py-spy writes these in two characters. */
		buf_add_char(r->out, '\\');
		if (nr + 1 < room)
			buf_add_char(r->out, *at == '\n' ? 'n' : '"');
		else
			cut = true;
		nr += 2;
	}
	buf_add_str(r->out, cut || *at ? "...\"" : "\"");
	free(text);
	return 0;
}

static void byte_text(uint8_t byte, char text[8])
{
	const char *names = "\t\n\r'\\", *letters = "tnr'\\";
	const char *named = byte ? strchr(names, byte) : NULL;

	if (named)
		snprintf(text, 8, "\\%c", letters[named - names]);
	else if (byte >= 32 && byte < 127)
		snprintf(text, 8, "%c", byte);
	else
		snprintf(text, 8, "\\x%02x", byte);
}

static int bytes_add(struct repr *r, uint64_t va, size_t max)
{
	const struct bpfprof_python_layout *l = r->heap->layout;
	size_t room = max - LEAST_CHARS, nr, used = 0;
	char text[8];
	uint64_t len;
	uint8_t *data;
	int err;

	err = python_heap_u64(r->heap, va + l->bytes_size, &len);
	if (err)
		return err;
	nr = len < room ? (size_t)len : room;
	data = malloc(nr + 1);
	if (!data)
		return -ENOMEM;
	if (nr)
		err = python_heap_read(r->heap, va + l->bytes_data, data, (uint32_t)nr);
	if (!err) {
		buf_add_str(r->out, "b'");
		for (size_t i = 0; i < nr; i++) {
			byte_text(data[i], text);
			if (used + strlen(text) > room) {
				len = nr + 1; /* there is more */
				break;
			}
			used += strlen(text);
			buf_add_str(r->out, text);
		}
		buf_add_str(r->out, len > nr ? "...'" : "'");
	}
	free(data);
	return err;
}

/*
 * An element that begins at `before` was added: takes its length from the room for the others. False:
 * too little is left, and "..." stands in its place.
 */
static bool room_take(struct repr *r, size_t before, size_t *left)
{
	size_t len = r->out->len - before + 2; /* as py-spy counts */

	*left = len < *left ? *left - len : 0;
	if (*left > LEAST_CHARS)
		return true;
	r->out->len = before;
	buf_add_str(r->out, "...");
	return false;
}

static int items_add(struct repr *r, uint64_t items, uint64_t nr, size_t max, const char *ends)
{
	size_t left = max - 2, before;
	uint64_t value;
	int err;

	buf_add_char(r->out, ends[0]);
	for (uint64_t i = 0; i < nr; i++) {
		if (i)
			buf_add_str(r->out, ", ");
		before = r->out->len;
		err = python_heap_u64(r->heap, items + i * 8, &value);
		if (!err)
			err = value_add(r, value, left);
		if (err)
			return err;
		if (!room_take(r, before, &left))
			break;
	}
	buf_add_char(r->out, ends[1]);
	return 0;
}

static int sequence_add(struct repr *r, uint64_t va, bool is_list, size_t max)
{
	const struct python_heap_layout *l = &r->heap->objects;
	uint64_t nr, items = va + l->tuple_items;
	int err;

	err = python_heap_u64(r->heap, va + (is_list ? l->list_size : l->tuple_size), &nr);
	if (!err && is_list && nr)
		err = python_heap_u64(r->heap, va + l->list_items, &items);
	if (err)
		return err;
	return items_add(r, items, nr, max, is_list ? "[]" : "()");
}

static int dict_add(struct repr *r, uint64_t va, size_t max)
{
	size_t left = max - 2, before, nr = 0;
	struct python_dict_iter iter;
	uint64_t key, value;
	int err;

	err = python_dict_init(&iter, r->heap, va);
	if (err)
		return err;
	buf_add_char(r->out, '{');
	while (python_dict_next(&iter, &key, &value)) {
		if (nr++)
			buf_add_str(r->out, ", ");
		before = r->out->len;
		err = value_add(r, key, left);
		if (err)
			return err;
		buf_add_str(r->out, ": ");
		err = value_add(r, value, left);
		if (err)
			return err;
		if (!room_take(r, before, &left))
			break;
	}
	buf_add_char(r->out, '}');
	return 0;
}

enum scalar_kind {
	SCALAR_BOOL,
	SCALAR_INT,
	SCALAR_UINT,
	SCALAR_FLOAT,
};

static const struct scalar {
	const char *name;
	enum scalar_kind kind;
	uint32_t bytes;
} scalars[] = {
	{ "numpy.bool", SCALAR_BOOL, 1 },     { "numpy.bool_", SCALAR_BOOL, 1 },
	{ "numpy.int8", SCALAR_INT, 1 },      { "numpy.int16", SCALAR_INT, 2 },
	{ "numpy.int32", SCALAR_INT, 4 },     { "numpy.int64", SCALAR_INT, 8 },
	{ "numpy.uint8", SCALAR_UINT, 1 },    { "numpy.uint16", SCALAR_UINT, 2 },
	{ "numpy.uint32", SCALAR_UINT, 4 },   { "numpy.uint64", SCALAR_UINT, 8 },
	{ "numpy.float32", SCALAR_FLOAT, 4 }, { "numpy.float64", SCALAR_FLOAT, 8 },
};

static const struct scalar *scalar_find(const char *name)
{
	for (size_t i = 0; i < sizeof(scalars) / sizeof(*scalars); i++)
		if (!strcmp(scalars[i].name, name))
			return &scalars[i];
	return NULL;
}

/* A numpy scalar: its value lies right behind the header of the object. */
static int scalar_add(struct repr *r, uint64_t va, const struct scalar *scalar)
{
	uint64_t value = 0;
	double as_double;
	float as_float;
	int err, shift = 64 - 8 * (int)scalar->bytes;

	err = python_heap_read(r->heap, va + r->heap->objects.object_size, &value, scalar->bytes);
	if (err)
		return err;
	switch (scalar->kind) {
	case SCALAR_BOOL:
		buf_add_str(r->out, value ? "true" : "false");
		break;
	case SCALAR_INT:
		buf_printf(r->out, "%" PRId64, (int64_t)(value << shift) >> shift);
		break;
	case SCALAR_UINT:
		buf_printf(r->out, "%" PRIu64, value);
		break;
	case SCALAR_FLOAT:
		memcpy(&as_double, &value, sizeof(as_double));
		memcpy(&as_float, &value, sizeof(as_float));
		float_add(r->out, scalar->bytes == 4 ? (double)as_float : as_double,
			  scalar->bytes == 4);
		break;
	}
	return 0;
}

/* Values that are known only by the name of their type. */
static int named_add(struct repr *r, uint64_t va, const struct python_type *type)
{
	const struct scalar *scalar;
	double value;
	int err;

	if (!strcmp(type->name, "float")) {
		err = python_heap_read(r->heap, va + r->heap->objects.float_value, &value,
				       sizeof(value));
		if (!err)
			float_add(r->out, value, false);
		return err;
	}
	scalar = scalar_find(type->name);
	if (scalar)
		return scalar_add(r, va, scalar);
	if (!strcmp(type->name, "NoneType"))
		buf_add_str(r->out, "None");
	else
		buf_printf(r->out, "<%s at 0x%" PRIx64 ">", type->name, va);
	return 0;
}

static int object_add(struct repr *r, uint64_t va, size_t max)
{
	const struct python_type *type;
	int err;

	err = python_heap_type(r->heap, va, &type);
	if (err)
		return err;
	if (type->flags & PYTHON_FLAG_INT)
		return int_add(r, va, type, max);
	if (type->flags & PYTHON_FLAG_STR)
		return str_add(r, va, max);
	if (type->flags & PYTHON_FLAG_BYTES)
		return bytes_add(r, va, max);
	if (type->flags & PYTHON_FLAG_DICT)
		return dict_add(r, va, max);
	if (type->flags & (PYTHON_FLAG_LIST | PYTHON_FLAG_TUPLE))
		return sequence_add(r, va, type->flags & PYTHON_FLAG_LIST, max);
	return named_add(r, va, type);
}

static int value_add(struct repr *r, uint64_t va, size_t max)
{
	int err;

	if (max <= LEAST_CHARS || !*r->budget || r->depth == MAX_DEPTH) {
		buf_add_str(r->out, "...");
		return 0;
	}
	--*r->budget;
	r->depth++;
	err = object_add(r, va, max);
	r->depth--;
	return err;
}

int python_repr_add(struct python_heap *heap, uint64_t va, size_t max_chars, uint32_t *budget,
		    struct buf *buf)
{
	struct repr r = { .heap = heap, .out = buf, .budget = budget };
	size_t before = buf->len;
	int err;

	if (!heap->has_objects)
		return -ENOTSUP;
	err = value_add(&r, va, max_chars < MAX_CHARS ? max_chars : MAX_CHARS);
	if (!err)
		return 0;
	buf->len = before;
	if (buf->data)
		buf->data[before] = '\0';
	return err;
}

int python_repr(struct python_heap *heap, uint64_t va, size_t max_chars, char **ret)
{
	uint32_t budget = MAX_OBJECTS;
	struct buf buf;
	int err;

	buf_init(&buf, (size_t)MAX_CHARS * 8);
	err = python_repr_add(heap, va, max_chars, &budget, &buf);
	if (err && err != -ENOMEM)
		buf_add_str(&buf, "?");
	err = err == -ENOMEM ? err : buf_error(&buf);
	if (!err)
		*ret = buf_take(&buf);
	buf_fini(&buf);
	return err;
}
