// SPDX-License-Identifier: Apache-2.0
#include "python/async_objects.h"

#include <string.h>

#include "python/heap.h"

#define MAX_MODULES 65536
#define MAX_ATTRIBUTES 512 /* of an instance or a module */
#define MAX_BASES 16
#define MAX_SET (1ULL << 24) /* entries of the table of a set */

uint64_t python_attribute(struct python_heap *heap, uint64_t va, const char *name)
{
	const struct python_type *type;
	struct python_dict_iter iter;

	if (python_heap_type(heap, va, &type) || python_instance_init(&iter, heap, va, type))
		return 0;
	return python_dict_find(&iter, name, MAX_ATTRIBUTES);
}

uint64_t python_module(struct python_heap *heap, uint64_t interpreter_va, const char *name)
{
	const struct python_type *type;
	struct python_dict_iter iter;
	uint64_t modules;

	if (python_heap_u64(heap, interpreter_va + heap->objects.interpreter_modules, &modules) ||
	    !modules || python_heap_type(heap, modules, &type) ||
	    !(type->flags & PYTHON_FLAG_DICT) || python_dict_init(&iter, heap, modules))
		return 0;
	return python_dict_find(&iter, name, MAX_MODULES);
}

bool python_is_a(struct python_heap *heap, uint64_t va, const char *name)
{
	const struct python_type *type;
	int i, err;

	err = python_heap_type(heap, va, &type);
	for (i = 0; i < MAX_BASES && !err; i++) {
		if (!strcmp(type->name, name))
			return true;
		if (!type->base)
			return false;
		err = python_heap_type_at(heap, type->base, &type);
	}
	return false;
}

uint64_t python_weakref(struct python_heap *heap, uint64_t va)
{
	const struct python_type *type;
	uint64_t object;

	/* "weakref", from 3.12 on "weakref.ReferenceType"; sets hold a class derived from it */
	if (python_heap_type(heap, va, &type) ||
	    python_heap_u64(heap, va + heap->objects.object_size, &object))
		return 0;
	return object;
}

bool python_set_init(struct python_set_iter *iter, struct python_heap *heap, uint64_t va)
{
	const struct python_type *type;
	uint64_t mask;

	*iter = (struct python_set_iter){ .heap = heap };
	if (python_heap_type(heap, va, &type))
		return false;
	if (strcmp(type->name, "set")) {
		heap->counts.nr_bad++;
		return false;
	}
	if (python_heap_u64(heap, va + heap->objects.set_mask, &mask) ||
	    python_heap_u64(heap, va + heap->objects.set_table, &iter->table))
		return false;
	if (mask >= MAX_SET) {
		heap->counts.nr_cut++;
		return false;
	}
	iter->nr = mask + 1;
	return true;
}

bool python_set_next(struct python_set_iter *iter, uint64_t *ret)
{
	const uint64_t *entry;
	uint64_t nr, at = iter->at;

	while (iter->at < iter->nr) {
		if (iter->at - iter->first >= iter->nr_loaded) {
			if (iter->at != at) {
				*ret = 0;
				return true;
			}
			nr = sizeof(iter->loaded) / 16;
			if (nr > iter->nr - iter->at)
				nr = iter->nr - iter->at;
			iter->broken = python_heap_read(iter->heap, iter->table + iter->at * 16,
							iter->loaded, (uint32_t)nr * 16) != 0;
			if (iter->broken)
				break;
			iter->first = iter->at;
			iter->nr_loaded = nr;
		}
		entry = &iter->loaded[(iter->at++ - iter->first) * 2];
		/* An entry that was removed keeps an object without meaning and the hash -1. */
		if (!entry[0] || entry[1] == UINT64_MAX)
			continue;
		*ret = entry[0];
		return true;
	}
	iter->at = iter->nr;
	return false;
}
