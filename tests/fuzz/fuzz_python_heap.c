// SPDX-License-Identifier: Apache-2.0
/* fuzz: max_len=512 */
#include "../hostbpf/python_chain.c" /* a fuzzer is one file */
#include "../hostbpf/python_objects.c"
#include "../hostbpf/python_async.c"

#include "python/async_edges.h"
#include "python/async_tasks.h"
#include "python/awaits.h"
#include "python/chain.h"
#include "python/code_read.h"
#include "python/locals.h"
#include "python/objects.h"
#include "python/thread_names.h"
#include "python/tstates.h"

static int python_frame_read(struct unwind_reader *reader, __u64 va, __u32 len, __u8 *dst)
{
	return reader->read(reader, va, dst, len);
}

static int await_frame(struct unwind_reader *reader, __u64 code, __u32 lasti, __u64 *ret)
{
	(void)reader;
	*ret = code ^ lasti;
	return 0;
}

#include "unwind_awaiters.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX_READS (4U << 20)
#define MAX_REPR 4096 /* bytes of 128 characters, or of a double without an exponent */
#define INTERPRETER_BYTES 16384
#define NR_VALUES 8

struct scene {
	struct made_objects objects;
	struct made_async async;
	uint64_t values[NR_VALUES];
	uint64_t code, frame;
};

static uint64_t thread_make(struct made_objects *m, const char *name)
{
	uint64_t pairs[] = { made_str(m, "_started"), made_int(m, 1), made_str(m, "_name"),
			     made_str(m, name) };

	return made_instance(m, "Thread", pairs, 2);
}

static void interpreter_make(struct made_objects *m, uint64_t active)
{
	uint64_t interpreter = made_alloc(m, INTERPRETER_BYTES), first = made_alloc(m, 512);
	uint64_t globals[] = { made_str(m, "Lock"), active, made_str(m, "_active"), active };
	uint64_t modules[] = { made_str(m, "sys"), active, made_str(m, "threading"),
			       made_module(m, globals, 2) };
	uint64_t second = made_alloc(m, 512);

	made_put_u64(m, MADE_RUNTIME + m->layout.runtime_interpreters, interpreter);
	made_put_u64(m, interpreter + m->layout.interpreter_threads, first);
	made_put_u64(m, interpreter + m->heap.objects.interpreter_modules,
		     made_dict(m, modules, 2, MADE_KEYS_STR));
	made_put_u64(m, first + m->layout.tstate_next, second);
	made_put_u64(m, first + m->layout.tstate_next + 8, interpreter);
	made_put_u64(m, second + m->layout.tstate_next + 8, interpreter);
	made_put_u64(m, first + m->layout.tstate_thread, 1);
	made_put_u64(m, second + m->layout.tstate_thread, 2);
}

static void frame_make(struct scene *scene)
{
	static const uint8_t kinds[NR_VALUES] = { 0x20, 0x20, 0x20, 0x60, 0x40, 0x80, 0x30, 0x20 };
	struct made_objects *m = &scene->objects;
	const struct python_heap_layout *l = &m->heap.objects;
	uint64_t names[NR_VALUES];

	for (int i = 0; i < NR_VALUES; i++)
		names[i] = made_str(m, "name");
	scene->code = made_alloc(m, 512);
	scene->frame = made_alloc(m, 512);
	made_put_u32(m, scene->code + l->code_argcount, 2);
	made_put_u32(m, scene->code + l->code_nr, l->code_kinds ? NR_VALUES : 4);
	made_put_u64(m, scene->code + l->code_names, made_tuple(m, names, NR_VALUES));
	if (l->code_kinds) {
		made_put_u64(m, scene->code + l->code_kinds, made_bytes(m, kinds, NR_VALUES));
	} else {
		made_put_u64(m, scene->code + l->code_cellvars, made_tuple(m, names + 3, 2));
		made_put_u64(m, scene->code + l->code_freevars, made_tuple(m, names + 5, 2));
	}
	made_put_u64(m,
		     scene->code + (m->layout.code_qualname ? m->layout.code_qualname
							    : m->layout.code_name),
		     names[0]);
	made_put_u64(m, scene->code + m->layout.code_filename, names[1]);
	made_put_u64(m, scene->code + m->layout.code_linetable, made_bytes(m, "\x80\x00\x81", 3));
	made_put(m, scene->frame + l->frame_locals, scene->values, sizeof(scene->values));
}

static void scene_make(struct scene *scene, uint32_t version)
{
	struct made_objects *m = &scene->objects;
	uint64_t *v = scene->values, pairs[6];

	made_init(m, version);
	v[0] = made_int(m, -(1LL << 40));
	v[1] = made_str(m, "it's");
	v[2] = made_list(m, v, 2);
	v[3] = made_object(m, "cell", 0, 64);
	made_put_u64(m, v[3] + m->heap.objects.cell_value, v[2]);
	v[4] = made_object(m, "float", 0, 64);
	v[5] = made_bytes(m, "\0\n'", 3);
	v[6] = made_tuple(m, v, 3);
	for (uint64_t i = 0; i < 3; i++) {
		pairs[2 * i] = made_int(m, (int64_t)i + 1);
		pairs[2 * i + 1] = thread_make(m, "n");
	}
	interpreter_make(m, made_dict(m, pairs, 3, MADE_KEYS_GENERAL));
	pairs[3] = v[6];
	v[7] = made_dict(m, pairs, 2, MADE_KEYS_SPLIT);
	frame_make(scene);
}

/* Six bytes: which word, and what is written to it. */
static void change(struct scene *scene, const uint8_t *data)
{
	struct made_objects *m = &scene->objects;
	uint64_t used = m->next - MADE_FIRST, value;
	uint32_t what;
	uint16_t at;

	memcpy(&at, data, 2);
	memcpy(&what, data + 2, 4);
	value = what >> 2;
	switch (what & 3) {
	case 0:
		value = MADE_FIRST + value % used;
		break;
	case 1:
		value = (uint64_t)(int64_t)(int32_t)(what & ~3U);
		break;
	case 2:
		value = (value & 255) << (value >> 8 & 63);
		break;
	}
	made_put_u64(m, MADE_FIRST + at * 8ULL % used / 8 * 8, value);
}

static void frames_read(struct scene *scene)
{
	struct python_heap *heap = &scene->objects.heap;
	struct python_locals locals;
	struct python_code code;

	if (!python_locals_read(&locals, heap, scene->code, scene->frame, PYTHON_REPR_CHARS)) {
		for (size_t i = 0; i < locals.nr; i++)
			if (!locals.locals[i].name || strlen(locals.locals[i].repr) > MAX_REPR)
				abort();
		python_locals_fini(&locals);
	}
	if (!python_code_read(&code, heap, scene->code)) {
		if (!code.name || !code.file)
			abort();
		python_code_line(&code, 1);
		python_code_fini(&code);
	}
}

static void names_read(struct scene *scene)
{
	struct python_thread_names names;
	struct python_tstates tstates;

	if (python_tstates_read(&tstates, &scene->objects.heap))
		return;
	if (tstates.nr > PYTHON_MAX_TSTATES || tstates.nr_interpreters > PYTHON_MAX_INTERPRETERS)
		abort();
	if (!python_thread_names_read(&names, &scene->objects.heap, &tstates)) {
		for (size_t i = 0; i < names.nr; i++)
			if (!names.names[i].name)
				abort();
		python_thread_names_fini(&names);
	}
	python_tstates_fini(&tstates);
}

static bool reads_left(void *arg)
{
	return ((struct scene *)arg)->objects.nr_reads < MAX_READS / 4;
}

static void frame_name(struct python_heap *heap, const struct python_chain_frame *frame)
{
	char name[PYTHON_MAX_TYPE_NAME + 3]; /* with both brackets */

	if (frame->lasti != PYTHON_CHAIN_NO_FRAME)
		return;
	python_awaits_name(heap, frame, name, sizeof(name));
	if (name[0] != '[' || name[strlen(name) - 1] != ']')
		abort();
}

static void tasks_walk(struct scene *scene, const struct python_async_tasks *tasks)
{
	struct python_heap *heap = &scene->objects.heap;
	static struct python_chain chain;
	struct python_awaits_root root;
	uint64_t end;
	char *name;

	for (size_t i = 0; i < tasks->nr && reads_left(scene); i++) {
		python_awaits_walk(&chain, heap, tasks->tasks[i].coroutine, &end);
		python_awaits_root(&root, heap, tasks->tasks[i].coroutine);
		if (chain.nr_frames > PYTHON_CHAIN_MAX_FRAMES ||
		    root.nr_outer > PYTHON_AWAITS_OUTER)
			abort();
		for (uint32_t k = 0; k < chain.nr_frames; k++)
			frame_name(heap, &chain.frames[k]);
		if (!python_async_task_name(heap, &tasks->tasks[i], &name))
			free(name);
	}
}

static void tasks_read(struct scene *scene)
{
	struct python_heap *heap = &scene->objects.heap;
	struct python_async_tasks tasks;
	struct python_tstates tstates;

	if (python_tstates_read(&tstates, heap))
		return;
	if (!python_async_tasks_read(&tasks, heap, &tstates, scene->async.described, reads_left,
				     scene)) {
		if (tasks.nr > PYTHON_MAX_ASYNC_TASKS)
			abort();
		if (python_async_edges_find(&tasks, heap, scene->async.described, reads_left,
					    scene))
			abort();
		tasks_walk(scene, &tasks);
		python_async_tasks_fini(&tasks);
	}
	python_tstates_fini(&tstates);
}

/* The walk of the BPF programs, from each task and from the dict of running tasks. */
static void awaiters_walk(struct scene *scene)
{
	static struct await_walk w;
	_Alignas(8) __u8 room[PYTHON_FRAME_ROOM] = { 0 };
	struct made_objects *m = &scene->objects;
	int i, stop;

	memset(&w, 0, sizeof(w));
	python_async_offsets(&w.a, &m->heap.objects, scene->async.described);
	for (i = 0; i < MADE_TASKS; i++) {
		await_begin(&w, &m->reader, scene->async.tasks[i]);
		for (int step = stop = 0; step < AWAIT_STEPS && !stop; step++)
			stop = await_step(&w, &m->layout, &m->reader, room);
		if (stop < 0 || stop >= AWAIT_NR_STOPS || w.nr > BPFPROF_MAX_AWAITERS ||
		    w.nr_tasks > BPFPROF_MAX_AWAITING_TASKS || w.nr_sources > AWAIT_SOURCES)
			abort();
		await_candidate(&w, &m->reader, scene->async.tasks[i]);
		w.a.current = scene->async.tasks[i];
		if (!await_running(&w, &m->reader) && w.source.left > AWAIT_DICT_ENTRIES)
			abort();
	}
	await_frames_begin(&w);
	for (int step = stop = 0; step < AWAIT_RUNNING_STEPS && !stop; step++)
		stop = await_step(&w, &m->layout, &m->reader, room);
	if (w.nr_candidates > AWAIT_CANDIDATES || w.nr_found > w.nr_candidates)
		abort();
}

/* One byte: the version, and whether there are tasks; then changes of memory that is right. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct scene scene;
	bool has_tasks;

	if (!size)
		return 0;
	has_tasks = data[0] & 128;
	if (has_tasks) {
		made_init(&scene.objects, data[0] % MADE_NR_VERSIONS);
		made_async(&scene.async, &scene.objects);
	} else {
		scene_make(&scene, data[0] % MADE_NR_VERSIONS);
	}
	for (data++, size--; size >= 6; data += 6, size -= 6)
		change(&scene, data);
	scene.objects.nr_reads = 0;
	if (has_tasks) {
		tasks_read(&scene);
		awaiters_walk(&scene);
	} else {
		names_read(&scene);
		frames_read(&scene);
	}
	if (scene.objects.nr_reads > MAX_READS)
		abort();
	return 0;
}
