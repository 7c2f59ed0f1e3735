/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PYTHON_ASYNC_OBJECTS_H
#define BPFPROF_PYTHON_ASYNC_OBJECTS_H

/* Reads single objects of asyncio, and what leads to them: modules, attributes, sets, weak references. */

#include <stdbool.h>
#include <stdint.h>

struct python_heap;

/* Value of an attribute of an instance or a module; 0: it has none of that name. */
uint64_t python_attribute(struct python_heap *heap, uint64_t va, const char *name);
/* A module of an interpreter by its full name; 0: it is not imported. */
uint64_t python_module(struct python_heap *heap, uint64_t interpreter_va, const char *name);
/* Is the object of the type with that name (tp_name), or of one derived from it? */
bool python_is_a(struct python_heap *heap, uint64_t va, const char *type);
/* The object of a weak reference; 0: it has ended. */
uint64_t python_weakref(struct python_heap *heap, uint64_t va);

/* Iterates over a set, in the order of its table. */
struct python_set_iter {
	struct python_heap *heap;
	uint64_t table, at, nr; /* entries */
	uint64_t loaded[128]; /* key, hash */
	uint64_t first, nr_loaded;
	bool broken; /* it ended early: its memory could not be read */
};

/* False: it cannot be read, or it is larger than any set that is read (counted). */
bool python_set_init(struct python_set_iter *iter, struct python_heap *heap, uint64_t va);
/* *ret = 0: many entries in a row are empty, and the caller may look at the time. */
bool python_set_next(struct python_set_iter *iter, uint64_t *ret);

#endif
