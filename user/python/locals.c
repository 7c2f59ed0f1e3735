// SPDX-License-Identifier: Apache-2.0
#include "python/locals.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "python/heap.h"
#include "python/objects.h"

#define MAX_VARIABLES 4096
#define MAX_NAME_CHARS 256
#define MAX_OBJECTS 16384 /* read for all variables of a frame */
#define MAX_BYTES (8U << 20) /* of the text of one variable */

#define CO_VARARGS 4U
#define CO_VARKEYWORDS 8U

/* Kinds of variables from 3.11 on. */
#define KIND_HIDDEN 0x10
#define KIND_LOCAL 0x20
#define KIND_CELL 0x40
#define KIND_FREE 0x80

#define TAG_INT 3 /* a small number in place of a reference: 3.14+ */

struct variable {
	uint64_t name; /* a str object */
	uint64_t value; /* 0: none */
	uint32_t flags; /* PYTHON_LOCAL_* */
};

struct frame {
	struct python_heap *heap;
	uint64_t va;
	uint32_t argcount, kwonly, flags;
	uint32_t nr; /* of variables with a name */
	struct variable variables[MAX_VARIABLES];
};

static int code_u32(struct python_heap *heap, uint64_t va, uint32_t *ret)
{
	return python_heap_read(heap, va, ret, sizeof(*ret));
}

/* Appends variables: the names in a tuple, and the words of memory in the same order. */
static int group_add(struct frame *f, uint64_t names, uint32_t nr, uint64_t slots)
{
	const struct python_heap_layout *l = &f->heap->objects;
	uint64_t size, *words;
	int err;

	err = python_heap_u64(f->heap, names + l->tuple_size, &size);
	if (err)
		return err;
	if (size < nr)
		return python_heap_bad(f->heap);
	if (nr > MAX_VARIABLES - f->nr) {
		nr = MAX_VARIABLES - f->nr;
		f->heap->counts.nr_cut++;
	}
	if (!nr)
		return 0;
	words = malloc((size_t)nr * 2 * sizeof(*words));
	if (!words)
		return -ENOMEM;
	err = python_heap_read(f->heap, names + l->tuple_items, words, nr * 8);
	if (!err)
		err = python_heap_read(f->heap, slots, words + nr, nr * 8);
	for (uint32_t i = 0; !err && i < nr; i++)
		f->variables[f->nr++] =
			(struct variable){ .name = words[i], .value = words[nr + i] };
	free(words);
	return err;
}

/* Finds a tuple of names of the code object at code, and its length. */
static int names_find(struct frame *f, uint64_t code, uint32_t off, uint64_t *ret_names,
		      uint32_t *ret_nr)
{
	uint64_t nr;
	int err;

	err = python_heap_u64(f->heap, code + off, ret_names);
	if (!err)
		err = python_heap_u64(f->heap, *ret_names + f->heap->objects.tuple_size, &nr);
	if (!err)
		*ret_nr = nr < MAX_VARIABLES ? (uint32_t)nr : MAX_VARIABLES;
	return err;
}

/* The value in a cell; the object itself if it is not a cell. */
static uint64_t cell_open(struct python_heap *heap, uint64_t va)
{
	const struct python_type *type;
	uint64_t value;

	if (!va || python_heap_type(heap, va, &type) || strcmp(type->name, "cell"))
		return va;
	return python_heap_u64(heap, va + heap->objects.cell_value, &value) ? 0 : value;
}

static void arguments_mark(struct frame *f)
{
	uint32_t named =
		f->argcount + f->kwonly + !!(f->flags & CO_VARARGS) + !!(f->flags & CO_VARKEYWORDS);

	for (uint32_t i = 0; i < f->nr && i < named; i++)
		f->variables[i].flags |=
			i < f->argcount ? PYTHON_LOCAL_ARGUMENT : PYTHON_LOCAL_NAMED;
}

/* Up to 3.10: locals, then cells, then variables of outer functions. */
static int variables_by_group(struct frame *f, uint64_t code)
{
	const struct python_heap_layout *l = &f->heap->objects;
	uint64_t slots = f->va + l->frame_locals, names;
	uint32_t nr_locals, nr, nr_cells, i, k;
	int err;

	err = code_u32(f->heap, code + l->code_nr, &nr_locals);
	if (!err)
		err = python_heap_u64(f->heap, code + l->code_names, &names);
	if (!err)
		err = group_add(f, names, nr_locals, slots);
	if (err)
		return err;
	arguments_mark(f);
	if (f->nr < nr_locals)
		return 0;
	err = names_find(f, code, l->code_cellvars, &names, &nr);
	if (!err)
		err = group_add(f, names, nr, slots + (uint64_t)f->nr * 8);
	nr_cells = f->nr;
	if (!err)
		err = names_find(f, code, l->code_freevars, &names, &nr);
	if (!err)
		err = group_add(f, names, nr, slots + (uint64_t)f->nr * 8);
	for (i = nr_locals; i < f->nr; i++) {
		f->variables[i].flags = i < nr_cells ? PYTHON_LOCAL_CELL : PYTHON_LOCAL_FREE;
		f->variables[i].value = cell_open(f->heap, f->variables[i].value);
	}
	/* An argument that inner functions use is in its cell. */
	for (i = nr_locals; i < nr_cells; i++) {
		for (k = 0; k < nr_locals && f->variables[k].name != f->variables[i].name; k++)
			;
		if (k == nr_locals || f->variables[k].value)
			continue;
		f->variables[k].value = f->variables[i].value;
		f->variables[k].flags |= PYTHON_LOCAL_CELL;
		f->variables[i].value = 0;
	}
	return err;
}

static uint64_t reference(const struct frame *f, uint64_t word)
{
	uint64_t mask = f->heap->layout->code_mask;

	return mask && (word & TAG_INT) == TAG_INT ? 0 : word & ~mask;
}

/* 3.11+: one list, with another list of kinds. */
static int variables_by_kind(struct frame *f, uint64_t code)
{
	const struct python_heap_layout *l = &f->heap->objects;
	uint8_t kinds[MAX_VARIABLES];
	uint64_t names, bytes, size;
	uint32_t nr;
	int err;

	err = code_u32(f->heap, code + l->code_nr, &nr);
	if (!err)
		err = python_heap_u64(f->heap, code + l->code_names, &names);
	if (!err)
		err = group_add(f, names, nr, f->va + l->frame_locals);
	if (err || !f->nr)
		return err;
	err = python_heap_u64(f->heap, code + l->code_kinds, &bytes);
	if (!err)
		err = python_heap_u64(f->heap, bytes + f->heap->layout->bytes_size, &size);
	if (!err && size < f->nr)
		err = python_heap_bad(f->heap);
	if (!err)
		err = python_heap_read(f->heap, bytes + f->heap->layout->bytes_data, kinds, f->nr);
	if (err)
		return err;
	arguments_mark(f);
	for (uint32_t i = 0; i < f->nr; i++) {
		struct variable *v = &f->variables[i];

		v->value = kinds[i] & KIND_HIDDEN ? 0 : reference(f, v->value);
		if (kinds[i] & (KIND_CELL | KIND_FREE)) {
			v->flags |= kinds[i] & KIND_CELL ? PYTHON_LOCAL_CELL : PYTHON_LOCAL_FREE;
			v->value = cell_open(f->heap, v->value);
		}
	}
	return 0;
}

static int variable_show(struct frame *f, const struct variable *v, size_t max_chars,
			 uint32_t *budget, struct python_local *ret)
{
	struct python_local local = { .va = v->value, .flags = v->flags };
	struct buf repr;
	int err;

	err = python_heap_string(f->heap, v->name, MAX_NAME_CHARS, &local.name, NULL, NULL);
	if (err)
		return err;
	buf_init(&repr, MAX_BYTES);
	err = python_repr_add(f->heap, v->value, max_chars, budget, &repr);
	if (err && err != -ENOMEM)
		buf_add_str(&repr, "?");
	local.repr = buf_take(&repr);
	buf_fini(&repr);
	if (!local.repr) {
		free(local.name);
		return -ENOMEM;
	}
	*ret = local;
	return 0;
}

static int variables_show(struct frame *f, size_t max_chars, struct python_locals *ret)
{
	struct python_locals locals = { 0 };
	uint32_t budget = MAX_OBJECTS;
	int err;

	locals.locals = calloc(f->nr + 1, sizeof(*locals.locals));
	if (!locals.locals)
		return -ENOMEM;
	for (uint32_t i = 0; i < f->nr; i++) {
		if (!f->variables[i].value)
			continue;
		err = variable_show(f, &f->variables[i], max_chars, &budget,
				    &locals.locals[locals.nr]);
		if (err == -ENOMEM) {
			python_locals_fini(&locals);
			return err;
		}
		if (!err)
			locals.nr++;
	}
	*ret = locals;
	return 0;
}

int python_locals_read(struct python_locals *ret, struct python_heap *heap, uint64_t code,
		       uint64_t frame_va, size_t max_chars)
{
	const struct python_heap_layout *l = &heap->objects;
	struct frame *f;
	int err;

	if (!heap->has_objects)
		return -ENOTSUP;
	f = malloc(sizeof(*f));
	if (!f)
		return -ENOMEM;
	f->heap = heap;
	f->va = frame_va;
	f->nr = 0;
	err = code_u32(heap, code + l->code_argcount, &f->argcount);
	if (!err)
		err = code_u32(heap, code + l->code_kwonly, &f->kwonly);
	if (!err)
		err = code_u32(heap, code + heap->layout->code_flags, &f->flags);
	if (!err && (f->argcount > INT16_MAX || f->kwonly > INT16_MAX))
		err = python_heap_bad(heap);
	if (!err)
		err = l->code_kinds ? variables_by_kind(f, code) : variables_by_group(f, code);
	if (!err)
		err = variables_show(f, max_chars, ret);
	free(f);
	return err;
}

void python_locals_fini(struct python_locals *locals)
{
	for (size_t i = 0; i < locals->nr; i++) {
		free(locals->locals[i].name);
		free(locals->locals[i].repr);
	}
	free(locals->locals);
	*locals = (struct python_locals){ 0 };
}
