// SPDX-License-Identifier: Apache-2.0
#include "python_async.h"

#include <string.h>

#define SET_ENTRIES 8
#define FRAME_BYTES 768
#define FIELD_AT 56 /* of the awaited object in one of Cython, behind the header */
#define DESCRIBED_BYTES 136
#define CYTHON_TYPE(name) "_cython_3_0_12." name

/* As 3.14 describes them. */
static const struct python_async_layout described = {
	.task_name = 136,
	.task_awaited_by = 96,
	.task_awaited_by_is_set = 109,
	.task_coro = 128,
	.task_node = 152,
	.interpreter_tasks = 10880,
	.thread_loop = 864,
	.thread_task = 872,
	.thread_tasks = 880,
};

static uint64_t frame_of(struct made_objects *m, uint64_t coroutine)
{
	const struct python_heap_layout *l = &m->heap.objects;
	uint64_t frame = coroutine + l->gen_frame;

	if (l->stack_form <= PYTHON_STACK_DEPTH)
		m->reader.read(&m->reader, frame, &frame, 8);
	return frame;
}

uint64_t made_coroutine_top(struct made_objects *m, uint64_t coroutine)
{
	const struct python_heap_layout *l = &m->heap.objects;

	/* One local lies before the stack. */
	return frame_of(m, coroutine) +
	       (l->stack_form <= PYTHON_STACK_DEPTH ? FRAME_BYTES / 2 : l->frame_locals + 8);
}

static uint64_t code_make(struct made_objects *m)
{
	const struct bpfprof_python_layout *l = &m->layout;
	uint64_t code = made_alloc(m, 512), name = made_str(m, "work");

	made_put_u64(m, code + l->code_name, name);
	if (l->code_qualname)
		made_put_u64(m, code + l->code_qualname, name);
	made_put_u64(m, code + l->code_filename, name);
	made_put_u64(m, code + l->code_linetable, made_bytes(m, "\x80\x00\x81", 3));
	made_put_u32(m, code + m->heap.objects.code_nr, 1);
	return code;
}

/* Sets the end of the values of a frame, which has one of them. */
static void stack_set(struct made_objects *m, uint64_t frame, uint64_t top)
{
	const struct python_heap_layout *l = &m->heap.objects;

	switch (l->stack_form) {
	case PYTHON_STACK_INDEX:
		made_put_u32(m, frame + l->frame_stack, 2);
		break;
	case PYTHON_STACK_DEPTH:
		made_put_u32(m, frame + l->frame_stack, 1);
		break;
	default:
		made_put_u64(m, frame + l->frame_stack, top + 8);
	}
	if (l->frame_stack_base)
		made_put_u64(m, frame + l->frame_stack_base, top);
}

void made_member(struct made_objects *m, uint64_t type, uint32_t number, const char *name,
		 const struct python_member *member)
{
	uint64_t at = type + m->heap.objects.type_members, text, members;
	struct python_member made_one = *member;

	m->reader.read(&m->reader, at, &members, 8);
	if (!members) {
		members = made_alloc(m, (PYTHON_MAX_MEMBERS + 2) * sizeof(*member));
		made_put_u64(m, at, members);
	}
	text = made_alloc(m, strlen(name) + 1);
	made_put(m, text, name, strlen(name) + 1);
	made_one.name = text;
	made_put(m, members + number * sizeof(*member), &made_one, sizeof(made_one));
}

uint64_t made_coroutine(struct made_objects *m, const char *type, uint64_t awaited)
{
	const struct python_member origin = { .type = PYTHON_MEMBER_OBJECT, .flags = 1 };
	const struct python_heap_layout *l = &m->heap.objects;
	uint64_t va = made_object(m, type, 0, 256 + FRAME_BYTES), code = code_make(m), frame;

	made_member(m, made_type(m, type, 0), 0, "cr_origin", &origin);

	if (l->stack_form <= PYTHON_STACK_DEPTH)
		made_put_u64(m, va + l->gen_frame, made_alloc(m, FRAME_BYTES));
	frame = frame_of(m, va);
	made_put_u64(m, frame + m->layout.frame_code, code);
	if (m->layout.chain == PYTHON_CHAIN_OBJECTS)
		made_put_u32(m, frame + m->layout.frame_lasti, 2);
	else
		made_put_u64(m, frame + m->layout.frame_lasti, code + m->layout.code_adaptive + 2);
	stack_set(m, frame, made_coroutine_top(m, va));
	made_put_u64(m, made_coroutine_top(m, va), awaited);
	return va;
}

uint64_t made_described(struct made_objects *m, const char *type, const char *field,
			uint64_t awaited)
{
	const struct python_heap_layout *l = &m->heap.objects;
	struct python_member member = { .type = 14, .offset = l->object_size + 120 };
	uint64_t va = made_object(m, type, 0, 256), type_va = made_type(m, type, 0);

	made_put_u64(m, type_va + l->type_basic, l->object_size + DESCRIBED_BYTES);
	made_member(m, type_va, 0, "cr_running", &member);
	member = (struct python_member){ .type = PYTHON_MEMBER_OBJECT,
					 .offset = l->object_size + FIELD_AT,
					 .flags = PYTHON_MEMBER_READONLY };
	made_member(m, type_va, 1, field, &member);
	made_put_u64(m, va + l->object_size + FIELD_AT, awaited);
	return va;
}

uint64_t made_wrapper(struct made_objects *m, const char *type, uint64_t awaited)
{
	uint64_t va = made_object(m, type, 0, 64);

	made_put_u64(m, va + m->heap.objects.object_size, awaited);
	return va;
}

uint64_t made_set(struct made_objects *m, const uint64_t *keys, size_t nr)
{
	const struct python_heap_layout *l = &m->heap.objects;
	uint64_t set = made_object(m, "set", 0, 128), table = made_alloc(m, SET_ENTRIES * 16);

	made_put_u64(m, set + l->set_mask, SET_ENTRIES - 1);
	made_put_u64(m, set + l->set_table, table);
	for (size_t i = 0; i < nr && i < SET_ENTRIES - 1; i++)
		made_put_u64(m, table + i * 16, keys[i]);
	/* An entry that was removed keeps a key, and has the hash -1. */
	made_put_u64(m, table + (SET_ENTRIES - 1) * 16, set);
	made_put_u64(m, table + (SET_ENTRIES - 1) * 16 + 8, UINT64_MAX);
	return set;
}

static uint64_t future_make(struct made_objects *m, const struct made_async *a, const char *type)
{
	uint64_t va = made_object(m, type, 0, 256);

	made_put_u64(m, va + m->heap.objects.object_size, a->loop);
	return va;
}

static void task_fill(struct made_objects *m, const struct made_async *a, uint32_t i,
		      uint64_t waiter, const char *name)
{
	const struct python_heap_layout *l = &m->heap.objects;
	uint64_t task = a->tasks[i];
	uint64_t coro =
		task + (a->described ? a->described->task_coro : l->object_size + l->task_coro);

	made_put_u64(m, coro - 8, waiter);
	made_put_u64(m, coro, a->roots[i]);
	made_put_u64(m, coro + 8, *name ? made_str(m, name) : made_int(m, 7));
}

/* A function whose closure has one cell. */
static uint64_t callback_make(struct made_objects *m, uint64_t held)
{
	const struct python_heap_layout *l = &m->heap.objects;
	uint64_t function = made_object(m, "function", 0, 256),
		 cell = made_object(m, "cell", 0, 64);

	made_put_u64(m, cell + l->cell_value, held);
	made_put_u64(m, function + l->function_closure, made_tuple(m, &cell, 1));
	return function;
}

/* The list of tasks that 3.14 and later have in each thread. */
static void list_make(struct made_objects *m, struct made_async *a)
{
	uint64_t at = a->head, node;

	for (uint32_t i = 0; i < MADE_TASKS; i++, at = node) {
		node = a->tasks[i] + a->described->task_node;
		made_put_u64(m, at, node);
		made_put_u64(m, node + 8, at);
	}
	made_put_u64(m, at, a->head);
	made_put_u64(m, a->head + 8, at);
}

static uint64_t module_make(struct made_objects *m, struct made_async *a)
{
	uint64_t weak[MADE_TASKS], current[] = { a->loop, a->tasks[2] }, data[2];

	for (uint32_t i = 0; i < MADE_TASKS; i++) {
		weak[i] = made_object(m, "weakref", 0, 64);
		made_put_u64(m, weak[i] + m->heap.objects.object_size,
			     a->described ? 0 : a->tasks[i]);
	}
	a->set = made_set(m, weak, MADE_TASKS);
	data[0] = made_str(m, "data");
	data[1] = a->set;

	uint64_t globals[] = {
		made_str(m, "_scheduled_tasks"), made_instance(m, "WeakSet", data, 1),
		made_str(m, "_eager_tasks"),	 made_set(m, a->tasks, MADE_TASKS),
		made_str(m, "_current_tasks"),	 made_dict(m, current, 1, MADE_KEYS_GENERAL)
	};

	return made_module(m, globals, 3);
}

static void thread_fill(struct made_objects *m, struct made_async *a)
{
	const struct python_heap_layout *l = &m->heap.objects;
	uint64_t pair[] = { made_str(m, "__asyncio_running_event_loop__"), a->loop };

	if (a->described) {
		made_put_u64(m, a->tstate + a->described->thread_loop, a->loop);
		made_put_u64(m, a->tstate + a->described->thread_task, a->tasks[2]);
		a->head = a->tstate + a->described->thread_tasks;
		list_make(m, a);
	} else if (l->tstate_loop) {
		made_put_u64(m, a->tstate + l->tstate_loop, a->loop);
	} else {
		made_put_u64(m, a->tstate + l->tstate_dict, made_dict(m, pair, 1, MADE_KEYS_STR));
	}
}

static void interpreter_fill(struct made_objects *m, struct made_async *a)
{
	uint64_t modules[2];

	a->interpreter = made_alloc(m, 16384);
	a->tstate = made_alloc(m, 2048);
	made_put_u64(m, MADE_RUNTIME + m->layout.runtime_interpreters, a->interpreter);
	made_put_u64(m, a->interpreter + m->layout.interpreter_threads, a->tstate);
	made_put_u64(m, a->tstate + m->layout.tstate_thread, 0x7f0000001000);
	made_put_u64(m, a->tstate + m->layout.tstate_next + 8, a->interpreter);
	modules[0] = made_str(m, "asyncio.tasks");
	modules[1] = module_make(m, a);
	made_put_u64(m, a->interpreter + m->heap.objects.interpreter_modules,
		     made_dict(m, modules, 1, MADE_KEYS_STR));
}

void made_async(struct made_async *a, struct made_objects *m)
{
	uint64_t iter;

	*a = (struct made_async){ .described = m->layout.version >= 0x30e ? &described : NULL };
	a->loop = made_object(m, "Loop", 0, 64);
	made_put_u64(m, made_type(m, "_asyncio.Task", 0) + m->heap.objects.type_base,
		     made_type(m, "_asyncio.Future", 0));
	for (uint32_t i = 0; i < MADE_TASKS; i++)
		a->tasks[i] = future_make(m, a, "_asyncio.Task");
	for (uint32_t i = 0; i < MADE_TASKS; i++) {
		a->futures[i] = future_make(m, a, "_asyncio.Future");
		iter = made_wrapper(m, "_asyncio.FutureIter", i ? a->futures[i] : a->tasks[1]);
		a->coroutines[i] = made_coroutine(m, "coroutine", iter);
	}
	a->inner = a->coroutines[0];
	a->middle = made_described(m, CYTHON_TYPE("coroutine"), "cr_await",
				   made_wrapper(m, "coroutine_wrapper", a->inner));
	a->outer = a->coroutines[0] = made_coroutine(
		m, "coroutine", made_wrapper(m, CYTHON_TYPE("coroutine_wrapper"), a->middle));
	memcpy(a->roots, a->coroutines, sizeof(a->roots));
	a->roots[1] = made_described(m, CYTHON_TYPE("coroutine"), "cr_await",
				     made_wrapper(m, "coroutine_wrapper", a->coroutines[1]));
	task_fill(m, a, 0, a->tasks[1], "first");
	task_fill(m, a, 1, a->futures[1], "second");
	task_fill(m, a, 2, a->futures[2], "");
	made_put_u64(m, a->tasks[2] + m->heap.objects.object_size + 8,
		     callback_make(m, a->futures[1]));
	if (a->described)
		made_put_u64(m, a->tasks[2] + a->described->task_awaited_by, a->tasks[1]);
	interpreter_fill(m, a);
	thread_fill(m, a);
}
