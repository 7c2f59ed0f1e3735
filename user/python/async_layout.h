/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PYTHON_ASYNC_LAYOUT_H
#define BPFPROF_PYTHON_ASYNC_LAYOUT_H

/*
 * What _asyncio of CPython 3.14 and later says of its own objects: section .AsyncioDebug of the file with
 * the module (an own library, or the interpreter). It holds plain numbers without relocations.
 */

#include <stddef.h>
#include <stdint.h>

struct bpfprof_async;
struct elf_image;
struct python_heap_layout;

/* Offsets in bytes. */
struct python_async_layout {
	uint32_t task_name;
	uint32_t task_awaited_by; /* a task, or a set of them */
	uint32_t task_awaited_by_is_set; /* one byte */
	uint32_t task_coro;
	uint32_t task_node; /* links of the lists of tasks */
	uint32_t interpreter_tasks; /* the heads of these */
	uint32_t thread_loop; /* the running loop */
	uint32_t thread_task; /* the running task */
	uint32_t thread_tasks;
};

/* 0; -ENODATA the file has no such section; -EBADMSG it contradicts itself; errors of reading the file. */
int python_async_layout_read(struct python_async_layout *ret, struct elf_image *img);
/* The same from the bytes of the section. */
int python_async_layout_parse(struct python_async_layout *ret, const uint8_t *data, size_t len);

/* The offsets by which BPF walks tasks. described: NULL up to 3.13. */
void python_async_offsets(struct bpfprof_async *ret, const struct python_heap_layout *l,
			  const struct python_async_layout *described);

#endif
