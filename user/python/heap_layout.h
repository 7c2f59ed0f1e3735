/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PYTHON_HEAP_LAYOUT_H
#define BPFPROF_PYTHON_HEAP_LAYOUT_H

/*
 * How CPython lays out the objects that only user space looks at: offsets in bytes, 0 = not there in
 * this version. A generated table (layouts.h) has a row for each version and build; what 3.13 and later
 * say of themselves (_Py_DebugOffsets) takes precedence over it.
 */

#include <stddef.h>
#include <stdint.h>

enum python_instance { /* where the attributes of an instance of a plain class are */
		       PYTHON_INSTANCE_INVALID = 0,
		       PYTHON_INSTANCE_DICT = 1, /* up to 3.10: a dict at tp_dictoffset */
		       PYTHON_INSTANCE_VALUES =
			       2, /* 3.11: a dict, or a pointer to values just before it */
		       PYTHON_INSTANCE_TAGGED = 3, /* 3.12: one pointer for both */
		       PYTHON_INSTANCE_INLINE = 4, /* 3.13+: a dict, or values in the instance */
};

/* Nothing but __u32: the table of places has the same fields. */
struct python_heap_layout {
	uint32_t version; /* 0x30b = 3.11 */
	uint32_t free_threaded;
	/* PyInterpreterState, PyThreadState */
	uint32_t interpreter_modules;
	uint32_t tstate_native; /* 3.11+ */
	/* Frames */
	uint32_t frame_locals; /* the first of its variables */
	/* PyCodeObject */
	uint32_t code_argcount;
	uint32_t code_kwonly;
	uint32_t code_nr; /* how many: locals (up to 3.10); all variables (3.11+) */
	uint32_t code_names; /* of locals (up to 3.10); of all variables */
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
	uint32_t int_tag; /* 3.12+: size and sign; before, object_size has them */
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
	uint32_t instance_dict; /* bytes before an instance, where the pointer is (3.11+) */
};

#define PYTHON_HEAP_OFFSETS_MAX 1024 /* bytes of _Py_DebugOffsets that are asked for */

/*
 * The layout of a version. offsets[0..len): the beginning of _PyRuntime of a 3.13+ (NULL: for older ones).
 * 0, -ENOTSUP version or build not known, -EBADMSG it contradicts the table or itself.
 */
int python_heap_layout_find(struct python_heap_layout *ret, uint16_t version,
			    uint16_t free_threaded, const uint8_t *offsets, size_t len);
/* Does _PyRuntime of this version begin with what it says of its layout? */
int python_heap_layout_told(uint16_t version);

/* Checks that offsets are within what is read of each object: 0 or -EBADMSG. */
int python_heap_layout_check(const struct python_heap_layout *layout);

#endif
