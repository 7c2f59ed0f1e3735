// SPDX-License-Identifier: Apache-2.0
/* The choice of the heap's layout, and the facts that a target reports about its own. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "python/heap_layout.h"

#define PYTHON_HEAP_LAYOUTS
#define PYTHON_HEAP_PLACES
#include "python/layouts.h"

#define NR_LAYOUTS (sizeof(python_heap_layouts) / sizeof(*python_heap_layouts))
#define NR_PLACES (sizeof(python_heap_places) / sizeof(*python_heap_places))
#define NR_FIELDS (sizeof(struct python_heap_layout) / sizeof(uint32_t))

TestSuite(python_heap_layout);

static void put_u64(uint8_t *offsets, uint32_t at, uint64_t value)
{
	memcpy(offsets + at, &value, sizeof(value));
}

static const struct python_heap_layout *row_of(const struct python_heap_layout *places)
{
	for (size_t i = 0; i < NR_LAYOUTS; i++)
		if (python_heap_layouts[i].version == places->version &&
		    python_heap_layouts[i].free_threaded == places->free_threaded)
			return &python_heap_layouts[i];
	return NULL;
}

/* A target whose facts agree with the table. */
static void offsets_make(uint8_t offsets[PYTHON_HEAP_OFFSETS_MAX],
			 const struct python_heap_layout *places)
{
	uint32_t at[NR_FIELDS], fields[NR_FIELDS];

	memset(offsets, 0, PYTHON_HEAP_OFFSETS_MAX);
	memcpy(offsets, "xdebugpy", 8);
	put_u64(offsets, 8, places->version << 16 | 0x1f0);
	put_u64(offsets, 16, places->free_threaded);
	memcpy(at, places, sizeof(at));
	memcpy(fields, row_of(places), sizeof(fields));
	for (size_t i = 2; i < NR_FIELDS; i++)
		if (at[i])
			put_u64(offsets, at[i], fields[i]);
}

static int find(struct python_heap_layout *ret, const struct python_heap_layout *row,
		const uint8_t *offsets, size_t len)
{
	return python_heap_layout_find(ret, (uint16_t)row->version, (uint16_t)row->free_threaded,
				       offsets, len);
}

/* 3.8-3.12 as they are; 3.13 and later each with and without the GIL. */
Test(python_heap_layout, versions)
{
	uint8_t offsets[PYTHON_HEAP_OFFSETS_MAX];
	struct python_heap_layout layout;

	cr_assert_eq(NR_LAYOUTS, 5 + 2 * 3);
	cr_assert_eq(NR_PLACES, 2 * 3);
	for (size_t i = 0; i < NR_LAYOUTS; i++) {
		const struct python_heap_layout *row = &python_heap_layouts[i];

		cr_assert_eq(python_heap_layout_check(row), 0, "%x", row->version);
		cr_assert_eq(python_heap_layout_is_described((uint16_t)row->version),
			     row->version >= 0x30d);
		cr_assert_eq(find(&layout, row, NULL, 0), row->version >= 0x30d ? -EBADMSG : 0);
	}
	for (size_t i = 0; i < NR_PLACES; i++) {
		offsets_make(offsets, &python_heap_places[i]);
		cr_assert_eq(find(&layout, &python_heap_places[i], offsets, sizeof(offsets)), 0);
		cr_assert_arr_eq(&layout, row_of(&python_heap_places[i]), sizeof(layout));
	}
	cr_assert_eq(python_heap_layout_find(&layout, 0x307, 0, NULL, 0), -ENOTSUP);
	cr_assert_eq(python_heap_layout_find(&layout, 0x30c, 1, NULL, 0), -ENOTSUP);
	cr_assert_eq(python_heap_layout_find(&layout, 0x310, 0, NULL, 0), -ENOTSUP);
}

Test(python_heap_layout, reported)
{
	for (size_t i = 0; i < NR_PLACES; i++) {
		const struct python_heap_layout *places = &python_heap_places[i];
		uint8_t offsets[PYTHON_HEAP_OFFSETS_MAX];
		struct python_heap_layout layout;

		offsets_make(offsets, places);
		put_u64(offsets, places->interpreter_modules, 123456);
		put_u64(offsets, places->dict_keys, 48);
		cr_assert_eq(find(&layout, places, offsets, sizeof(offsets)), 0);
		cr_assert_eq(layout.interpreter_modules, 123456);
		cr_assert_eq(layout.dict_keys, 48);
		cr_assert_eq(layout.keys_nr, row_of(places)->keys_nr);
		/* Objects that begin with something else. */
		put_u64(offsets, places->object_type, row_of(places)->object_type + 16);
		cr_assert_eq(find(&layout, places, offsets, sizeof(offsets)), -ENOTSUP);
	}
}

Test(python_heap_layout, contradictions)
{
	static const uint64_t absurd[] = { 1ULL << 20, 1ULL << 32, 1ULL << 63, ~0ULL, 3 };

	for (size_t i = 0; i < NR_PLACES; i++) {
		const struct python_heap_layout *places = &python_heap_places[i];
		uint8_t offsets[PYTHON_HEAP_OFFSETS_MAX];
		struct python_heap_layout layout = { .version = 1 };
		uint32_t at[NR_FIELDS];
		size_t k, n, last = 0;

		memcpy(at, places, sizeof(at));
		for (k = 2; k < NR_FIELDS; k++) {
			for (n = 0; at[k] && n < sizeof(absurd) / sizeof(*absurd); n++) {
				offsets_make(offsets, places);
				put_u64(offsets, at[k], absurd[n]);
				cr_assert_lt(find(&layout, places, offsets, sizeof(offsets)), 0,
					     "%zu, %lx", k, absurd[n]);
			}
			last = at[k] > last ? at[k] : last;
		}
		offsets_make(offsets, places);
		cr_assert_eq(find(&layout, places, offsets, last + 7), -EBADMSG);
		cr_assert_eq(find(&layout, places, offsets, 20), -EBADMSG);
		cr_assert_eq(find(&layout, places, offsets, 0), -EBADMSG);
		offsets[0] ^= 1;
		cr_assert_eq(find(&layout, places, offsets, sizeof(offsets)), -EBADMSG, "cookie");
		offsets_make(offsets, places);
		put_u64(offsets, 8, 0x030c01f0);
		cr_assert_eq(find(&layout, places, offsets, sizeof(offsets)), -EBADMSG, "version");
		offsets_make(offsets, places);
		put_u64(offsets, 16, !places->free_threaded);
		cr_assert_eq(find(&layout, places, offsets, sizeof(offsets)), -EBADMSG, "build");
		cr_assert_eq(layout.version, 1, "it was touched");
		offsets_make(offsets, places);
		cr_assert_eq(find(&layout, places, offsets, last + 8), 0);
	}
}
