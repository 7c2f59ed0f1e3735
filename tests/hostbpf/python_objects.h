/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TESTS_PYTHON_OBJECTS_H
#define BPFPROF_TESTS_PYTHON_OBJECTS_H

/* Memory with made CPython objects, in the layout of a table, and with nothing around it. */

#include <stddef.h>
#include <stdint.h>

#include "python/heap.h"

#define MADE_BASE 0x7f1200000000ULL
#define MADE_BYTES (1U << 20)
#define MADE_END (MADE_BASE + MADE_BYTES)
#define MADE_RUNTIME MADE_BASE
#define MADE_FIRST (MADE_BASE + 4096)

/* The builtin type, or the one from which it is derived. */
#define MADE_INT (1ULL << 24)
#define MADE_LIST (1ULL << 25)
#define MADE_TUPLE (1ULL << 26)
#define MADE_BYTES_TYPE (1ULL << 27)
#define MADE_STR (1ULL << 28)
#define MADE_DICT (1ULL << 29)

#define MADE_MAX_TYPES 32

struct made_objects {
	struct unwind_reader reader; /* first member */
	struct bpfprof_python_layout layout;
	struct python_heap heap;
	uint64_t next; /* what is free yet */
	uint64_t nr_reads;
	uint64_t types[MADE_MAX_TYPES]; /* as asked for by made_type() */
	const char *type_names[MADE_MAX_TYPES];
	uint8_t bytes[MADE_BYTES];
};

#define MADE_NR_VERSIONS 6 /* 3.8, 3.11, 3.12, 3.13, 3.14, 3.14t */

/* Empty memory of a version, and heap to read it; nr below MADE_NR_VERSIONS. */
void made_init(struct made_objects *made, uint32_t nr);

void made_put(struct made_objects *made, uint64_t va, const void *src, size_t len);
void made_put_u64(struct made_objects *made, uint64_t va, uint64_t value);
void made_put_u32(struct made_objects *made, uint64_t va, uint32_t value);
uint64_t made_alloc(struct made_objects *made, size_t bytes);

/* Makes an object of the type with this name; the first call describes the type. */
uint64_t made_type(struct made_objects *made, const char *name, uint64_t flags);
uint64_t made_object(struct made_objects *made, const char *type, uint64_t flags, size_t bytes);
uint64_t made_int(struct made_objects *made, int64_t value);
uint64_t made_str(struct made_objects *made, const char *text);
uint64_t made_tuple(struct made_objects *made, const uint64_t *items, size_t nr);
uint64_t made_list(struct made_objects *made, const uint64_t *items, size_t nr);
uint64_t made_bytes(struct made_objects *made, const void *data, size_t len);

enum made_keys {
	MADE_KEYS_GENERAL,
	MADE_KEYS_STR,
	MADE_KEYS_SPLIT,
};

/* Pairs of key and value; room for more entries than there are pairs. */
uint64_t made_keys(struct made_objects *made, const uint64_t *pairs, size_t nr,
		   enum made_keys kind);
uint64_t made_values(struct made_objects *made, const uint64_t *pairs, size_t nr);
uint64_t made_dict(struct made_objects *made, const uint64_t *pairs, size_t nr,
		   enum made_keys kind);
/* An instance of a plain class with these attributes. */
uint64_t made_instance(struct made_objects *made, const char *type, const uint64_t *pairs,
		       size_t nr);
/* A module with these globals. */
uint64_t made_module(struct made_objects *made, const uint64_t *pairs, size_t nr);

#endif
