/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PYTHON_HEAP_LAYOUT_H
#define BPFPROF_PYTHON_HEAP_LAYOUT_H

/*
 * The layout of CPython's objects that only user space reads: offsets in bytes; 0: this version does not
 * have the field. A generated table (layouts.h) has each version and build; the offsets that 3.13 and
 * later have in memory (_Py_DebugOffsets) take precedence over it.
 */

#include <stddef.h>
#include <stdint.h>

#include "asyncio.h"

/* All fields are uint32_t: the table of places has the same fields. */
struct python_heap_layout {
	uint32_t version; /* 0x30b = 3.11 */
	uint32_t free_threaded;
	/* PyInterpreterState, PyThreadState */
	uint32_t interpreter_modules;
	uint32_t tstate_native; /* 3.11+ */
	/* Frames */
	uint32_t frame_locals; /* the first variable */
	/* PyCodeObject */
	uint32_t code_argcount;
	uint32_t code_kwonly;
	uint32_t code_nr; /* number of locals (up to 3.10), of all variables (3.11+) */
	uint32_t code_names; /* names of locals (up to 3.10), of all variables (3.11+) */
	uint32_t code_kinds; /* 3.11+ */
	uint32_t code_cellvars; /* up to 3.10 */
	uint32_t code_freevars;
	/* PyObject, PyVarObject, PyTypeObject, PyHeapTypeObject */
	uint32_t object_type;
	uint32_t object_size;
	uint32_t type_name;
	uint32_t type_basic;
	uint32_t type_flags;
	uint32_t type_dict; /* tp_dictoffset */
	uint32_t type_keys; /* ht_cached_keys, 3.11+ */
	uint32_t flag_managed; /* bits of tp_flags */
	uint32_t flag_inline;
	/* Values */
	uint32_t int_tag; /* size and sign (3.12+; object_size has them before) */
	uint32_t int_digits; /* of 30 bits each */
	uint32_t float_value;
	uint32_t list_size;
	uint32_t list_items;
	uint32_t tuple_size;
	uint32_t tuple_items;
	uint32_t cell_value;
	/* PyDictObject, its keys, and the values of split dicts */
	uint32_t dict_keys;
	uint32_t dict_values;
	uint32_t keys_size; /* dk_size, up to 3.10; else 0 */
	uint32_t keys_index; /* dk_log2_index_bytes, 3.11+ */
	uint32_t keys_kind; /* 3.11+ */
	uint32_t keys_nr;
	uint32_t keys_indices;
	uint32_t values_valid; /* 3.13+ */
	uint32_t values_first;
	/* Instances */
	uint32_t instance; /* enum python_instance */
	uint32_t instance_dict; /* distance of the pointer before an instance (3.11+) */
	/* What leads from asyncio to its tasks, and from a task to the frames of its coroutines */
	uint32_t tstate_dict; /* has the running loop, up to 3.12 */
	uint32_t tstate_loop; /* the running loop, 3.13+ */
	uint32_t type_base; /* tp_base */
	uint32_t type_members; /* tp_members */
	uint32_t function_closure;
	uint32_t set_mask;
	uint32_t set_table;
	uint32_t gen_frame; /* a pointer (up to 3.10) or the frame itself (3.11+) */
	uint32_t gen_state; /* one byte, 3.13+ */
	uint32_t yield_from; /* opcode (up to 3.10), argument of RESUME (3.11, 3.12), gen_state */
	uint32_t code_code; /* the instructions, up to 3.10 */
	uint32_t frame_stack; /* the end of the value stack */
	uint32_t frame_stack_base; /* a pointer to the value stack, up to 3.10 */
	uint32_t stack_form; /* enum python_stack_form */
	/* Behind the header of a Task or Future of _asyncio; 3.14+ describes these itself */
	uint32_t task_coro;
	uint32_t future_state;
};

#define PYTHON_HEAP_OFFSETS_MAX 1024 /* bytes of _Py_DebugOffsets that are read */

/*
 * The layout of a version. offsets[0..len) is the beginning of _PyRuntime from 3.13 on, else NULL. 0,
 * -ENOTSUP version or build is not known, -EBADMSG the offsets contradict the table or themselves.
 */
int python_heap_layout_find(struct python_heap_layout *ret, uint16_t version,
			    uint16_t free_threaded, const uint8_t *offsets, size_t len);
/* Does _PyRuntime of this version begin with its offsets? */
int python_heap_layout_is_described(uint16_t version);

/* Checks that all offsets lie in the bytes that are read of each object: 0 or -EBADMSG. */
int python_heap_layout_check(const struct python_heap_layout *layout);

#endif
