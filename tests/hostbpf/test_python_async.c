// SPDX-License-Identifier: Apache-2.0
/* Tasks of asyncio in a heap with right and false content, for each layout of the versions. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "python/async_edges.h"
#include "python/async_tasks.h"
#include "python/awaits.h"
#include "python/chain.h"
#include "python/tstates.h"
#include "python_async.h"
#include "python_process.h"

#define MAX_READS 3000000 /* after any change of one word */

TestSuite(python_async, .timeout = 120);

static struct made_async async;

static void read_tasks(struct python_async_tasks *ret)
{
	struct python_tstates tstates;

	cr_assert_eq(python_tstates_read(&tstates, &made.heap), 0);
	made.nr_reads = 0;
	cr_assert_eq(
		python_async_tasks_read(ret, &made.heap, &tstates, async.described, NULL, NULL), 0);
	cr_assert_eq(python_async_edges_find(ret, &made.heap, async.described, NULL, NULL), 0);
	python_tstates_fini(&tstates);
}

static struct python_chain *walk(uint64_t coroutine, uint64_t *ret_end)
{
	static struct python_chain chain;

	made.nr_reads = 0;
	python_awaits_walk(&chain, &made.heap, coroutine, ret_end);
	return &chain;
}

static struct python_awaits_root root_of(uint64_t coroutine)
{
	struct python_awaits_root root;

	python_awaits_root(&root, &made.heap, coroutine);
	return root;
}

Test(python_async, right)
{
	FOR_EACH_VERSION(nr)
	{
		static const char *const names[] = { "first", "second", "Task-7" };
		struct python_async_tasks tasks;
		struct python_chain *chain;
		uint64_t end;
		char *name;

		made_async(&async, &made);
		read_tasks(&tasks);
		cr_assert_eq(tasks.nr, 3, "%u: %zu tasks", nr, tasks.nr);
		cr_assert_eq(tasks.nr_loops, 1);
		cr_assert_eq(tasks.loops[0].running, async.tasks[2]);
		for (uint32_t i = 0; i < MADE_TASKS; i++) {
			uint32_t at = python_async_task_find(&tasks, async.tasks[i]);

			cr_assert_neq(at, PYTHON_NO_TASK);
			cr_assert_eq(tasks.tasks[at].coroutine, async.roots[i]);
			cr_assert_eq(tasks.tasks[at].is_running, i == 2);
			cr_assert_eq(python_async_task_name(&made.heap, &tasks.tasks[at], &name),
				     0);
			cr_assert_str_eq(name, names[i]);
			free(name);
		}
		cr_assert_eq(tasks.nr_edges, 2, "%u: %zu edges", nr, tasks.nr_edges);
		for (size_t i = 0; i < 2; i++) {
			uint64_t task = tasks.tasks[tasks.edges[i].task].va;

			cr_assert_eq(tasks.tasks[tasks.edges[i].awaiter].va,
				     task == async.tasks[1] ? async.tasks[0] : async.tasks[1]);
		}
		cr_assert_eq(tasks.nr_bad + tasks.nr_over + tasks.nr_idle + tasks.torn, 0);
		python_async_tasks_fini(&tasks);
		chain = walk(async.outer, &end);
		cr_assert_eq(chain->stop, PYTHON_STOP_COMPLETE);
		cr_assert_eq(chain->nr_frames, 3);
		cr_assert_eq(end, async.tasks[1]);
		cr_assert_eq(chain->frames[0].frame_va, root_of(async.inner).frame);
		cr_assert_eq(chain->frames[1].frame_va, async.middle);
		cr_assert_eq(chain->frames[1].lasti, PYTHON_CHAIN_NO_FRAME);
		cr_assert_eq(chain->frames[2].frame_va, root_of(async.outer).frame);
		cr_assert_eq(made.heap.counts.nr_bad + made.heap.counts.nr_unreadable, 0);
	}
}

/* A generator that yields a value of its own awaits nothing, whatever lies on its stack. */
Test(python_async, generators)
{
	FOR_EACH_VERSION(nr)
	{
		uint64_t inner = made_coroutine(&made, "coroutine", 0), end;
		uint64_t generator = made_coroutine(&made, "generator", inner);

		cr_assert_eq(walk(generator, &end)->nr_frames, 1);
		cr_assert_eq(end, 0);
		if (!made.heap.objects.gen_state)
			continue;
		made.bytes[generator - MADE_BASE + made.heap.objects.gen_state] =
			(uint8_t)made.heap.objects.yield_from;
		cr_assert_eq(walk(generator, &end)->nr_frames, 2);
	}
}

/* The fields that a type describes. */
Test(python_async, fields)
{
	FOR_EACH_VERSION(nr)
	{
		struct python_member member = { .type = PYTHON_MEMBER_OBJECT, .flags = 1 };
		struct python_awaits_root root;
		struct python_chain *chain;
		uint64_t inner, outer, type, end;
		char name[64];

		made_async(&async, &made);
		/* The root of a task, as Ray has it. */
		chain = walk(async.roots[1], &end);
		cr_assert_eq(chain->nr_frames, 2);
		cr_assert_eq(chain->frames[1].frame_va, async.roots[1]);
		cr_assert_eq(end, async.futures[1]);
		python_awaits_name(&made.heap, &chain->frames[1], name, sizeof(name));
		cr_assert_str_eq(name, "[_cython_3_0_12.coroutine]");
		root = root_of(async.roots[1]);
		cr_assert_eq(root.frame, chain->frames[0].frame_va);
		cr_assert_eq(root.nr_outer, 1);
		cr_assert_eq(root.outer[0].frame_va, async.roots[1]);
		/* Up to 0.29 types of Cython have the names of CPython's. */
		inner = made_described(&made, "generator", "gi_yieldfrom", async.inner);
		outer = made_described(&made, "async_generator", "ag_await", inner);
		chain = walk(outer, &end);
		cr_assert_eq(chain->nr_frames, 3);
		cr_assert_eq(chain->frames[2].frame_va, outer);
		cr_assert_eq(chain->frames[1].frame_va, inner);
		cr_assert_eq(end, async.tasks[1]);
		cr_assert_eq(made.heap.counts.nr_bad + made.heap.counts.nr_unreadable +
				     made.heap.counts.nr_cut,
			     0);
		/* A field that Python code can set, as those of __slots__, and one of numbers. */
		inner = made_object(&made, "Slots", 0, 128);
		type = made_type(&made, "Slots", 0);
		member.offset = made.heap.objects.object_size;
		member.flags = 0;
		made_member(&made, type, 0, "cr_await", &member);
		member.flags = PYTHON_MEMBER_READONLY;
		member.type = 1;
		made_member(&made, type, 1, "cr_await", &member);
		made_put_u64(&made, inner + member.offset, async.inner);
		cr_assert_eq(walk(inner, &end)->nr_frames, 0);
		cr_assert_eq(end, inner);
		cr_assert_eq(made.heap.counts.nr_bad, 0);
		/* A field outside of its object. */
		inner = made_object(&made, "Outside", 0, 128);
		member.type = PYTHON_MEMBER_OBJECT;
		member.offset = made.heap.objects.object_size;
		made_member(&made, made_type(&made, "Outside", 0), 0, "cr_await", &member);
		cr_assert_eq(walk(inner, &end)->nr_frames, 0);
		cr_assert_eq(made.heap.counts.nr_bad, 1);
		/* More fields than are looked at. */
		inner = made_object(&made, "Many", 0, 128);
		for (uint32_t i = 0; i <= PYTHON_MAX_MEMBERS; i++)
			made_member(&made, made_type(&made, "Many", 0), i, "field", &member);
		cr_assert_eq(walk(inner, &end)->nr_frames, 0);
		cr_assert_eq(made.heap.counts.nr_cut, 1);
		/* Coroutines of Cython that await themselves. */
		outer = made_described(&made, "_cython_3_1_4.coroutine", "cr_await", 0);
		made_put_u64(&made, outer + made.heap.objects.object_size + 56, outer);
		cr_assert_eq(walk(outer, &end)->stop, PYTHON_STOP_BAD);
		cr_assert_eq(made.heap.counts.nr_cyclic, 1);
		cr_assert_eq(root_of(outer).nr_outer, PYTHON_AWAITS_OUTER);
		cr_assert_eq(root_of(outer).frame, 0);
		cr_assert_eq(made.heap.counts.nr_cut, 3);
	}
}

Test(python_async, cycles)
{
	FOR_EACH_VERSION(nr)
	{
		struct python_async_tasks tasks;
		uint64_t end, first, second, weak;

		/* Coroutines that await each other, and a wrapper of itself. */
		first = made_coroutine(&made, "coroutine", 0);
		second = made_coroutine(&made, "coroutine", first);
		made_put_u64(&made, made_coroutine_top(&made, first), second);
		cr_assert_eq(walk(first, &end)->stop, PYTHON_STOP_BAD);
		cr_assert_eq(end, 0);
		cr_assert_lt(made.nr_reads, 200);
		weak = made_object(&made, "coroutine_wrapper", 0, 64);
		made_put_u64(&made, weak + made.heap.objects.object_size, weak);
		cr_assert_eq(walk(weak, &end)->stop, PYTHON_STOP_BAD);
		cr_assert_eq(made.heap.counts.nr_cyclic, 2);
		made_async(&async, &made);
		if (!async.described)
			continue;
		/* A list that comes back to its second node, and never to its head. */
		made_put_u64(&made, async.tasks[2] + async.described->task_node,
			     async.tasks[1] + async.described->task_node);
		read_tasks(&tasks);
		cr_assert_eq(tasks.nr, 3);
		cr_assert_lt(made.nr_reads, 5000);
		cr_assert(tasks.torn);
		python_async_tasks_fini(&tasks);
	}
}

/* The chain is cut at the depth of a thread's. */
Test(python_async, deep)
{
	uint64_t va = 0, end;

	made_init(&made, 0);
	for (int i = 0; i < 400; i++)
		va = made_coroutine(&made, "coroutine", va);
	cr_assert_eq(walk(va, &end)->nr_frames, 400);
	cr_assert_eq(walk(va, &end)->stop, PYTHON_STOP_COMPLETE);
}

Test(python_async, huge_set)
{
	FOR_EACH_VERSION(nr)
	{
		struct python_async_tasks tasks;

		made_async(&async, &made);
		made_put_u64(&made, async.set + made.heap.objects.set_mask, (1ULL << 40) - 1);
		read_tasks(&tasks);
		cr_assert_eq(made.heap.counts.nr_cut, 1);
		cr_assert_eq(tasks.nr, 3); /* those of the other sets and lists */
		cr_assert(tasks.torn);
		python_async_tasks_fini(&tasks);
		made_put_u64(&made, async.set + made.heap.objects.set_mask, (1ULL << 24) - 1);
		read_tasks(&tasks); /* ends where the memory ends */
		cr_assert_lt(made.nr_reads, MAX_READS);
		python_async_tasks_fini(&tasks);
	}
}

/* Any word of all that is read may be any address. */
Test(python_async, wild)
{
	FOR_EACH_VERSION(nr)
	{
		made_async(&async, &made);
		uint64_t places[] = { async.loop,
				      async.outer + made.heap.objects.object_type,
				      async.middle + made.heap.objects.object_size + 56,
				      async.middle + made.heap.objects.object_type,
				      made_type(&made, "_cython_3_0_12.coroutine", 0) +
					      made.heap.objects.type_members,
				      async.inner + made.heap.objects.gen_frame,
				      made_coroutine_top(&made, async.outer),
				      made_coroutine_top(&made, async.inner),
				      async.set + made.heap.objects.set_table,
				      async.set + made.heap.objects.set_mask,
				      async.head,
				      async.tasks[0] + made.heap.objects.object_size,
				      async.tasks[1] + made.heap.objects.object_size + 8,
				      async.tasks[1] + made.heap.objects.object_size + 24,
				      async.tasks[2] + made.heap.objects.object_size + 8,
				      async.tasks[1] + 96,
				      async.tasks[1] + 112,
				      async.tasks[1] + 120,
				      async.tasks[1] + 128,
				      async.tasks[1] + 136,
				      async.tasks[1] + 152,
				      async.tasks[1] + made.heap.objects.object_type };

		for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++)
			for (size_t k = 0; k < NR_WILD && places[i]; k++) {
				struct python_async_tasks tasks;
				uint64_t end, before;

				memcpy(&before, made.bytes + (places[i] - MADE_BASE), 8);
				made_put_u64(&made, places[i], wild[k]);
				read_tasks(&tasks);
				for (size_t t = 0; t < tasks.nr; t++)
					walk(tasks.tasks[t].coroutine, &end);
				walk(async.outer, &end);
				cr_assert_lt(made.nr_reads, MAX_READS);
				python_async_tasks_fini(&tasks);
				made_put_u64(&made, places[i], before);
			}
	}
}

#define NR_LISTED 200

static bool never(void *arg)
{
	++*(int *)arg;
	return false;
}

/* Without time the tasks that are left are counted. */
Test(python_async, late)
{
	FOR_EACH_VERSION(nr)
	{
		struct python_async_tasks tasks;
		struct python_tstates tstates;
		uint64_t table, reference;
		int nr_asked = 0;

		made_async(&async, &made);
		table = made_alloc(&made, 256 * 16);
		made_put_u64(&made, async.set + made.heap.objects.set_mask, 255);
		made_put_u64(&made, async.set + made.heap.objects.set_table, table);
		reference = made_object(&made, "weakref", 0, 64);
		made_put_u64(&made, reference + made.heap.objects.object_size, async.tasks[0]);
		for (int i = 0; i < NR_LISTED; i++)
			made_put_u64(&made, table + (uint64_t)i * 16, reference);
		cr_assert_eq(python_tstates_read(&tstates, &made.heap), 0);
		cr_assert_eq(python_async_tasks_read(&tasks, &made.heap, &tstates, async.described,
						     never, &nr_asked),
			     0);
		cr_assert_eq(nr_asked, 1);
		/* It asks after 64 objects, and has one task by then (3.14: all of its list). */
		cr_assert_eq(tasks.nr, async.described ? 3 : 1);
		cr_assert_geq(tasks.nr_over, NR_LISTED - 64);
		python_tstates_fini(&tstates);
		python_async_tasks_fini(&tasks);
	}
}

/* The time is looked at in a set that is all empty, too. */
Test(python_async, late_in_empty_set)
{
	FOR_EACH_VERSION(nr)
	{
		struct python_async_tasks tasks;
		struct python_tstates tstates;
		uint64_t table;
		int nr_asked = 0;

		made_async(&async, &made);
		table = made_alloc(&made, 16384 * 16);
		made_put_u64(&made, async.set + made.heap.objects.set_mask, 16383);
		made_put_u64(&made, async.set + made.heap.objects.set_table, table);
		cr_assert_eq(python_tstates_read(&tstates, &made.heap), 0);
		cr_assert_eq(python_async_tasks_read(&tasks, &made.heap, &tstates, async.described,
						     never, &nr_asked),
			     0);
		cr_assert_eq(nr_asked, 1);
		cr_assert(tasks.torn);
		python_tstates_fini(&tstates);
		python_async_tasks_fini(&tasks);
	}
}

/* The self-description of _asyncio. */
Test(python_async, described)
{
	/* As 3.14 has it. */
	static const uint64_t right[13] = { 168,    136,   96,	108, 109, 128, 152,
					    225864, 10880, 936, 864, 872, 880 };
	static const uint64_t absurd[] = { 3, 4097, 1ULL << 20, 1ULL << 63, ~0ULL };
	struct python_async_layout layout;
	uint64_t words[13];

	cr_assert_eq(python_async_layout_parse(&layout, (const uint8_t *)right, sizeof(right)), 0);
	cr_assert_eq(layout.task_coro, 128);
	cr_assert_eq(layout.thread_tasks, 880);
	cr_assert_eq(python_async_layout_parse(&layout, (const uint8_t *)right, sizeof(right) - 1),
		     -EBADMSG);
	for (size_t i = 0; i < 13; i++)
		for (size_t k = 0; k < sizeof(absurd) / sizeof(*absurd); k++) {
			memcpy(words, right, sizeof(words));
			words[i] = absurd[k];
			/* One is not read, another one may be any byte, and states may be that large. */
			if (i == 3 || (i == 4 && absurd[k] == 3) ||
			    ((i == 7 || i == 9) && absurd[k] > 4096 && absurd[k] <= 1U << 20))
				continue;
			cr_assert_eq(
				python_async_layout_parse(&layout, (uint8_t *)words, sizeof(words)),
				-EBADMSG, "%zu: %lx", i, absurd[k]);
		}
}
