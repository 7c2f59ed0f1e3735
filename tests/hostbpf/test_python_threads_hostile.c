// SPDX-License-Identifier: Apache-2.0
/* Names and states of threads, and who holds the GIL, in a heap that lies. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "python/thread_names.h"
#include "python/tstates.h"
#include "python_objects.h"
#include "python_process.h"

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

		/* Not a dict, or a dict with impossible fields. */
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

/* The pointer to the attributes of a thread leads elsewhere. */
Test(python_objects, instances)
{
	for (size_t i = 0; i < NR_WILD; i++) {
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
		for (size_t i = 1; i < NR_WILD; i++) {
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

/* The lists prove that a runtime runs: they lead to a thread state that belongs to it. */
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
		for (size_t i = 1; i < NR_WILD; i++) {
			made_put_u64(&made, state.interpreter + l->interpreter_threads, wild[i]);
			cr_assert_eq(python_runtime_check(&made.heap), -EBADMSG, "%lx", wild[i]);
		}
		made_put_u64(&made, state.interpreter + l->interpreter_threads, state.first);
		made_put_u64(&made, state.first + l->tstate_next + 8, state.first);
		cr_assert_eq(python_runtime_check(&made.heap), -EBADMSG, "of another");
		for (size_t i = 1; i < NR_WILD; i++) {
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
		cr_assert_eq(tstates.states[0].holds_gil, !l->free_threaded);
		python_tstates_fini(&tstates);
	}
}
