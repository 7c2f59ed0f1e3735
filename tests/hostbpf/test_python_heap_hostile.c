// SPDX-License-Identifier: Apache-2.0
/* Reads of user/python in a heap with false content, for each layout of the versions. */
#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "python/thread_names.h"
#include "python/tstates.h"
#include "python_objects.h"
#include "python_process.h"

/* First the right content gives right results, even if this Python is not installed (3.14t). */
Test(python_objects, right)
{
	FOR_EACH_VERSION(nr)
	{
		uint64_t none = made_object(&made, "NoneType", 0, 16), t, value;
		uint64_t pairs[] = { made_str(&made, "a"), made_int(&made, 1), made_str(&made, "b"),
				     none };
		double half = -0.5;

		cr_assert_str_eq(repr(none), "None");
		cr_assert_str_eq(repr(made_int(&made, 0)), "0");
		cr_assert_str_eq(repr(made_int(&made, -123456789012345)), "-123456789012345");
		cr_assert_str_eq(repr(made_int(&made, INT64_MIN)), "-9223372036854775808");
		cr_assert_str_eq(repr(made_str(&made, "it's\n")), "\"it\\\"s\\n\"");
		cr_assert_str_eq(repr(made_bytes(&made, "\0'a", 3)), "b'\\x00\\'a'");
		t = made_tuple(&made, (uint64_t[]){ none, made_list(&made, NULL, 0) }, 2);
		cr_assert_str_eq(repr(t), "(None, [])");
		for (enum made_keys kind = MADE_KEYS_GENERAL; kind <= MADE_KEYS_SPLIT; kind++)
			cr_assert_str_eq(repr(made_dict(&made, pairs, 2, kind)),
					 "{\"a\": 1, \"b\": None}");
		value = made_object(&made, "float", 0, 64);
		made_put(&made, value + made.heap.objects.float_value, &half, 8);
		cr_assert_str_eq(repr(value), "-0.5");
		cr_assert_eq(made.heap.counts.nr_bad + made.heap.counts.nr_unreadable, 0);
	}
}

#define NR_KEYS 50

static uint64_t wanted[2 * NR_KEYS], reads_at_last;
static uint32_t nr_wanted;

static void key_want(struct unwind_reader *reader, __u64 va, __u64 len)
{
	(void)reader;
	cr_assert_lt(nr_wanted, 2 * NR_KEYS);
	cr_assert_gt(len, made.layout.ascii_data);
	wanted[nr_wanted++] = va;
	reads_at_last = made.nr_reads;
}

/* Keys are wanted in the order of the dict, and many of them before the first is read. */
Test(python_objects, keys_wanted)
{
	FOR_EACH_VERSION(nr)
	{
		uint64_t pairs[2 * NR_KEYS], dict;
		struct python_dict_iter iter;
		char name[8];
		uint32_t i;

		for (i = 0; i < NR_KEYS; i++) {
			snprintf(name, sizeof(name), "k%u", i);
			pairs[2 * i] = made_str(&made, name);
			pairs[2 * i + 1] = made_int(&made, i);
		}
		dict = made_dict(&made, pairs, NR_KEYS, MADE_KEYS_GENERAL);
		made.reader.want = key_want;
		nr_wanted = 0;
		cr_assert_eq(python_dict_init(&iter, &made.heap, dict), 0);
		made.nr_reads = 0;
		cr_assert_eq(python_dict_find(&iter, "k1", NR_KEYS), pairs[3]);
		cr_assert_geq(nr_wanted, 32);
		cr_assert_eq(reads_at_last, 1); /* of the entries */
		cr_assert_eq(python_dict_find(&iter, "k49", NR_KEYS), pairs[99]);
		for (i = 0; i < 32; i++)
			cr_assert_eq(wanted[i], pairs[2 * i]);
		cr_assert_eq(wanted[nr_wanted - 1], pairs[98]);
	}
}

struct scalar_case {
	const char *type;
	uint64_t value;
	const char *repr;
};

static const struct scalar_case scalars[] = {
	{ "numpy.bool", 1, "true" },
	{ "numpy.bool_", 0, "false" },
	{ "numpy.int8", 0xff80, "-128" },
	{ "numpy.int16", 0x8000, "-32768" },
	{ "numpy.int32", 0xffffffff, "-1" },
	{ "numpy.int64", 1ULL << 63, "-9223372036854775808" },
	{ "numpy.uint8", 0x1ff, "255" },
	{ "numpy.uint64", ~0ULL, "18446744073709551615" },
	{ "numpy.float32", 0x3dcccccd, "0.1" },
	{ "numpy.float32", 0x7f7fffff, "340282350000000000000000000000000000000" },
	{ "numpy.float32", 0xff800000, "-inf" },
	{ "numpy.float64", 0x3fd5555555555555, "0.3333333333333333" },
	{ "numpy.float64", 0x8000000000000000, "-0" },
	{ "numpy.float64", 0x7ff8000000000000, "NaN" },
	{ "float", 0x4415af1d78b58c40, "100000000000000000000" },
	{ "float", 0x3e7ad7f29abcaf48, "0.0000001" },
};

Test(python_objects, scalars)
{
	for (size_t i = 0; i < sizeof(scalars) / sizeof(*scalars); i++) {
		uint64_t va;

		made_init(&made, 4);
		va = made_object(&made, scalars[i].type, 0, 64);
		made_put_u64(&made, va + made.heap.objects.object_size, scalars[i].value);
		cr_assert_str_eq(repr(va), scalars[i].repr, "%s: %s", scalars[i].type, repr(va));
	}
	made_init(&made, 4);
	cr_assert_eq(strncmp(repr(made_object(&made, "numpy.float16", 0, 64)),
			     "<numpy.float16 at 0x7f12", 23),
		     0);
}

/* An object that contains itself ends where the room ends, and soon. */
Test(python_objects, cycles)
{
	FOR_EACH_VERSION(nr)
	{
		const struct python_heap_layout *l = &made.heap.objects;
		uint64_t list = list_of(0, 0), items, dict, key = made_str(&made, "k");
		uint64_t pair[] = { key, 0 };
		const char *text;

		memcpy(&items, made.bytes + (list - MADE_BASE) + l->list_items, 8);
		made_put_u64(&made, items, list);
		made_put_u64(&made, items + 8, list);
		text = repr(list);
		cr_assert(*text == '[' && strlen(text) < 400, "%s", text);
		cr_assert_lt(made.nr_reads, 100000);
		made.nr_reads = 0;
		cr_expect_eq(strspn(repr_in(list, 1000000), "["), 512);
		cr_assert_lt(made.nr_reads, 100000, "%lu reads", made.nr_reads);
		dict = made_dict(&made, pair, 1, MADE_KEYS_GENERAL);
		pair[1] = dict;
		made_put_u64(&made, dict + l->dict_keys,
			     made_keys(&made, pair, 1, MADE_KEYS_GENERAL));
		cr_assert_str_eq(repr(dict), "{\"k\": {\"k\": {...}}}");
	}
}

Test(python_objects, lengths)
{
	static const uint64_t absurd[] = { 1ULL << 20, 1ULL << 31, 1ULL << 32, 1ULL << 60,
					   1ULL << 61, 1ULL << 63, ~0ULL };

	FOR_EACH_VERSION(nr)
	{
		const struct python_heap_layout *l = &made.heap.objects;

		for (size_t i = 0; i < sizeof(absurd) / sizeof(*absurd); i++) {
			uint64_t one = made_int(&made, 1), va;

			made.next = MADE_END - 8192;
			va = made_list(&made, &one, 1);
			made_put_u64(&made, va + l->list_size, absurd[i]);
			cr_assert_str_eq(repr(va), "?");
			va = made_tuple(&made, &one, 1);
			made_put_u64(&made, va + l->tuple_size, absurd[i]);
			cr_assert_str_eq(repr(va), "?");
			va = made_str(&made, "abc");
			made_put_u64(&made, va + made.layout.unicode_length, absurd[i]);
			repr(va);
			va = made_bytes(&made, "abc", 3);
			made_put_u64(&made, va + made.layout.bytes_size, absurd[i]);
			repr(va);
			va = made_int(&made, 1);
			made_put_u64(&made, va + (l->int_tag ? l->int_tag : l->object_size),
				     absurd[i]);
			repr(va);
			va = made_dict(&made, (uint64_t[]){ one, one }, 1, MADE_KEYS_STR);
			memcpy(&one, made.bytes + (va - MADE_BASE) + l->dict_keys, 8);
			made_put_u64(&made, one + l->keys_nr, absurd[i]);
			made.nr_reads = 0;
			repr(va);
			cr_assert_lt(made.nr_reads, 20000);
			made_init(&made, nr);
		}
	}
}

Test(python_objects, dict_keys)
{
	FOR_EACH_VERSION(nr)
	{
		const struct python_heap_layout *l = &made.heap.objects;
		uint64_t one = made_int(&made, 1), va, keys;
		struct python_dict_iter iter;

		va = made_dict(&made, (uint64_t[]){ one, one }, 1, MADE_KEYS_GENERAL);
		memcpy(&keys, made.bytes + (va - MADE_BASE) + l->dict_keys, 8);
		for (uint32_t value = 0; value < 256; value++) {
			if (l->keys_size) {
				made_put_u64(&made, keys + l->keys_size, 1ULL << (value % 64));
			} else {
				made.bytes[keys - MADE_BASE + l->keys_index] = (uint8_t)value;
				made.bytes[keys - MADE_BASE + l->keys_kind] =
					(uint8_t)(value * 7 % 5);
			}
			repr(va);
		}
		/* Keys of impossible kinds. */
		if (l->keys_kind) {
			made.bytes[keys - MADE_BASE + l->keys_index] = 3;
			made.bytes[keys - MADE_BASE + l->keys_kind] = 3;
			made.heap.counts.nr_bad = 0;
			cr_assert_str_eq(repr(va), "?");
			cr_assert_eq(made.heap.counts.nr_bad, 1);
		}
		/* More keys than the limit. */
		keys = made_keys(&made, NULL, 0, MADE_KEYS_GENERAL);
		made_put_u64(&made, keys + l->keys_nr, PYTHON_MAX_DICT + 1);
		made_put_u64(&made, va + l->dict_keys, keys);
		cr_assert_eq(python_dict_init(&iter, &made.heap, va), 0);
		cr_assert_eq(iter.nr, PYTHON_MAX_DICT);
		cr_assert_eq(made.heap.counts.nr_cut, 1);
		/* Its table is nowhere, or is itself. */
		made_put_u64(&made, va + l->dict_keys, 0);
		cr_assert_str_eq(repr(va), "?");
		made_put_u64(&made, va + l->dict_keys, va);
		repr(va);
		made_put_u64(&made, va + l->dict_keys, MADE_END - 8);
		cr_assert_str_eq(repr(va), "?");
	}
}

Test(python_objects, pointers)
{
	FOR_EACH_VERSION(nr)
	{
		for (size_t i = 0; i < NR_WILD; i++) {
			uint64_t one = made_int(&made, 1), va;

			cr_assert_str_eq(repr(wild[i]), "?", "%lx: %s", wild[i], repr(wild[i]));
			cr_assert_str_eq(repr(list_of(one, wild[i])), "?");
			va = list_of(one, one);
			made_put_u64(&made, va + made.heap.objects.list_items, wild[i]);
			repr(va);
			va = made_object(&made, "thing", 0, 64);
			made_put_u64(&made, va + made.heap.objects.object_type, wild[i]);
			cr_assert_str_eq(repr(va), "?");
			made_init(&made, nr);
		}
	}
}

/* A type that could be read, but is not where one can be. */
Test(python_objects, unaligned)
{
	uint64_t va, type, moved;

	made_init(&made, 3);
	va = made_object(&made, "thing", 0, 64);
	type = made_type(&made, "thing", 0);
	moved = made_alloc(&made, 1024) + 4;
	memmove(made.bytes + (moved - MADE_BASE), made.bytes + (type - MADE_BASE), 1000);
	cr_assert_eq(strncmp(repr(va), "<thing at 0x", 12), 0);
	made_put_u64(&made, va + made.heap.objects.object_type, moved);
	cr_assert_str_eq(repr(va), "?");
	cr_assert_eq(made.heap.counts.nr_bad, 1);
}

Test(python_objects, type_names)
{
	static const struct {
		const char *name, *shown;
	} cases[] = {
		{ "", "<" },
		{ "a\xff\xc3", "<a?? at" },
		{ "\xc3\xb6\xe2\x98\x83\xf0\x90\x8c\xb0",
		  "<\xc3\xb6\xe2\x98\x83\xf0\x90\x8c\xb0 at" },
		{ "\xed\xa0\x80\xc0\x80\xf5\x80", "<??????? at" },
		{ "\xf0\x80\x80\x80", "<???? at" },
	};
	char name[300];
	uint64_t va, type;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		made_init(&made, 3);
		va = made_object(&made, cases[i].name, 0, 16);
		cr_assert_eq(strncmp(repr(va), cases[i].shown, strlen(cases[i].shown)), 0, "%s",
			     repr(va));
	}
	/* Without an end; cut in the middle of a character; at the end of memory. */
	made_init(&made, 3);
	memset(name, 'n', sizeof(name));
	memcpy(name + 127, "\xc3\xb6", 3);
	va = made_object(&made, name, 0, 16);
	cr_assert_eq(strspn(repr(va) + 1, "n"), 127);
	cr_assert_eq(strncmp(repr(va) + 128, " at 0x", 6), 0, "%s", repr(va));
	type = made_type(&made, "other", 0);
	va = made_object(&made, "other", 0, 16);
	made_put_u64(&made, type + made.heap.objects.type_name, MADE_END - 3);
	cr_assert_eq(strncmp(repr(va), "< at", 4), 0);
	made_put(&made, MADE_END - 3, "abc", 3);
	made_put_u64(&made, va + made.heap.objects.object_type, type);
	memset(made.heap.types, 0, sizeof(made.heap.types));
	cr_assert_str_eq(repr(va), "?");
}

static uint64_t random_u64(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Some words of right memory are changed, again and again. */
Test(python_objects, random)
{
	uint64_t state = 0x9e3779b97f4a7c15ULL;
	size_t nr_found = 0, nr_failed = 0;

	for (int round = 0; round < 6000; round++) {
		struct python_thread_names names;
		struct python_tstates tstates;
		struct made_frame frame;
		uint64_t pairs[8], values[VARIABLES], used;

		made_init(&made, (uint32_t)round % MADE_NR_VERSIONS);
		for (int i = 0; i < 4; i++) {
			pairs[2 * i] = made_int(&made, i + 1);
			pairs[2 * i + 1] = thread_make(i % 2 ? "odd" : "even");
		}
		interpreter_make(modules_make(made_dict(&made, pairs, 4, MADE_KEYS_GENERAL)));
		for (int i = 0; i < VARIABLES; i++)
			values[i] = pairs[i];
		values[5] = made_dict(&made, pairs, 4, MADE_KEYS_GENERAL);
		frame = frame_make(values);
		used = made.next - MADE_FIRST;
		for (int i = 0; i < 40; i++) {
			uint64_t at = MADE_FIRST + random_u64(&state) % used / 8 * 8, value;

			value = random_u64(&state);
			if (value % 4)
				value = MADE_FIRST + (value >> 8) % used / 8 * 8;
			else if (value % 3)
				value >>= value % 61;
			made_put_u64(&made, at, value);
		}
		made.nr_reads = 0;
		if (python_tstates_read(&tstates, &made.heap))
			continue;
		cr_assert_eq(python_thread_names_read(&names, &made.heap, &tstates), 0);
		nr_found += names.nr;
		nr_failed += 4 - (names.nr < 4 ? names.nr : 4);
		locals_text(&frame);
		cr_assert_lt(made.nr_reads, 20U << 20);
		python_thread_names_fini(&names);
		python_tstates_fini(&tstates);
	}
	cr_assert(nr_found > 1000 && nr_failed > 1000, "%zu, %zu", nr_found, nr_failed);
}
