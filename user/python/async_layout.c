// SPDX-License-Identifier: Apache-2.0
#include "python/async_layout.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/bytes.h"
#include "elf/image.h"
#include "python/heap_layout.h"

#define SECTION ".AsyncioDebug"
#define MAX_TASK_BYTES 4096
#define MAX_STATE_BYTES (1U << 20)

/* The section: three structs, each with its size first (Modules/_asynciomodule.c of 3.14 and 3.15). */
enum place {
	TASK_BYTES,
	TASK_NAME,
	TASK_AWAITED_BY,
	TASK_IS_TASK,
	TASK_AWAITED_BY_IS_SET,
	TASK_CORO,
	TASK_NODE,
	INTERPRETER_BYTES,
	INTERPRETER_TASKS,
	THREAD_BYTES,
	THREAD_LOOP,
	THREAD_TASK,
	THREAD_TASKS,
	NR_PLACES,
};

/* The offset of a field of `bytes` bytes in the struct whose size is at `whole`. */
static uint32_t offset(const uint64_t *values, enum place at, enum place whole, uint64_t bytes,
		       bool *ret_bad)
{
	uint64_t value = values[at];

	if (value % bytes || value > values[whole] || bytes > values[whole] - value)
		*ret_bad = true;
	return *ret_bad ? 0 : (uint32_t)value;
}

int python_async_layout_parse(struct python_async_layout *ret, const uint8_t *data, size_t len)
{
	struct python_async_layout layout;
	uint64_t v[NR_PLACES];
	bool bad = false;

	if (len < sizeof(v))
		return -EBADMSG;
	for (size_t i = 0; i < NR_PLACES; i++)
		v[i] = bytes_u64(data + i * 8);
	if (v[TASK_BYTES] > MAX_TASK_BYTES || v[INTERPRETER_BYTES] > MAX_STATE_BYTES ||
	    v[THREAD_BYTES] > MAX_STATE_BYTES)
		return -EBADMSG;
	layout = (struct python_async_layout){
		.task_name = offset(v, TASK_NAME, TASK_BYTES, 8, &bad),
		.task_awaited_by = offset(v, TASK_AWAITED_BY, TASK_BYTES, 8, &bad),
		.task_awaited_by_is_set = offset(v, TASK_AWAITED_BY_IS_SET, TASK_BYTES, 1, &bad),
		.task_coro = offset(v, TASK_CORO, TASK_BYTES, 8, &bad),
		.task_node = offset(v, TASK_NODE, TASK_BYTES, 8, &bad),
		.interpreter_tasks = offset(v, INTERPRETER_TASKS, INTERPRETER_BYTES, 8, &bad),
		.thread_loop = offset(v, THREAD_LOOP, THREAD_BYTES, 8, &bad),
		.thread_task = offset(v, THREAD_TASK, THREAD_BYTES, 8, &bad),
		.thread_tasks = offset(v, THREAD_TASKS, THREAD_BYTES, 8, &bad),
	};
	/* A task begins with its header, and the word before the coroutine is the future. */
	if (bad || layout.task_coro < 24 || layout.task_node < 8)
		return -EBADMSG;
	*ret = layout;
	return 0;
}

int python_async_layout_read(struct python_async_layout *ret, struct elf_image *img)
{
	const struct elf_section *section = elf_image_section(img, SECTION);
	uint8_t data[NR_PLACES * 8];
	int err;

	if (!section)
		return -ENODATA;
	if (section->bytes < sizeof(data))
		return -EBADMSG;
	err = elf_image_read_rva(img, section->va, data, sizeof(data));
	return err ? err : python_async_layout_parse(ret, data, sizeof(data));
}

void python_async_offsets(struct bpfprof_async *ret, const struct python_heap_layout *l,
			  const struct python_async_layout *described)
{
	*ret = (struct bpfprof_async){ .task_coro = l->object_size + l->task_coro };
#define OFFSET_FILL(name) ret->name = l->name;
	BPFPROF_ASYNC_OFFSETS(OFFSET_FILL)
#undef OFFSET_FILL
	if (!described)
		return;
	ret->thread_task = described->thread_task;
	ret->task_coro = described->task_coro;
	ret->task_awaited_by = described->task_awaited_by;
	ret->task_awaited_by_is_set = described->task_awaited_by_is_set;
}
