// SPDX-License-Identifier: Apache-2.0
/* What user/python reads of a heap that lies, for each way in which versions lay it out. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "python/code_read.h"
#include "python/locals.h"
#include "python/objects.h"
#include "python/thread_names.h"
#include "python/tstates.h"
#include "python_objects.h"

TestSuite(python_objects, .timeout = 60);

#define FOR_EACH_VERSION(nr)                                                                       \
	for (uint32_t nr = 0; nr < MADE_NR_VERSIONS && (made_init(&made, nr), 1); nr++)

static struct made_objects made;

static const char *repr_in(uint64_t va, size_t max)
{
	static char *text;

	free(text);
	text = NULL;
	cr_assert_eq(python_repr(&made.heap, va, max, &text), 0);
	return text;
}

static const char *repr(uint64_t va)
{
	return repr_in(va, PYTHON_REPR_CHARS);
}

static uint64_t list_of(uint64_t one, uint64_t two)
{
	return made_list(&made, (uint64_t[]){ one, two }, 2);
}

/* First, that what is right is right, also where no such Python is at hand (3.14t). */
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

/* What contains itself ends where room ends, and soon. */
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
		repr_in(list, 1000000);
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
		/* Of other kinds than there are. */
		if (l->keys_kind) {
			made.bytes[keys - MADE_BASE + l->keys_index] = 3;
			made.bytes[keys - MADE_BASE + l->keys_kind] = 3;
			made.heap.counts.nr_bad = 0;
			cr_assert_str_eq(repr(va), "?");
			cr_assert_eq(made.heap.counts.nr_bad, 1);
		}
		/* Of more keys than are looked at. */
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

static const uint64_t wild[] = { 0,
				 1,
				 8,
				 4096,
				 MADE_BASE - 8,
				 MADE_BASE + 1,
				 MADE_END - 8,
				 MADE_END,
				 1ULL << 47,
				 (1ULL << 56) - 8,
				 1ULL << 56,
				 0xffff888000000000ULL,
				 1ULL << 63,
				 ~7ULL,
				 ~0ULL };

Test(python_objects, pointers)
{
	FOR_EACH_VERSION(nr)
	{
		for (size_t i = 0; i < sizeof(wild) / sizeof(*wild); i++) {
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

static uint64_t thread_make(const char *name)
{
	uint64_t pairs[] = { made_str(&made, "_target"), 0, made_str(&made, "_name"),
			     made_str(&made, name) };

	return made_instance(&made, name, pairs, 2);
}

struct state_of {
	uint64_t interpreter, first;
};

#define INTERPRETER_BYTES 65536

/* An interpreter whose modules are given, with one thread. */
static struct state_of interpreter_make(uint64_t modules)
{
	struct state_of ret;

	ret.interpreter = made_alloc(&made, INTERPRETER_BYTES);
	ret.first = made_alloc(&made, 512);
	made_put_u64(&made, MADE_RUNTIME + made.layout.runtime_interpreters, ret.interpreter);
	made_put_u64(&made, ret.interpreter + made.layout.interpreter_next, 0);
	made_put_u64(&made, ret.interpreter + made.layout.interpreter_threads, ret.first);
	made_put_u64(&made, ret.interpreter + made.heap.objects.interpreter_modules, modules);
	made_put_u64(&made, ret.first + made.layout.tstate_thread, 0x7f0000001000);
	made_put_u64(&made, ret.first + made.layout.tstate_next + 8, ret.interpreter);
	return ret;
}

static uint64_t modules_make(uint64_t active)
{
	uint64_t globals[] = { made_str(&made, "Thread"), made_int(&made, 1),
			       made_str(&made, "_active"), active };
	uint64_t modules[] = { made_str(&made, "sys"), made_int(&made, 1),
			       made_str(&made, "threading"), made_module(&made, globals, 2) };

	return made_dict(&made, modules, 2, MADE_KEYS_STR);
}

static size_t names_read(struct python_thread_names *names)
{
	struct python_tstates tstates;

	cr_assert_eq(python_tstates_read(&tstates, &made.heap), 0);
	made.nr_reads = 0;
	cr_assert_eq(python_thread_names_read(names, &made.heap, &tstates), 0);
	python_tstates_fini(&tstates);
	return names->nr;
}

/* Names that are found when _active is this. */
static size_t nr_names(uint64_t active)
{
	struct python_thread_names names;
	size_t nr;

	interpreter_make(modules_make(active));
	nr = names_read(&names);
	python_thread_names_fini(&names);
	cr_assert_lt(made.nr_reads, 100000);
	return nr;
}

Test(python_objects, thread_names)
{
	FOR_EACH_VERSION(nr)
	{
		uint64_t pairs[] = { made_int(&made, 0x7f0000001000), thread_make("one"),
				     made_int(&made, 2), thread_make("two") };
		struct python_thread_names names;
		struct state_of state;

		state = interpreter_make(
			modules_make(made_dict(&made, pairs, 2, MADE_KEYS_GENERAL)));
		cr_assert_eq(names_read(&names), 2, "version %u: %zu", nr, names.nr);
		cr_assert_str_eq(
			python_thread_names_find(&names, state.interpreter, 0x7f0000001000), "one");
		cr_assert_str_eq(python_thread_names_find(&names, state.interpreter, 2), "two");
		cr_assert_null(python_thread_names_find(&names, state.interpreter, 3));
		cr_assert_null(python_thread_names_find(&names, state.interpreter + 8, 2));
		python_thread_names_fini(&names);
		cr_assert_eq(made.heap.counts.nr_bad + made.heap.counts.nr_unreadable, 0);
	}
}

Test(python_objects, active)
{
	FOR_EACH_VERSION(nr)
	{
		uint64_t one = made_int(&made, 1), thread = thread_make("t");
		uint64_t many[64], text = made_str(&made, "text"), dict;

		/* Not a dict, or of what it must not have. */
		cr_assert_eq(nr_names(one), 0);
		cr_assert_geq(made.heap.counts.nr_bad, 1);
		cr_assert_eq(nr_names(list_of(one, thread)), 0);
		cr_assert_eq(nr_names(MADE_END), 0);
		cr_assert_eq(nr_names(made_dict(&made, NULL, 0, MADE_KEYS_GENERAL)), 0);
		made_init(&made, nr);
		one = made_int(&made, 1);
		thread = thread_make("t");
		text = made_str(&made, "text");
		for (int i = 0; i < 32; i++) {
			many[2 * i] = i % 4 == 0 ? text : i % 4 == 1 ? wild[i % 15] : one;
			many[2 * i + 1] = i % 4 == 2 ? wild[i / 4] : thread;
		}
		dict = made_dict(&made, many, 32, MADE_KEYS_GENERAL);
		cr_assert_eq(nr_names(dict), 8, "version %u", nr);
		/* Itself is among its threads. */
		many[0] = one;
		many[1] = dict;
		cr_assert_leq(nr_names(made_dict(&made, many, 1, MADE_KEYS_GENERAL)), 1);
	}
}

/* Very many threads, all with very many attributes and no name. */
Test(python_objects, many)
{
	enum { NR_THREADS = 16000, NR_ATTRIBUTES = 200 };
	static uint64_t pairs[2 * NR_THREADS];
	struct python_thread_names names;
	uint64_t one, thread;

	made_init(&made, 3);
	one = made_int(&made, 1);
	for (int i = 0; i < NR_ATTRIBUTES; i++) {
		pairs[2 * i] = made_str(&made, "x");
		pairs[2 * i + 1] = one;
	}
	thread = made_instance(&made, "T", pairs, NR_ATTRIBUTES);
	for (int i = 0; i < NR_THREADS; i++) {
		pairs[2 * i] = one;
		pairs[2 * i + 1] = thread;
	}
	interpreter_make(modules_make(made_dict(&made, pairs, NR_THREADS, MADE_KEYS_GENERAL)));
	cr_assert_eq(names_read(&names), 0);
	python_thread_names_fini(&names);
	cr_assert_eq(made.heap.counts.nr_cut, 1);
	cr_assert_lt(made.nr_reads, 3000000, "%lu", made.nr_reads);
}

/* What holds the attributes of a thread leads elsewhere. */
Test(python_objects, instances)
{
	for (size_t i = 0; i < sizeof(wild) / sizeof(*wild); i++) {
		FOR_EACH_VERSION(nr)
		{
			const struct python_heap_layout *l = &made.heap.objects;
			uint64_t thread = thread_make("t"), type = made_type(&made, "t", 0);
			uint64_t pair[] = { made_int(&made, 1), thread }, dict;

			dict = made_dict(&made, pair, 1, MADE_KEYS_GENERAL);
			if (l->instance_dict)
				made_put_u64(&made, thread - l->instance_dict, wild[i]);
			else
				made_put_u64(&made, thread + l->object_size, wild[i]);
			cr_assert_eq(nr_names(dict), !wild[i] && nr != 0 && nr != 2, "%u, %lx", nr,
				     wild[i]);
			if (l->instance_dict)
				made_put_u64(&made, thread - l->instance_dict, 0);
			if (l->type_keys)
				made_put_u64(&made, type + l->type_keys, wild[i]);
			made_put_u64(&made, type + l->type_dict, wild[i]);
			made_put_u64(&made, type + l->type_basic, wild[i]);
			memset(made.heap.types, 0, sizeof(made.heap.types));
			cr_assert_eq(nr_names(dict), 0, "%u, %lx", nr, wild[i]);
		}
	}
}

/* An attribute that is missing, or values that are no longer valid. */
Test(python_objects, values)
{
	FOR_EACH_VERSION(nr)
	{
		const struct python_heap_layout *l = &made.heap.objects;
		uint64_t pair[] = { made_str(&made, "_nam"), made_str(&made, "x") };
		uint64_t active[] = { made_int(&made, 1), made_instance(&made, "T", pair, 1) };

		cr_assert_eq(nr_names(made_dict(&made, active, 1, MADE_KEYS_GENERAL)), 0);
		active[1] = thread_make("t");
		cr_assert_eq(nr_names(made_dict(&made, active, 1, MADE_KEYS_GENERAL)), 1);
		if (l->instance != PYTHON_INSTANCE_INLINE)
			continue;
		made.bytes[active[1] - MADE_BASE + l->object_size + l->values_valid] = 0;
		cr_assert_eq(nr_names(made_dict(&made, active, 1, MADE_KEYS_GENERAL)), 0);
	}
}

static size_t nr_states(struct python_tstates *tstates)
{
	python_tstates_fini(tstates);
	cr_assert_eq(python_tstates_read(tstates, &made.heap), 0);
	return tstates->nr;
}

Test(python_objects, states)
{
	FOR_EACH_VERSION(nr)
	{
		struct python_tstates tstates = { 0 };
		uint64_t va[8], other;
		struct state_of state;
		uint32_t next = made.layout.tstate_next;

		cr_assert_eq(python_tstates_read(&tstates, &made.heap), -ENODATA);
		state = interpreter_make(0);
		cr_assert_eq(nr_states(&tstates), 1);
		cr_assert(tstates.complete);
		va[0] = state.first;
		for (int i = 1; i < 8; i++) {
			va[i] = made_alloc(&made, 512);
			made_put_u64(&made, va[i - 1] + next, va[i]);
			made_put_u64(&made, va[i] + made.layout.tstate_thread,
				     0x1000 + (uint64_t)i / 2);
			made_put_u64(&made, va[i] + next + 8, state.interpreter);
		}
		cr_assert_eq(nr_states(&tstates), 8);
		cr_assert(tstates.complete);
		cr_assert_eq(python_tstates_find(&tstates, 0x1001, NULL)->va, va[2]);
		cr_assert_eq(python_tstates_find(&tstates, 0x1001, &tstates.states[2])->va, va[3]);
		cr_assert_null(python_tstates_find(&tstates, 0x1001, &tstates.states[3]));
		cr_assert_null(python_tstates_find(&tstates, 0, NULL));
		/* One that belongs elsewhere ends the list. */
		made_put_u64(&made, va[5] + next + 8, state.first);
		cr_assert_eq(nr_states(&tstates), 5);
		cr_assert_not(tstates.complete);
		made_put_u64(&made, va[5] + next + 8, state.interpreter);
		/* Back to itself, to the first, to one in the middle. */
		for (int i = 0; i < 8; i++) {
			made_put_u64(&made, va[7] + next, va[i]);
			cr_assert_eq(nr_states(&tstates), 8);
			cr_assert_not(tstates.complete);
			cr_assert_eq(made.heap.counts.nr_cyclic, (uint64_t)i + 1);
		}
		for (size_t i = 1; i < sizeof(wild) / sizeof(*wild); i++) {
			made_put_u64(&made, va[7] + next, wild[i]);
			cr_assert(nr_states(&tstates) <= 9);
			cr_assert(!tstates.complete || wild[i] == MADE_BASE + 1);
		}
		/* Interpreters that go round, and one that shares its threads. */
		made_put_u64(&made, va[7] + next, 0);
		made_put_u64(&made, state.interpreter + made.layout.interpreter_next,
			     state.interpreter);
		cr_assert_eq(nr_states(&tstates), 8);
		cr_assert_eq(tstates.nr_interpreters, 1);
		cr_assert_not(tstates.complete);
		other = made_alloc(&made, INTERPRETER_BYTES);
		made_put_u64(&made, state.interpreter + made.layout.interpreter_next, other);
		made_put_u64(&made, other + made.layout.interpreter_threads, va[3]);
		cr_assert_eq(nr_states(&tstates), 8);
		cr_assert_eq(tstates.nr_interpreters, 2);
		cr_assert_eq(tstates.states[0].interpreter, 1);
		cr_assert_eq(tstates.states[0].interpreter_va, state.interpreter);
		cr_assert_not(tstates.complete);
		python_tstates_fini(&tstates);
	}
}

/* Every word of memory is that of a list that does not end. */
static int endless_read(struct unwind_reader *reader, __u64 va, void *dst, __u32 len)
{
	uint64_t words[64];

	made.nr_reads++;
	if (len > sizeof(words))
		return -1;
	for (size_t i = 0; i < 64; i++)
		words[i] = (va & ~511ULL) + 512;
	/* All thread states belong to the first interpreter. */
	words[(made.layout.tstate_next + 8) / 8] =
		((MADE_RUNTIME + made.layout.runtime_interpreters) & ~511ULL) + 512;
	memcpy(dst, words, len);
	return reader ? 0 : -1;
}

/* What is to run is proved by the lists: they lead to a thread state that belongs there. */
Test(python_objects, runs)
{
	FOR_EACH_VERSION(nr)
	{
		const struct bpfprof_python_layout *l = &made.layout;
		uint64_t head = MADE_RUNTIME + l->runtime_interpreters;
		struct state_of state;

		cr_assert_eq(python_runtime_check(&made.heap), -ENODATA, "nothing has begun");
		state = interpreter_make(0);
		cr_assert_eq(python_runtime_check(&made.heap), 0);
		made_put_u64(&made, state.interpreter + l->interpreter_threads, 0);
		cr_assert_eq(python_runtime_check(&made.heap), -ENODATA, "all has ended");
		for (size_t i = 1; i < sizeof(wild) / sizeof(*wild); i++) {
			made_put_u64(&made, state.interpreter + l->interpreter_threads, wild[i]);
			cr_assert_eq(python_runtime_check(&made.heap), -EBADMSG, "%lx", wild[i]);
		}
		made_put_u64(&made, state.interpreter + l->interpreter_threads, state.first);
		made_put_u64(&made, state.first + l->tstate_next + 8, state.first);
		cr_assert_eq(python_runtime_check(&made.heap), -EBADMSG, "of another");
		for (size_t i = 1; i < sizeof(wild) / sizeof(*wild); i++) {
			made_put_u64(&made, head, wild[i]);
			cr_assert_lt(python_runtime_check(&made.heap), 0, "%lx", wild[i]);
		}
		made.heap.runtime = MADE_END;
		cr_assert_eq(python_runtime_check(&made.heap), -EFAULT);
		made.heap.runtime = MADE_RUNTIME;
	}
}

Test(python_objects, endless)
{
	struct python_thread_names names;
	struct python_tstates tstates;
	uint64_t list;

	FOR_EACH_VERSION(nr)
	{
		list = list_of(MADE_BASE, MADE_BASE);
		made.heap.reader->read = endless_read;
		cr_assert_eq(python_tstates_read(&tstates, &made.heap), 0);
		cr_assert_leq(tstates.nr, PYTHON_MAX_TSTATES);
		cr_assert_not(tstates.complete);
		cr_assert_geq(made.heap.counts.nr_cut, 1);
		cr_assert_lt(made.nr_reads, 3 * PYTHON_MAX_TSTATES);
		made.nr_reads = 0;
		cr_assert_eq(python_thread_names_read(&names, &made.heap, &tstates), 0);
		cr_assert_lt(made.nr_reads, 10U << 20);
		repr_in(list, 1U << 20);
		python_thread_names_fini(&names);
		python_tstates_fini(&tstates);
	}
}

Test(python_objects, gil)
{
	FOR_EACH_VERSION(nr)
	{
		const struct bpfprof_python_layout *l = &made.layout;
		struct python_tstates tstates = { 0 };
		struct state_of state;

		if (!l->runtime_current && !l->free_threaded) {
			made.layout.tstate_status = 64;
			made.layout.status_mask = 8;
		}
		state = interpreter_make(0);
		nr_states(&tstates);
		cr_assert_null(python_tstates_gil_holder(&tstates));
		if (l->runtime_current)
			made_put_u64(&made, MADE_RUNTIME + l->runtime_current, state.first);
		else if (!l->free_threaded)
			made_put_u32(&made, state.first + l->tstate_status, 8);
		nr_states(&tstates);
		if (l->free_threaded)
			cr_assert(!tstates.gil_known && !python_tstates_gil_holder(&tstates));
		else
			cr_assert_eq(python_tstates_gil_holder(&tstates)->va, state.first);
		cr_assert_eq(python_tstate_refresh(&tstates.states[0], &made.heap), 0);
		cr_assert_eq(tstates.states[0].holds_gil, !l->free_threaded);
		tstates.states[0].va = MADE_END;
		cr_assert_eq(python_tstate_refresh(&tstates.states[0], &made.heap), -EFAULT);
		python_tstates_fini(&tstates);
	}
}

#define VARIABLES 6

struct made_frame {
	uint64_t code, frame, names, kinds;
};

/* def f(a, b, *, c): with a cell d and a free variable e; local x */
static struct made_frame frame_make(const uint64_t values[VARIABLES])
{
	static const char *const names[] = { "a", "b", "c", "x", "d", "e" };
	static const uint8_t kinds[] = { 0x20, 0x20, 0x20, 0x20, 0x40, 0x80 };
	const struct python_heap_layout *l = &made.heap.objects;
	struct made_frame ret;
	uint64_t strings[VARIABLES];

	for (int i = 0; i < VARIABLES; i++)
		strings[i] = made_str(&made, names[i]);
	ret.code = made_alloc(&made, 512);
	ret.frame = made_alloc(&made, 512 + VARIABLES * 8);
	ret.names = made_tuple(&made, strings, l->code_kinds ? 6 : 4);
	ret.kinds = made_bytes(&made, kinds, 6);
	made_put_u32(&made, ret.code + l->code_argcount, 2);
	made_put_u32(&made, ret.code + l->code_kwonly, 1);
	made_put_u32(&made, ret.code + l->code_nr, l->code_kinds ? 6 : 4);
	made_put_u32(&made, ret.code + made.layout.code_flags, 0);
	made_put_u64(&made, ret.code + l->code_names, ret.names);
	if (l->code_kinds) {
		made_put_u64(&made, ret.code + l->code_kinds, ret.kinds);
	} else {
		made_put_u64(&made, ret.code + l->code_cellvars, made_tuple(&made, strings + 4, 1));
		made_put_u64(&made, ret.code + l->code_freevars, made_tuple(&made, strings + 5, 1));
	}
	made_put(&made, ret.frame + l->frame_locals, values, VARIABLES * 8);
	return ret;
}

static uint64_t cell_make(uint64_t value)
{
	uint64_t va = made_object(&made, "cell", 0, 64);

	made_put_u64(&made, va + made.heap.objects.cell_value, value);
	return va;
}

/* "NAME=VALUE/FLAGS ..." */
static const char *locals_text(const struct made_frame *frame)
{
	static char text[1024];
	struct python_locals locals;
	size_t len = 0;
	int err;

	err = python_locals_read(&locals, &made.heap, frame->code, frame->frame, 128);
	if (err)
		return strerror(-err);
	text[0] = '\0';
	for (size_t i = 0; i < locals.nr && len < sizeof(text); i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s=%s/%x", i ? " " : "",
					locals.locals[i].name, locals.locals[i].repr,
					locals.locals[i].flags);
	python_locals_fini(&locals);
	return text;
}

Test(python_objects, variables)
{
	FOR_EACH_VERSION(nr)
	{
		const struct python_heap_layout *l = &made.heap.objects;
		uint64_t one = made_int(&made, 1), tag = made.layout.code_mask ? 1 : 0;
		uint64_t values[] = { one, 0, one | tag, one, cell_make(one), cell_make(0) };
		struct made_frame frame = frame_make(values);

		cr_assert_str_eq(locals_text(&frame), "a=1/1 c=1/2 x=1/0 d=1/4");
		made_put_u64(&made, values[5] + l->cell_value, one);
		cr_assert_str_eq(locals_text(&frame), "a=1/1 c=1/2 x=1/0 d=1/4 e=1/8");
		/* A variable of a comprehension that is part of this function now. */
		made.bytes[frame.kinds + made.layout.bytes_data + 3 - MADE_BASE] = 0x30;
		if (l->code_kinds)
			cr_assert_str_eq(locals_text(&frame), "a=1/1 c=1/2 d=1/4 e=1/8");
		made.bytes[frame.kinds + made.layout.bytes_data + 3 - MADE_BASE] = 0x20;
		/* A small number in place of a reference; a reference to nothing. */
		made_put_u64(&made, frame.frame + l->frame_locals, 17 << 2 | 3);
		cr_assert_str_eq(locals_text(&frame),
				 tag ? "c=1/2 x=1/0 d=1/4 e=1/8" : "a=?/1 c=1/2 x=1/0 d=1/4 e=1/8");
		made_put_u64(&made, frame.frame + l->frame_locals, tag);
		cr_assert_str_eq(locals_text(&frame), "c=1/2 x=1/0 d=1/4 e=1/8");
		for (size_t i = 1; i < sizeof(wild) / sizeof(*wild); i++) {
			made_put_u64(&made, frame.frame + l->frame_locals, wild[i] & ~3ULL);
			cr_assert(!strncmp(locals_text(&frame), "a=?/1 c=", 8) ||
				  wild[i] == MADE_BASE + 1 || wild[i] < 4);
		}
	}
}

Test(python_objects, variables_counts)
{
	static const uint32_t absurd[] = { 7, 4096, 4097, 1U << 20, 1U << 31, ~0U };

	FOR_EACH_VERSION(nr)
	{
		const struct python_heap_layout *l = &made.heap.objects;
		uint64_t one = made_int(&made, 1), values[VARIABLES] = { one, one, one, one };
		struct made_frame frame = frame_make(values);

		cr_assert_eq(strncmp(locals_text(&frame), "a=1/1 b=1/1 c=1/2", 17), 0);
		for (size_t i = 0; i < sizeof(absurd) / sizeof(*absurd); i++) {
			made_put_u32(&made, frame.code + l->code_nr, absurd[i]);
			cr_assert_str_eq(locals_text(&frame), strerror(EBADMSG));
			made_put_u64(&made, frame.names + l->tuple_size, absurd[i]);
			locals_text(&frame);
			made_put_u64(&made, frame.kinds + made.layout.bytes_size, absurd[i]);
			locals_text(&frame);
			made_put_u64(&made, frame.names + l->tuple_size, 4);
		}
		made_put_u64(&made, frame.names + l->tuple_size, l->code_kinds ? 6 : 4);
		made_put_u32(&made, frame.code + l->code_nr, l->code_kinds ? 6 : 4);
		for (size_t i = 0; i < sizeof(absurd) / sizeof(*absurd); i++) {
			made_put_u32(&made, frame.code + l->code_argcount, absurd[i]);
			locals_text(&frame);
			made_put_u32(&made, frame.code + l->code_kwonly, absurd[i]);
			locals_text(&frame);
		}
		made_put_u32(&made, frame.code + l->code_argcount, ~0U);
		cr_assert_str_eq(locals_text(&frame), strerror(EBADMSG));
		if (!l->code_kinds)
			continue;
		made_put_u32(&made, frame.code + l->code_argcount, 2);
		made_put_u32(&made, frame.code + l->code_kwonly, 1);
		made_put_u64(&made, frame.kinds + made.layout.bytes_size, 5);
		cr_assert_str_eq(locals_text(&frame), strerror(EBADMSG), "kinds are cut off");
	}
}

static uint64_t code_make(uint64_t name, uint64_t file, uint64_t table)
{
	const struct bpfprof_python_layout *l = &made.layout;
	uint64_t va = made_alloc(&made, 512);

	made_put_u64(&made, va + (l->code_qualname ? l->code_qualname : l->code_name), name);
	made_put_u64(&made, va + l->code_filename, file);
	made_put_u64(&made, va + l->code_linetable, table);
	made_put_u32(&made, va + l->code_firstlineno, 7);
	return va;
}

Test(python_objects, codes)
{
	static char text[5001];

	FOR_EACH_VERSION(nr)
	{
		uint64_t name = made_str(&made, "C.f"), file = made_str(&made, "/a/b.py"), va;
		uint64_t table = made_bytes(&made, "", 0);
		struct python_code_cache *cache;
		struct python_code code;
		int err;

		cr_assert_eq(python_code_read(&code, &made.heap, code_make(name, file, table)), 0);
		cr_assert_str_eq(code.name, "C.f");
		cr_assert_str_eq(code.file, "/a/b.py");
		cr_assert_eq(python_code_line(&code, BPFPROF_LASTI_NONE), 7);
		python_code_line(&code, 0);
		python_code_fini(&code);
		/* Without a table, or with one that is too long, it still has a name. */
		for (size_t i = 0; i < sizeof(wild) / sizeof(*wild); i++) {
			made_put_u64(&made, table + made.layout.bytes_size, wild[i] | 1ULL << 30);
			va = code_make(name, file, i % 2 ? table : wild[i]);
			cr_assert_eq(python_code_read(&code, &made.heap, va), 0);
			cr_assert(!code.table || !code.table_len);
			cr_assert(code.table || !python_code_line(&code, 3));
			python_code_fini(&code);
			va = code_make(wild[i], file, table);
			cr_assert(python_code_read(&code, &made.heap, va));
			va = code_make(name, wild[i], table);
			cr_assert(python_code_read(&code, &made.heap, va));
			cr_assert(python_code_read(&code, &made.heap, wild[i]));
		}
		/* A name that is longer than what is taken ends where one can see it. */
		memset(text, 'x', sizeof(text) - 1);
		va = code_make(made_str(&made, "n"), made_str(&made, text),
			       made_bytes(&made, "", 0));
		cr_assert_eq(python_code_read(&code, &made.heap, va), 0);
		cr_assert_eq(strlen(code.file), 4096 + 3);
		cr_assert_str_eq(code.file + 4096, "\xe2\x80\xa6");
		python_code_fini(&code);
		/* Asked for once. */
		cr_assert_eq(python_code_cache_new(&cache, &made.heap), 0);
		cr_assert_str_eq(python_code_cache_get(cache, va, NULL)->name, "n");
		made.nr_reads = 0;
		cr_assert_str_eq(python_code_cache_get(cache, va, &err)->name, "n");
		cr_assert_null(python_code_cache_get(cache, MADE_END, &err));
		cr_assert_eq(err, -EFAULT);
		cr_assert_eq(made.nr_reads, 1);
		cr_assert_null(python_code_cache_get(cache, MADE_END, &err));
		cr_assert_eq(made.nr_reads, 1);
		python_code_cache_free(cache);
	}
}

static uint64_t random_u64(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Right memory of which some words are changed, again and again. */
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
