// SPDX-License-Identifier: Apache-2.0
/* The walk to the tasks that await a running one, in a heap with right and false content, for each layout. */
#include <criterion/criterion.h>
#include <string.h>

#include "python_async.h"
#include "python_process.h"

static int python_frame_read(struct unwind_reader *reader, __u64 va, __u32 len, __u8 *dst)
{
	return reader->read(reader, va, dst, len);
}

static int await_frame(struct unwind_reader *reader, __u64 code, __u32 lasti, __u64 *ret)
{
	(void)reader;
	(void)lasti;
	*ret = code;
	return 0;
}

#include "unwind_awaiters.h"

#define MAX_READS (20 * AWAIT_STEPS)
#define CYTHON_TYPE "_cython_3_0_12.coroutine"

static struct made_async async;
static struct await_walk w;

static void walk(uint64_t task)
{
	_Alignas(8) __u8 room[PYTHON_FRAME_ROOM] = { 0 };

	w.stop = 0;
	made.nr_reads = 0;
	await_begin(&w, &made.reader, task);
	for (int i = 0; i < AWAIT_STEPS && !w.stop; i++)
		w.stop = (__u32)await_step(&w, &made.layout, &made.reader, room);
	if (!w.stop)
		w.stop = AWAIT_STOP_SEARCH;
	cr_assert_leq(w.nr, BPFPROF_MAX_AWAITERS);
	cr_assert_leq(w.nr_tasks, BPFPROF_MAX_AWAITING_TASKS);
	cr_assert_lt(made.nr_reads, MAX_READS);
}

/* Finds the frames of the running tasks. */
static void find_frames(void)
{
	_Alignas(8) __u8 room[PYTHON_FRAME_ROOM] = { 0 };
	int stop = 0;

	await_frames_begin(&w);
	for (int i = 0; i < AWAIT_RUNNING_STEPS && !stop; i++)
		stop = await_step(&w, &made.layout, &made.reader, room);
	w.stop = (__u32)stop;
}

/* A built-in function or method of an object. */
static uint64_t method_in_c(uint64_t self)
{
	uint64_t va = made_object(&made, "builtin_function_or_method", 0, 64);

	made_put_u64(&made, va + made.heap.objects.object_size + 8, self);
	return va;
}

/* A callback whose second word is an object: a partial, or a method. */
static uint64_t holder(const char *type, uint64_t second)
{
	uint64_t va = made_object(&made, type, 0, 64);

	made_put_u64(&made, va + made.heap.objects.object_size + 8, second);
	return va;
}

static void callback_set(uint64_t future, uint64_t callback)
{
	made_put_u64(&made, future + made.heap.objects.object_size + 8, callback);
}

static uint64_t code_of(uint64_t coroutine)
{
	const struct python_heap_layout *l = &made.heap.objects;
	uint64_t frame = coroutine + l->gen_frame, code;

	if (l->stack_form <= PYTHON_STACK_DEPTH)
		made.reader.read(&made.reader, frame, &frame, 8);
	made.reader.read(&made.reader, frame + made.layout.frame_code, &code, 8);
	return code;
}

/* The first task awaits the second one, which awaits the third by a gather(). */
static void tasks_make(void)
{
	made_async(&async, &made);
	memset(&w, 0, sizeof(w));
	python_async_offsets(&w.a, &made.heap.objects, async.described);
	callback_set(async.tasks[1], method_in_c(async.tasks[0]));
	callback_set(async.futures[1], method_in_c(async.tasks[1]));
	if (async.described)
		made_put_u64(&made, async.tasks[1] + async.described->task_awaited_by,
			     async.tasks[0]);
}

/* Both awaiting tasks, the nearest first. */
static void check_both(uint32_t nr)
{
	const uint64_t words[] = { code_of(async.coroutines[1]), 0, code_of(async.outer),
				   code_of(async.inner), 0 };

	cr_assert_eq(w.stop, AWAIT_STOP_COMPLETE, "%u: %u", nr, w.stop);
	cr_assert_eq(w.nr, 5, "%u: %u words", nr, w.nr);
	cr_assert_eq(memcmp(w.words, words, sizeof(words)), 0);
	cr_assert_eq(w.nr_tasks, 2);
}

Test(python_awaiters, right)
{
	FOR_EACH_VERSION(nr)
	{
		tasks_make();
		walk(async.tasks[2]);
		check_both(nr);
		cr_assert_eq(w.flags, 0);
		walk(async.tasks[0]);
		cr_assert_eq(w.nr, 0);
		cr_assert_eq(w.stop, AWAIT_STOP_COMPLETE);
	}
}

/* Up to 3.13: other callbacks that lead to the awaiting task. */
Test(python_awaiters, callbacks)
{
	FOR_EACH_VERSION(nr)
	{
		uint64_t pairs[4], entries[2], callbacks[2], tuple;

		tasks_make();
		if (async.described)
			continue;
		/* wait_for() */
		tuple = made_tuple(&made, &async.futures[1], 1);
		callback_set(async.tasks[2], holder("functools.partial", tuple));
		walk(async.tasks[2]);
		check_both(nr);
		/* The awaiting task is in the list, behind a method of a set. */
		callbacks[0] = method_in_c(made_set(&made, NULL, 0));
		callbacks[1] = method_in_c(async.tasks[1]);
		entries[0] = made_tuple(&made, &callbacks[0], 1);
		entries[1] = made_tuple(&made, &callbacks[1], 1);
		callback_set(async.futures[1], callbacks[0]);
		made_put_u64(&made, async.futures[1] + made.heap.objects.object_size + 24,
			     made_list(&made, entries, 2));
		walk(async.tasks[2]);
		check_both(nr);
		/* A method of a task that waits for something else. */
		callback_set(async.tasks[2], method_in_c(async.tasks[1]));
		walk(async.tasks[2]);
		cr_assert_eq(w.nr_tasks, 0);
		if (made.heap.objects.instance == PYTHON_INSTANCE_DICT)
			continue;
		pairs[0] = made_str(&made, "_loop");
		pairs[1] = async.loop;
		pairs[2] = made_str(&made, "_parent_task");
		pairs[3] = async.tasks[1];
		callback_set(async.tasks[2],
			     holder("method", made_instance(&made, "TaskGroup", pairs, 2)));
		callback_set(async.tasks[1], method_in_c(async.tasks[0]));
		/* made_instance() has no basic size. */
		if (made.heap.objects.instance == PYTHON_INSTANCE_INLINE)
			made_put_u64(&made,
				     made_type(&made, "TaskGroup", 0) +
					     made.heap.objects.type_basic,
				     made.heap.objects.object_size);
		walk(async.tasks[2]);
		check_both(nr);
	}
}

/* From 3.14 on several tasks may await one. */
Test(python_awaiters, several)
{
	FOR_EACH_VERSION(nr)
	{
		uint64_t set;

		tasks_make();
		if (!async.described)
			continue;
		set = made_set(&made, &async.tasks[1], 1);
		made_put_u64(&made, set + made.heap.objects.set_mask - 8, 2);
		made_put_u64(&made, async.tasks[2] + async.described->task_awaited_by, set);
		made.bytes[async.tasks[2] + async.described->task_awaited_by_is_set - MADE_BASE] =
			1;
		walk(async.tasks[2]);
		check_both(nr);
		cr_assert_eq(w.flags, BPFPROF_AWAIT_SEVERAL);
		made_put_u64(&made, set + made.heap.objects.set_mask, 1ULL << 40);
		made_put_u64(&made, set + made.heap.objects.set_table, async.loop);
		walk(async.tasks[2]);
		cr_assert_neq(w.stop, AWAIT_STOP_COMPLETE);
	}
}

Test(python_awaiters, cycles)
{
	FOR_EACH_VERSION(nr)
	{
		tasks_make();
		/* The second task awaits the first one, which awaits the second one. */
		callback_set(async.tasks[0], method_in_c(async.tasks[1]));
		made_put_u64(&made, async.tasks[1] + w.a.task_coro - 8, async.tasks[0]);
		if (async.described)
			made_put_u64(&made, async.tasks[0] + async.described->task_awaited_by,
				     async.tasks[1]);
		walk(async.tasks[0]);
		cr_assert_eq(w.stop, AWAIT_STOP_DEPTH);
		/* A coroutine that awaits itself, and a wrapper. */
		made_put_u64(&made, made_coroutine_top(&made, async.inner), async.inner);
		walk(async.tasks[1]);
		cr_assert_eq(w.stop, AWAIT_STOP_DEPTH);
		uint64_t wrapper = made_object(&made, "coroutine_wrapper", 0, 64);

		made_put_u64(&made, wrapper + made.heap.objects.object_size, wrapper);
		made_put_u64(&made, made_coroutine_top(&made, async.inner), wrapper);
		walk(async.tasks[1]);
		cr_assert_eq(w.stop, AWAIT_STOP_SEARCH);
	}
}

/* The dict of the running tasks. */
Test(python_awaiters, running)
{
	FOR_EACH_VERSION(nr)
	{
		uint64_t pairs[2 * AWAIT_CANDIDATES + 2], task;

		tasks_make();
		for (int i = 0; i <= AWAIT_CANDIDATES; i++) {
			pairs[2 * i] = async.loop;
			pairs[2 * i + 1] = async.tasks[2];
		}
		w.a.current = made_dict(&made, pairs, AWAIT_CANDIDATES + 1, MADE_KEYS_GENERAL);
		cr_assert_eq(await_running(&w, &made.reader), 0);
		cr_assert_geq(w.source.left, AWAIT_CANDIDATES + 1);
		for (; w.source.left--; w.source.at += w.source.stride)
			if (!made.reader.read(&made.reader, w.source.at, &task, 8) && task)
				await_candidate(&w, &made.reader, task);
		cr_assert_eq(w.nr_candidates, AWAIT_CANDIDATES);
		cr_assert(w.cut);
		cr_assert_eq(w.tasks[0], async.tasks[2]);
		find_frames();
		cr_assert_eq(w.stop, AWAIT_STOP_COMPLETE);
		for (int i = 0; i < AWAIT_CANDIDATES; i++)
			cr_assert_eq(w.frames[i],
				     await_frame_of(&w, &made.reader, async.coroutines[2]));
		for (size_t k = 0; k < NR_WILD; k++) {
			made_put_u64(&made, w.a.current + made.heap.objects.dict_keys, wild[k]);
			if (!await_running(&w, &made.reader))
				cr_assert_leq(w.source.left, AWAIT_DICT_ENTRIES);
		}
	}
}

/* Some running tasks have coroutines of Cython, and one of these is bad. */
Test(python_awaiters, running_of_cython)
{
	FOR_EACH_VERSION(nr)
	{
		uint64_t roots[4];

		tasks_make();
		roots[0] = async.roots[1];
		roots[1] = made_object(&made, "Bad", 0, 64);
		roots[2] = made_described(&made, "generator", "gi_yieldfrom", async.outer);
		roots[3] = async.roots[0];
		made_put_u64(&made, made_type(&made, "Bad", 0) + made.heap.objects.type_members,
			     MADE_END);
		for (int i = 0; i < 4; i++) {
			made_put_u64(&made, async.tasks[2] + w.a.task_coro, roots[i]);
			await_candidate(&w, &made.reader, async.tasks[2]);
		}
		find_frames();
		cr_assert_eq(w.stop, AWAIT_STOP_COMPLETE);
		cr_assert_eq(w.frames[0], await_frame_of(&w, &made.reader, async.coroutines[1]));
		cr_assert_eq(w.frames[1], 0);
		cr_assert_eq(w.frames[2], await_frame_of(&w, &made.reader, async.outer));
		cr_assert_eq(w.frames[3], w.frames[2]);
		cr_assert_eq(w.nr_framed, 3);
		cr_assert(!w.cut);
	}
}

/* The fields of a type are looked at once in a chain of its objects. */
Test(python_awaiters, fields_once)
{
	FOR_EACH_VERSION(nr)
	{
		uint64_t coroutine, first, second;

		tasks_make();
		coroutine = async.coroutines[1];
		walk(async.tasks[2]);
		first = made.nr_reads;
		for (int i = 0; i < 8; i++)
			coroutine = made_coroutine(&made, "coroutine", coroutine);
		made_put_u64(&made, async.tasks[1] + w.a.task_coro, coroutine);
		walk(async.tasks[2]);
		second = made.nr_reads - first;
		cr_assert_eq(w.nr, 5 + 8);
		/* For each: its type, the name of that, a frame and its values, and the code. */
		cr_assert_leq(second, 8 * 10, "%u: %llu", nr, (unsigned long long)second);
	}
}

/* Types that describe more or other fields. */
Test(python_awaiters, fields)
{
	FOR_EACH_VERSION(nr)
	{
		struct python_member member = { .type = PYTHON_MEMBER_OBJECT };
		uint64_t type, root;

		tasks_make();
		/* Up to 0.29 types of Cython have the names of CPython's. */
		root = made_described(&made, "async_generator", "ag_await", async.coroutines[1]);
		made_put_u64(&made, async.tasks[1] + w.a.task_coro, root);
		walk(async.tasks[2]);
		check_both(nr);
		/* A field that Python code can set does not say what the object awaits. */
		root = made_described(&made, "generator", "gi_yieldfrom", async.coroutines[1]);
		type = made_type(&made, "generator", 0);
		member.offset = made.heap.objects.object_size + 56;
		made_member(&made, type, 1, "gi_yieldfrom", &member);
		made_put_u64(&made, async.tasks[1] + w.a.task_coro, root);
		walk(async.tasks[2]);
		cr_assert(!w.nr || w.words[0] != code_of(async.coroutines[1]));
		/* More fields than are looked at: it describes nothing. */
		root = made_object(&made, "Many", 0, 128);
		for (uint32_t i = 0; i <= PYTHON_MAX_MEMBERS; i++)
			made_member(&made, made_type(&made, "Many", 0), i, "field", &member);
		made_put_u64(&made, async.tasks[1] + w.a.task_coro, root);
		walk(async.tasks[2]);
		cr_assert_eq(w.stop, AWAIT_STOP_COMPLETE);
		cr_assert_eq(w.nr_tasks, 2);
		/* An awaitable that describes nothing ends the chain, not the search. */
		root = made_object(&made, "Nothing", 0, 128);
		made_put_u64(&made, async.tasks[1] + w.a.task_coro, root);
		walk(async.tasks[2]);
		cr_assert_eq(w.stop, AWAIT_STOP_COMPLETE);
		cr_assert_eq(w.nr_tasks, 2);
	}
}

/* Any word of all that is read may be any address. */
Test(python_awaiters, wild)
{
	FOR_EACH_VERSION(nr)
	{
		const struct python_heap_layout *l = &made.heap.objects;

		tasks_make();
		uint64_t places[] = { async.tasks[2] + l->object_size + 8,
				      async.tasks[2] + l->object_size + 24,
				      async.tasks[2] + l->object_type,
				      async.futures[1] + l->object_size + 8,
				      async.futures[1] + l->object_size + 24,
				      async.futures[1] + l->object_type,
				      async.tasks[2] + 96,
				      async.tasks[1] + 96,
				      async.tasks[2] + 104,
				      async.tasks[1] + w.a.task_coro - 8,
				      async.tasks[1] + w.a.task_coro,
				      async.outer + l->object_type,
				      async.inner + l->gen_frame,
				      async.middle + l->object_type,
				      async.middle + l->object_size + 56,
				      async.roots[1] + l->object_size + 56,
				      made_type(&made, CYTHON_TYPE, 0) + l->type_members,
				      made_type(&made, CYTHON_TYPE, 0) + l->type_name,
				      made_coroutine_top(&made, async.outer),
				      made_coroutine_top(&made, async.inner),
				      made_type(&made, "coroutine", 0) + l->type_name,
				      made_type(&made, "coroutine", 0) + l->type_base,
				      made_type(&made, "_asyncio.Future", 0) + l->type_base };

		for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++)
			for (size_t k = 0; k < NR_WILD; k++) {
				uint64_t before;

				memcpy(&before, made.bytes + (places[i] - MADE_BASE), 8);
				made_put_u64(&made, places[i], wild[k]);
				for (int t = 0; t < MADE_TASKS; t++)
					walk(async.tasks[t]);
				w.nr_candidates = 0;
				for (int t = 0; t < MADE_TASKS; t++)
					await_candidate(&w, &made.reader, async.tasks[t]);
				find_frames();
				made_put_u64(&made, places[i], before);
			}
		walk(async.tasks[2]);
		check_both(nr);
	}
}
