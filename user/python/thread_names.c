// SPDX-License-Identifier: Apache-2.0
#include "python/thread_names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/sorted.h"
#include "base/vec.h"
#include "python/heap.h"
#include "python/tstates.h"

#define MAX_MODULES 65536 /* searched for "threading" */
#define MAX_GLOBALS 4096 /* of that module */
#define MAX_ATTRIBUTES 256 /* of a Thread */
#define MAX_KEYS (1U << 20) /* read in all */
#define MAX_NAME_CHARS 1024

struct names {
	struct python_thread_names *ret;
	struct python_heap *heap;
	size_t cap;
	uint64_t interpreter_va;
	uint32_t keys_left;
};

static int names_add(struct names *n, uint64_t thread_id, char *name)
{
	if (vec_grow(n->ret->names, n->ret->nr + 1, n->cap, VEC_BOUNDED))
		return -ENOMEM;
	n->ret->names[n->ret->nr++] = (struct python_thread_name){
		.interpreter_va = n->interpreter_va, .thread_id = thread_id, .name = name
	};
	return 0;
}

/* Is the object at va of a type with this bit? Counts other objects. */
static bool is_of_kind(struct python_heap *heap, uint64_t va, uint64_t flag)
{
	const struct python_type *type;

	if (python_heap_type(heap, va, &type))
		return false;
	if (type->flags & flag)
		return true;
	heap->counts.nr_bad++;
	return false;
}

/* python_dict_find() within the limit for all searches. */
static uint64_t key_find(struct names *n, struct python_dict_iter *iter, const char *key,
			 uint32_t limit)
{
	uint64_t value;

	if (limit > n->keys_left) {
		n->keys_left = 0;
		return 0;
	}
	value = python_dict_find(iter, key, limit);
	n->keys_left -= iter->at < n->keys_left ? iter->at : n->keys_left;
	return value;
}

/* The address of the attribute _name of a Thread; 0: it has none. */
static uint64_t name_find(struct names *n, uint64_t thread)
{
	struct python_heap *heap = n->heap;
	const struct python_type *type;
	struct python_dict_iter iter;
	uint64_t name;

	if (python_heap_type(heap, thread, &type) ||
	    python_instance_init(&iter, heap, thread, type))
		return 0;
	name = key_find(n, &iter, "_name", MAX_ATTRIBUTES);
	if (!name)
		heap->counts.nr_bad++;
	return name;
}

static int thread_add(struct names *n, uint64_t key, uint64_t thread)
{
	uint64_t string;
	int64_t ident;
	char *name;
	int err;

	if (!is_of_kind(n->heap, key, PYTHON_FLAG_INT) || python_heap_int(n->heap, key, &ident))
		return 0;
	string = name_find(n, thread);
	if (!string)
		return 0;
	err = python_heap_string(n->heap, string, MAX_NAME_CHARS, &name, NULL, NULL);
	if (err)
		return err == -ENOMEM ? err : 0;
	err = names_add(n, (uint64_t)ident, name);
	if (err)
		free(name);
	return err;
}

/* The dict threading._active of an interpreter, 0 if there is none. */
static uint64_t active_find(struct names *n)
{
	struct python_heap *heap = n->heap;
	uint64_t modules, module, active;
	const struct python_type *type;
	struct python_dict_iter iter;

	if (python_heap_u64(heap, n->interpreter_va + heap->objects.interpreter_modules,
			    &modules) ||
	    !modules || !is_of_kind(heap, modules, PYTHON_FLAG_DICT) ||
	    python_dict_init(&iter, heap, modules))
		return 0;
	module = key_find(n, &iter, "threading", MAX_MODULES);
	if (!module || python_heap_type(heap, module, &type) ||
	    python_instance_init(&iter, heap, module, type))
		return 0;
	active = key_find(n, &iter, "_active", MAX_GLOBALS);
	return active && is_of_kind(heap, active, PYTHON_FLAG_DICT) ? active : 0;
}

static int interpreter_add(struct names *n)
{
	uint64_t active = active_find(n), key, value;
	struct python_dict_iter iter;
	int err = 0;

	if (!active || python_dict_init(&iter, n->heap, active))
		return 0;
	while (!err && python_dict_next(&iter, &key, &value)) {
		if (iter.at > PYTHON_MAX_TSTATES || !n->keys_left) {
			n->heap->counts.nr_cut++;
			break;
		}
		n->keys_left--;
		err = thread_add(n, key, value);
	}
	return err;
}

static int name_compare(const void *a, const void *b)
{
	const struct python_thread_name *x = a, *y = b;

	if (x->interpreter_va != y->interpreter_va)
		return sorted_order(x->interpreter_va, y->interpreter_va);
	return sorted_order(x->thread_id, y->thread_id);
}

int python_thread_names_read(struct python_thread_names *ret, struct python_heap *heap,
			     const struct python_tstates *tstates)
{
	struct python_thread_names names = { 0 };
	struct names n = { .ret = &names, .heap = heap, .keys_left = MAX_KEYS };
	int err = 0;

	if (!heap->has_objects)
		return -ENOTSUP;
	for (uint32_t i = 0; !err && i < tstates->nr_interpreters; i++) {
		n.interpreter_va = tstates->interpreters[i];
		err = interpreter_add(&n);
	}
	if (err) {
		python_thread_names_fini(&names);
		return err;
	}
	if (names.nr)
		qsort(names.names, names.nr, sizeof(*names.names), name_compare);
	*ret = names;
	return 0;
}

void python_thread_names_fini(struct python_thread_names *names)
{
	for (size_t i = 0; i < names->nr; i++)
		free(names->names[i].name);
	free(names->names);
	*names = (struct python_thread_names){ 0 };
}

const char *python_thread_names_find(const struct python_thread_names *names,
				     uint64_t interpreter_va, uint64_t thread_id)
{
	const struct python_thread_name key = { .interpreter_va = interpreter_va,
						.thread_id = thread_id },
					*found;

	if (!names->nr)
		return NULL;
	found = bsearch(&key, names->names, names->nr, sizeof(key), name_compare);
	return found ? found->name : NULL;
}
