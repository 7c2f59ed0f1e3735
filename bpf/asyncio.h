/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef BPFPROF_BPF_ASYNCIO_H
#define BPFPROF_BPF_ASYNCIO_H

/* Part of the wire contract (bpfprof.h): what leads from a running task of asyncio to those that await it. */

#include "arch.h"

/* Words of one sample: the frames of the tasks that await the running one, and a 0 behind those of each task. */
#define BPFPROF_MAX_AWAITERS 127
#define BPFPROF_MAX_AWAITING_TASKS 32

/* The place of the attributes of an instance of a plain class. */
enum python_instance {
	PYTHON_INSTANCE_DICT = 1, /* a dict at tp_dictoffset (up to 3.10) */
	PYTHON_INSTANCE_VALUES, /* a dict, or a pointer to values just before it (3.11) */
	PYTHON_INSTANCE_TAGGED, /* one pointer for both (3.12) */
	PYTHON_INSTANCE_INLINE, /* a dict, or values in the instance (3.13+) */
};

/* The form of the end of a frame's value stack. */
enum python_stack_form {
	PYTHON_STACK_TOP = 1, /* a pointer behind the last value (up to 3.9) */
	PYTHON_STACK_DEPTH, /* the number of values (3.10) */
	PYTHON_STACK_INDEX, /* the index behind the last value, counted from frame_locals (3.11-3.13) */
	PYTHON_STACK_POINTER, /* a pointer behind the last value (3.14+) */
};

/*
 * Element of tp_members: a field that a type written in C describes. It is the same in all versions
 * (PyMemberDef). The name of the last one is 0.
 */
struct python_member {
	__u64 name; /* address of a C string */
	__u32 type;
	__u32 pad;
	__u64 offset;
	__u32 flags;
	__u32 pad2;
	__u64 doc;
};

#define PYTHON_MEMBER_OBJECT 6 /* type: a reference, or NULL (T_OBJECT) */
#define PYTHON_MEMBER_READONLY 1 /* flags */
#define PYTHON_MAX_MEMBERS 32 /* of a type that are looked at */

/* The fields of struct python_heap_layout (user/python/heap_layout.h) that BPF needs. */
#define BPFPROF_ASYNC_OFFSETS(X)                                                                   \
	X(object_type)                                                                             \
	X(object_size)                                                                             \
	X(type_name)                                                                               \
	X(type_members)                                                                            \
	X(type_base)                                                                               \
	X(list_size)                                                                               \
	X(list_items)                                                                              \
	X(tuple_size)                                                                              \
	X(tuple_items)                                                                             \
	X(cell_value)                                                                              \
	X(dict_keys)                                                                               \
	X(dict_values)                                                                             \
	X(keys_size)                                                                               \
	X(keys_index)                                                                              \
	X(keys_kind)                                                                               \
	X(keys_nr)                                                                                 \
	X(keys_indices)                                                                            \
	X(values_valid)                                                                            \
	X(values_first)                                                                            \
	X(instance)                                                                                \
	X(instance_dict)                                                                           \
	X(type_basic)                                                                              \
	X(type_keys)                                                                               \
	X(function_closure)                                                                        \
	X(set_mask)                                                                                \
	X(set_table)                                                                               \
	X(gen_frame)                                                                               \
	X(gen_state)                                                                               \
	X(yield_from)                                                                              \
	X(code_code)                                                                               \
	X(code_nr)                                                                                 \
	X(frame_locals)                                                                            \
	X(frame_stack)                                                                             \
	X(frame_stack_base)                                                                        \
	X(stack_form)

/*
 * Element of the array map asyncs, at the index of the runtime in the map pythons. Offsets in bytes; 0: this
 * version does not have the field. Written by user space once it has found asyncio in the process.
 */
struct bpfprof_async {
	__u64 current; /* the dict {loop: running task} (up to 3.13); 0: threads have their task */
	__u32 id; /* of struct bpfprof_python; another one: the element is of another process */
	__u32 thread_task; /* PyThreadState: the running task (3.14+) */
	__u32 task_coro; /* TaskObj; the word before it is the future that the task waits for */
	__u32 task_awaited_by; /* a task, or a set of them (3.14+) */
	__u32 task_awaited_by_is_set; /* one byte */
#define BPFPROF_ASYNC_FIELD(name) __u32 name;
	BPFPROF_ASYNC_OFFSETS(BPFPROF_ASYNC_FIELD)
#undef BPFPROF_ASYNC_FIELD
};

/* Why the awaiting tasks of a sample end. */
enum bpfprof_await_stop {
	AWAIT_STOP_NONE = 0, /* no coroutine of a task ran, or it is not looked for */
	AWAIT_STOP_COMPLETE = 1, /* at a task that no other one awaits */
	AWAIT_STOP_READ_FAULT = 2, /* memory not readable now */
	AWAIT_STOP_DEPTH = 3, /* more tasks or frames than are followed */
	AWAIT_STOP_SEARCH = 4, /* more callbacks or objects than are looked at */
	AWAIT_STOP_PYTHON = 5, /* at a task or future that is written in Python */
	AWAIT_STOP_BAD = 6, /* the memory is no frame */
	/* No frame of a running task is known: one of Cython, until it is suspended for the first time. */
	AWAIT_STOP_NO_FRAME = 7,
	AWAIT_NR_STOPS,
};

#define BPFPROF_AWAIT_SEVERAL 1U /* several tasks await one; the stack has one of them */

_Static_assert(sizeof(struct bpfprof_async) % 8 == 0, "wire");

#endif
