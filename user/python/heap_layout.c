// SPDX-License-Identifier: Apache-2.0
#include "python/heap_layout.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/bytes.h"
#include "python/debug_offsets.h"

#define PYTHON_HEAP_LAYOUTS
#define PYTHON_HEAP_PLACES
#include "python/layouts.h"

#define NR_LAYOUTS (sizeof(python_heap_layouts) / sizeof(python_heap_layouts[0]))
#define NR_PLACES (sizeof(python_heap_places) / sizeof(python_heap_places[0]))
#define NR_FIELDS (sizeof(struct python_heap_layout) / sizeof(uint32_t))
#define FIRST_FIELD (offsetof(struct python_heap_layout, interpreter_modules) / sizeof(uint32_t))

#define MAX_STATE_BYTES (1U << 20)
#define MAX_OBJECT_BYTES 2048 /* a type object has 900 until now */
#define MAX_HEADER_BYTES 512

static const struct python_heap_layout *row_find(const struct python_heap_layout *rows, size_t nr,
						 uint16_t version, uint16_t free_threaded)
{
	for (size_t i = 0; i < nr; i++)
		if (rows[i].version == version && rows[i].free_threaded == free_threaded)
			return &rows[i];
	return NULL;
}

int python_heap_layout_is_described(uint16_t version)
{
	return row_find(python_heap_places, NR_PLACES, version, 0) != NULL;
}

/* Replaces the offsets of the table by those that the target has. */
static int offsets_apply(struct python_heap_layout *layout, const struct python_heap_layout *places,
			 const uint8_t *offsets, size_t len)
{
	uint32_t fields[NR_FIELDS], at[NR_FIELDS], object_type = layout->object_type;
	uint64_t value;

	if (len < PYTHON_DEBUG_FREE_THREADED_AT + 8 ||
	    python_debug_offsets_version(offsets) >> 16 != layout->version ||
	    bytes_u64(offsets + PYTHON_DEBUG_FREE_THREADED_AT) != layout->free_threaded)
		return -EBADMSG;
	memcpy(fields, layout, sizeof(fields));
	memcpy(at, places, sizeof(at));
	for (size_t i = FIRST_FIELD; i < NR_FIELDS; i++) {
		if (!at[i])
			continue;
		if (at[i] > len - 8)
			return -EBADMSG;
		value = bytes_u64(offsets + at[i]);
		if (value >= MAX_STATE_BYTES)
			return -EBADMSG;
		fields[i] = (uint32_t)value;
	}
	memcpy(layout, fields, sizeof(*layout));
	/* With --with-trace-refs all objects are longer: the other offsets of the table are wrong. */
	return layout->object_type == object_type ? 0 : -ENOTSUP;
}

int python_heap_layout_find(struct python_heap_layout *ret, uint16_t version,
			    uint16_t free_threaded, const uint8_t *offsets, size_t len)
{
	const struct python_heap_layout *row, *places;
	struct python_heap_layout layout;
	int err;

	row = row_find(python_heap_layouts, NR_LAYOUTS, version, free_threaded);
	if (!row)
		return -ENOTSUP;
	layout = *row;
	places = row_find(python_heap_places, NR_PLACES, version, free_threaded);
	if (places) {
		err = offsets ? offsets_apply(&layout, places, offsets, len) : -EBADMSG;
		if (err)
			return err;
	}
	err = python_heap_layout_check(&layout);
	if (err)
		return err;
	*ret = layout;
	return 0;
}

static bool fits(uint32_t off, uint32_t bytes, uint32_t room)
{
	return off <= room - bytes && !(off % bytes);
}

/* The field exists and is in its place. */
static bool has(uint32_t off, uint32_t bytes, uint32_t room)
{
	return off && fits(off, bytes, room);
}

static bool code_fits(const struct python_heap_layout *l)
{
	if (!has(l->interpreter_modules, 8, MAX_STATE_BYTES) ||
	    !fits(l->tstate_native, 8, MAX_OBJECT_BYTES) ||
	    !has(l->frame_locals, 8, MAX_HEADER_BYTES) ||
	    !has(l->code_argcount, 4, MAX_HEADER_BYTES) ||
	    !has(l->code_kwonly, 4, MAX_HEADER_BYTES) || !has(l->code_nr, 4, MAX_HEADER_BYTES) ||
	    !has(l->code_names, 8, MAX_HEADER_BYTES))
		return false;
	if (l->code_kinds)
		return fits(l->code_kinds, 8, MAX_HEADER_BYTES);
	return has(l->code_cellvars, 8, MAX_HEADER_BYTES) &&
	       has(l->code_freevars, 8, MAX_HEADER_BYTES);
}

static bool values_fit(const struct python_heap_layout *l)
{
	return has(l->object_type, 8, MAX_HEADER_BYTES) &&
	       has(l->object_size, 8, MAX_HEADER_BYTES) && fits(l->int_tag, 8, MAX_HEADER_BYTES) &&
	       has(l->int_digits, 4, MAX_HEADER_BYTES) &&
	       has(l->float_value, 8, MAX_HEADER_BYTES) && has(l->list_size, 8, MAX_HEADER_BYTES) &&
	       has(l->list_items, 8, MAX_HEADER_BYTES) && has(l->tuple_size, 8, MAX_HEADER_BYTES) &&
	       has(l->tuple_items, 8, MAX_HEADER_BYTES) && has(l->cell_value, 8, MAX_HEADER_BYTES);
}

static bool types_fit(const struct python_heap_layout *l)
{
	return has(l->type_name, 8, MAX_HEADER_BYTES) && has(l->type_basic, 8, MAX_HEADER_BYTES) &&
	       has(l->type_flags, 8, MAX_HEADER_BYTES) && has(l->type_dict, 8, MAX_HEADER_BYTES) &&
	       /* One read gets them all. */
	       l->type_name < l->type_basic && l->type_basic < l->type_dict &&
	       l->type_name < l->type_flags && l->type_flags < l->type_dict &&
	       has(l->type_base, 8, MAX_HEADER_BYTES) && l->type_name < l->type_base &&
	       l->type_base < l->type_dict && has(l->type_members, 8, MAX_HEADER_BYTES) &&
	       l->type_name < l->type_members && l->type_members < l->type_dict &&
	       fits(l->type_keys, 8, MAX_OBJECT_BYTES);
}

static bool dicts_fit(const struct python_heap_layout *l)
{
	if (!has(l->dict_keys, 8, MAX_HEADER_BYTES) || !has(l->dict_values, 8, MAX_HEADER_BYTES) ||
	    !has(l->keys_indices, 8, 64) || !has(l->keys_nr, 8, l->keys_indices) ||
	    !fits(l->values_first, 8, 64))
		return false;
	if (l->instance == PYTHON_INSTANCE_DICT)
		return has(l->keys_size, 8, l->keys_indices);
	return l->instance && l->instance <= PYTHON_INSTANCE_INLINE && l->type_keys &&
	       has(l->keys_index, 1, l->keys_indices) && has(l->keys_kind, 1, l->keys_indices) &&
	       has(l->instance_dict, 8, 64) && l->flag_managed &&
	       (l->instance != PYTHON_INSTANCE_INLINE ||
		(l->flag_inline && l->values_valid < l->values_first));
}

static bool stacks_fit(const struct python_heap_layout *l)
{
	if (!has(l->frame_stack, l->stack_form == PYTHON_STACK_INDEX ? 4 : 8, MAX_HEADER_BYTES) ||
	    !l->stack_form || l->stack_form > PYTHON_STACK_POINTER || !l->yield_from)
		return false;
	if (l->stack_form <= PYTHON_STACK_DEPTH)
		return has(l->frame_stack_base, 8, MAX_HEADER_BYTES) &&
		       has(l->code_code, 8, MAX_HEADER_BYTES);
	return !l->gen_state || (l->gen_state >= l->object_size && l->gen_state < l->gen_frame);
}

static bool awaits_fit(const struct python_heap_layout *l)
{
	return has(l->tstate_dict + l->tstate_loop, 8, MAX_OBJECT_BYTES) &&
	       has(l->function_closure, 8, MAX_HEADER_BYTES) &&
	       has(l->set_mask, 8, MAX_HEADER_BYTES) && has(l->set_table, 8, MAX_HEADER_BYTES) &&
	       has(l->gen_frame, 8, MAX_HEADER_BYTES) && fits(l->task_coro, 8, MAX_HEADER_BYTES) &&
	       fits(l->future_state, 4, MAX_HEADER_BYTES) && stacks_fit(l);
}

int python_heap_layout_check(const struct python_heap_layout *layout)
{
	return code_fits(layout) && values_fit(layout) && types_fit(layout) && dicts_fit(layout) &&
			       awaits_fit(layout)
		       ? 0
		       : -EBADMSG;
}
