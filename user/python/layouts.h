/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PYTHON_LAYOUTS_H
#define BPFPROF_PYTHON_LAYOUTS_H

/*
 * Written by user/python/make-layouts from CPython's headers (x86-64); do not edit. A table has a
 * row for each field and a column for each version; PYTHON_COLUMN_n makes the layout of column n.
 * An includer defines the names of the tables that it needs.
 */
/* clang-format off */

#define PYTHON_COLUMN_0(field, value, ...) .field = value,
#define PYTHON_COLUMN_1(field, value, ...) PYTHON_COLUMN_0(field, __VA_ARGS__)
#define PYTHON_COLUMN_2(field, value, ...) PYTHON_COLUMN_1(field, __VA_ARGS__)
#define PYTHON_COLUMN_3(field, value, ...) PYTHON_COLUMN_2(field, __VA_ARGS__)
#define PYTHON_COLUMN_4(field, value, ...) PYTHON_COLUMN_3(field, __VA_ARGS__)
#define PYTHON_COLUMN_5(field, value, ...) PYTHON_COLUMN_4(field, __VA_ARGS__)
#define PYTHON_COLUMN_6(field, value, ...) PYTHON_COLUMN_5(field, __VA_ARGS__)
#define PYTHON_COLUMN_7(field, value, ...) PYTHON_COLUMN_6(field, __VA_ARGS__)
#define PYTHON_COLUMN_8(field, value, ...) PYTHON_COLUMN_7(field, __VA_ARGS__)
#define PYTHON_COLUMN_9(field, value, ...) PYTHON_COLUMN_8(field, __VA_ARGS__)
#define PYTHON_COLUMN_10(field, value, ...) PYTHON_COLUMN_9(field, __VA_ARGS__)

#ifdef PYTHON_LAYOUTS
#define PYTHON_LAYOUTS_ROWS(X) \
	X(version,          0x308, 0x309, 0x30a, 0x30b, 0x30c) \
	X(unicode_kind_shift,      2,    2,    2,    2,    2) \
	X(runtime_interpreters,   32,   32,   32,   40,   40) \
	X(runtime_current,      1368,  568,  568,  576,    0) \
	X(gil,                  1152,  352,  352,  360,  384) \
	X(gil_holder,              8,    8,    8,    8,    8) \
	X(interpreter_threads,     8,    8,    8,   16,   72) \
	X(tstate_next,             8,    8,    8,    8,    8) \
	X(tstate_thread,         176,  176,  176,  152,  136) \
	X(tstate_frame,           24,   24,   24,   56,   56) \
	X(tstate_status,           0,    0,    0,    0,   24) \
	X(status_mask,             0,    0,    0,    0,   16) \
	X(chain,                   1,    1,    1,    2,    3) \
	X(frame_code,             32,   32,   32,   32,    0) \
	X(frame_previous,         24,   24,   24,   48,    8) \
	X(frame_lasti,           104,  104,   96,   56,   56) \
	X(lasti_unit,              1,    1,    2,    0,    0) \
	X(cframe_frame,            0,    0,    0,    8,    0) \
	X(cframe_previous,         0,    0,    0,   16,    8) \
	X(frame_owner,             0,    0,    0,   68,   70) \
	X(shim_owner,              0,    0,    0,    0,    3) \
	X(code_name,             112,  112,  112,  120,  120) \
	X(code_filename,         104,  104,  104,  112,  112) \
	X(code_firstlineno,       40,   40,   40,   72,   68) \
	X(code_flags,             36,   36,   36,   48,   48) \
	X(lines,                   1,    1,    2,    3,    3) \
	X(code_linetable,        120,  120,  120,  136,  136) \
	X(code_qualname,           0,    0,    0,  128,  128) \
	X(code_adaptive,           0,    0,    0,  184,  192) \
	X(code_version,            0,    0,    0,    0,   92) \
	X(unicode_length,         16,   16,   16,   16,   16) \
	X(unicode_hash,           24,   24,   24,   24,   24) \
	X(unicode_state,          32,   32,   32,   32,   32) \
	X(ascii_data,             48,   48,   48,   48,   40) \
	X(compact_data,           72,   72,   72,   72,   56) \
	X(bytes_size,             16,   16,   16,   16,   16) \
	X(bytes_data,             32,   32,   32,   32,   32)

static const struct bpfprof_python_layout python_layouts[] = {
	{ PYTHON_LAYOUTS_ROWS(PYTHON_COLUMN_0) },
	{ PYTHON_LAYOUTS_ROWS(PYTHON_COLUMN_1) },
	{ PYTHON_LAYOUTS_ROWS(PYTHON_COLUMN_2) },
	{ PYTHON_LAYOUTS_ROWS(PYTHON_COLUMN_3) },
	{ PYTHON_LAYOUTS_ROWS(PYTHON_COLUMN_4) },
};
#endif

#ifdef PYTHON_DEBUG_LAYOUTS
#define PYTHON_DEBUG_LAYOUTS_ROWS(X) \
	X(version,             0x30d, 0x30d, 0x30e, 0x30e, 0x30f, 0x30f) \
	X(unicode_kind_shift,          2,    2,    2,    8,    2,    8) \
	X(code_argcount,             320,  320,  360,  360,  424,  424) \
	X(free_threaded,               0,    1,    0,    1,    0,    1) \
	X(runtime_interpreters,       40,   40,   40,   40,   40,   40) \
	X(gil,                       112,  112,  120,  120,  120,  120) \
	X(gil_holder,                144,  144,  152,  152,  152,  152) \
	X(interpreter_next,           64,   64,   64,   64,   64,   64) \
	X(interpreter_threads,        72,   72,   72,   72,   72,   72) \
	X(tstate_next,               168,  168,  192,  192,  192,  192) \
	X(tstate_thread,             192,  192,  216,  216,  240,  240) \
	X(tstate_frame,              184,  184,  208,  208,  208,  208) \
	X(tstate_status,             216,  216,  240,  240,  264,  264) \
	X(status_mask,                32,   16,    1,   16,    1,   16) \
	X(frame_code,                240,  240,  264,  264,  328,  328) \
	X(frame_previous,            232,  232,  256,  256,  320,  320) \
	X(frame_lasti,               248,  248,  272,  272,  336,  336) \
	X(frame_owner,               264,  264,  288,  288,  352,  352) \
	X(shim_owner,                  3,    3,    3,    3,    3,    3) \
	X(code_name,                 288,  288,  328,  328,  392,  392) \
	X(code_filename,             280,  280,  320,  320,  384,  384) \
	X(code_firstlineno,          312,  312,  352,  352,  416,  416) \
	X(code_linetable,            304,  304,  344,  344,  408,  408) \
	X(code_qualname,             296,  296,  336,  336,  400,  400) \
	X(code_adaptive,             344,  344,  384,  384,  448,  448) \
	X(unicode_length,            552,  552,  632,  632,  728,  728) \
	X(unicode_state,             544,  544,  624,  624,  720,  720) \
	X(ascii_data,                560,  560,  640,  640,  736,  736) \
	X(bytes_size,                520,  520,  600,  600,  696,  696) \
	X(bytes_data,                528,  528,  608,  608,  704,  704) \
	X(runtime_bytes,              24,   24,   24,   24,   24,   24) \
	X(interpreter_bytes,          48,   48,   48,   48,   48,   48) \
	X(thread_bytes,              152,  152,  176,  176,  176,  176) \
	X(gil_state,                 120,  120,  128,  128,  128,  128) \
	X(bytes,                     584,  584,  760,  760,  888,  888) \
	X(flags_from_argcount,        -4,   -4,   -4,   -4,   -4,   -4) \
	X(version_from_firstlineno,   24,   24,   24,   24,   24,   24) \
	X(hash_from_length,            8,    8,    8,    8,    8,    8) \
	X(compact_from_ascii,         16,   16,   16,   16,   16,   16) \
	X(gil_from_status,             0,    0,    4,    0,    4,    0) \
	X(code_mask,                   0,    0,    3,    3,    3,    3)

static const struct python_debug_layout python_debug_layouts[] = {
	{ PYTHON_DEBUG_LAYOUTS_ROWS(PYTHON_COLUMN_0) },
	{ PYTHON_DEBUG_LAYOUTS_ROWS(PYTHON_COLUMN_1) },
	{ PYTHON_DEBUG_LAYOUTS_ROWS(PYTHON_COLUMN_2) },
	{ PYTHON_DEBUG_LAYOUTS_ROWS(PYTHON_COLUMN_3) },
	{ PYTHON_DEBUG_LAYOUTS_ROWS(PYTHON_COLUMN_4) },
	{ PYTHON_DEBUG_LAYOUTS_ROWS(PYTHON_COLUMN_5) },
};
#endif

#ifdef PYTHON_HEAP_LAYOUTS
#define PYTHON_HEAP_LAYOUTS_ROWS(X) \
	X(version,   0x308, 0x309, 0x30a, 0x30b, 0x30c, 0x30d, 0x30d, 0x30e, 0x30e, 0x30f, 0x30f) \
	X(code_argcount,         16,   16,   16,   56,   52,   52,   68,   52,   68,   52,   68) \
	X(code_kwonly,           24,   24,   24,   64,   60,   60,   76,   60,   76,   60,   76) \
	X(frame_locals,         360,  360,  352,   72,   72,   72,   72,   80,   80,   80,   80) \
	X(code_nr,               28,   28,   28,   76,   72,   72,   88,   72,   88,   72,   88) \
	X(code_names,            72,   72,   72,   96,   96,   96,  112,   96,  112,   96,  112) \
	X(code_cellvars,         88,   88,   88,    0,    0,    0,    0,    0,    0,    0,    0) \
	X(code_freevars,         80,   80,   80,    0,    0,    0,    0,    0,    0,    0,    0) \
	X(code_kinds,             0,    0,    0,  104,  104,  104,  120,  104,  120,  104,  120) \
	X(object_type,            8,    8,    8,    8,    8,    8,   24,    8,   24,    8,   24) \
	X(object_size,           16,   16,   16,   16,   16,   16,   32,   16,   32,   16,   32) \
	X(type_name,             24,   24,   24,   24,   24,   24,   40,   24,   40,   24,   40) \
	X(type_basic,            32,   32,   32,   32,   32,   32,   48,   32,   48,   32,   48) \
	X(type_flags,           168,  168,  168,  168,  168,  168,  184,  168,  184,  168,  184) \
	X(type_dict,            288,  288,  288,  288,  288,  288,  304,  288,  304,  288,  304) \
	X(int_tag,                0,    0,    0,    0,   16,   16,   32,   16,   32,   16,   32) \
	X(int_digits,            24,   24,   24,   24,   24,   24,   40,   24,   40,   24,   40) \
	X(float_value,           16,   16,   16,   16,   16,   16,   32,   16,   32,   16,   32) \
	X(list_size,             16,   16,   16,   16,   16,   16,   32,   16,   32,   16,   32) \
	X(list_items,            24,   24,   24,   24,   24,   24,   40,   24,   40,   24,   40) \
	X(tuple_size,            16,   16,   16,   16,   16,   16,   32,   16,   32,   16,   32) \
	X(tuple_items,           24,   24,   24,   24,   24,   24,   40,   32,   48,   32,   48) \
	X(cell_value,            16,   16,   16,   16,   16,   16,   32,   16,   32,   16,   32) \
	X(dict_keys,             32,   32,   32,   32,   32,   32,   48,   32,   48,   32,   48) \
	X(dict_values,           40,   40,   40,   40,   40,   40,   56,   40,   56,   40,   56) \
	X(keys_nr,               32,   32,   32,   24,   24,   24,   24,   24,   24,   24,   24) \
	X(keys_indices,          40,   40,   40,   32,   32,   32,   32,   32,   32,   32,   32) \
	X(keys_size,              8,    8,    8,    0,    0,    0,    0,    0,    0,    0,    0) \
	X(instance,               1,    1,    1,    2,    3,    4,    4,    4,    4,    4,    4) \
	X(type_keys,              0,    0,    0,  872,  880,  880,  896,  880,  896,  888,  904) \
	X(flag_managed,           0,    0,    0,   16,   16,   16,   16,   16,   16,   16,   16) \
	X(keys_index,             0,    0,    0,    9,    9,    9,    9,    9,    9,    9,    9) \
	X(keys_kind,              0,    0,    0,   10,   10,   10,   10,   10,   10,   10,   10) \
	X(values_first,           0,    0,    0,    0,    0,    8,    8,    8,    8,    8,    8) \
	X(instance_dict,          0,    0,    0,   24,   24,   24,    8,   24,    8,   24,    8) \
	X(flag_inline,            0,    0,    0,    0,    0,    4,    4,    4,    4,    4,    4) \
	X(values_valid,           0,    0,    0,    0,    0,    3,    3,    3,    3,    3,    3) \
	X(tstate_dict,          152,  152,  152,  128,  112,    0,    0,    0,    0,    0,    0) \
	X(tstate_loop,            0,    0,    0,    0,    0,  304,  304,  864,  864, 1024, 1024) \
	X(type_base,            256,  256,  256,  256,  256,  256,  272,  256,  272,  256,  272) \
	X(type_members,         240,  240,  240,  240,  240,  240,  256,  240,  256,  240,  256) \
	X(function_closure,      48,   48,   72,   72,   72,   72,   88,   72,   88,   72,   88) \
	X(set_mask,              32,   32,   32,   32,   32,   32,   48,   32,   48,   32,   48) \
	X(set_table,             40,   40,   40,   40,   40,   40,   56,   40,   56,   40,   56) \
	X(gen_frame,             16,   16,   16,   80,   72,   72,   88,   72,   88,   72,   88) \
	X(frame_stack_base,      64,   64,   64,    0,    0,    0,    0,    0,    0,    0,    0) \
	X(code_code,             48,   48,   48,    0,    0,    0,    0,    0,    0,    0,    0) \
	X(yield_from,            72,   72,   72,    2,    2,  255,  255,  255,  255,    2,    2) \
	X(frame_stack,           72,   72,   80,   64,   64,   64,   64,   64,   64,   64,   64) \
	X(stack_form,             1,    1,    2,    3,    3,    3,    3,    4,    4,    4,    4) \
	X(gen_state,              0,    0,    0,    0,    0,   67,   83,   67,   83,   67,   83) \
	X(free_threaded,          0,    0,    0,    0,    0,    0,    1,    0,    1,    0,    1) \
	X(interpreter_modules,   56,  856,  856,  888,  944, 7656, 7664, 7688, 7712, 7592, 7592) \
	X(tstate_native,          0,    0,    0,  160,  144,  160,  160,  160,  160,  184,  184) \
	X(task_coro,             96,  136,  144,  120,  120,  104,  104,    0,    0,    0,    0) \
	X(future_state,          56,   64,   72,   72,   72,   80,   80,    0,    0,    0,    0)

static const struct python_heap_layout python_heap_layouts[] = {
	{ PYTHON_HEAP_LAYOUTS_ROWS(PYTHON_COLUMN_0) },
	{ PYTHON_HEAP_LAYOUTS_ROWS(PYTHON_COLUMN_1) },
	{ PYTHON_HEAP_LAYOUTS_ROWS(PYTHON_COLUMN_2) },
	{ PYTHON_HEAP_LAYOUTS_ROWS(PYTHON_COLUMN_3) },
	{ PYTHON_HEAP_LAYOUTS_ROWS(PYTHON_COLUMN_4) },
	{ PYTHON_HEAP_LAYOUTS_ROWS(PYTHON_COLUMN_5) },
	{ PYTHON_HEAP_LAYOUTS_ROWS(PYTHON_COLUMN_6) },
	{ PYTHON_HEAP_LAYOUTS_ROWS(PYTHON_COLUMN_7) },
	{ PYTHON_HEAP_LAYOUTS_ROWS(PYTHON_COLUMN_8) },
	{ PYTHON_HEAP_LAYOUTS_ROWS(PYTHON_COLUMN_9) },
	{ PYTHON_HEAP_LAYOUTS_ROWS(PYTHON_COLUMN_10) },
};
#endif

#ifdef PYTHON_HEAP_PLACES
#define PYTHON_HEAP_PLACES_ROWS(X) \
	X(version,        0x30d, 0x30d, 0x30e, 0x30e, 0x30f, 0x30f) \
	X(code_argcount,        320,  320,  360,  360,  424,  424) \
	X(frame_locals,         256,  256,  280,  280,  344,  344) \
	X(code_names,           328,  328,  368,  368,  432,  432) \
	X(code_kinds,           336,  336,  376,  376,  440,  440) \
	X(object_type,          360,  360,  408,  408,  472,  472) \
	X(type_name,            376,  376,  424,  424,  488,  488) \
	X(type_basic,             0,    0,    0,    0,  512,  512) \
	X(type_flags,           392,  392,  440,  440,  504,  504) \
	X(type_dict,              0,    0,    0,    0,  520,  520) \
	X(int_tag,              496,  496,  576,  576,  672,  672) \
	X(int_digits,           504,  504,  584,  584,  680,  680) \
	X(float_value,          480,  480,  560,  560,  656,  656) \
	X(list_size,            440,  440,  488,  488,  584,  584) \
	X(list_items,           432,  432,  480,  480,  576,  576) \
	X(tuple_size,           416,  416,  464,  464,  560,  560) \
	X(tuple_items,          408,  408,  456,  456,  552,  552) \
	X(dict_keys,            456,  456,  536,  536,  632,  632) \
	X(dict_values,          464,  464,  544,  544,  640,  640) \
	X(type_keys,              0,    0,    0,    0,  536,  536) \
	X(set_mask,               0,    0,  520,  520,  616,  616) \
	X(set_table,              0,    0,  512,  512,  608,  608) \
	X(gen_frame,              0,    0,  680,  680,  808,  808) \
	X(frame_stack,            0,    0,  296,  296,  360,  360) \
	X(gen_state,              0,    0,  688,  688,  816,  816) \
	X(free_threaded,          0,    1,    0,    1,    0,    1) \
	X(interpreter_modules,   88,   88,   96,   96,   96,   96) \
	X(tstate_native,        200,  200,  224,  224,  248,  248)

static const struct python_heap_layout python_heap_places[] = {
	{ PYTHON_HEAP_PLACES_ROWS(PYTHON_COLUMN_0) },
	{ PYTHON_HEAP_PLACES_ROWS(PYTHON_COLUMN_1) },
	{ PYTHON_HEAP_PLACES_ROWS(PYTHON_COLUMN_2) },
	{ PYTHON_HEAP_PLACES_ROWS(PYTHON_COLUMN_3) },
	{ PYTHON_HEAP_PLACES_ROWS(PYTHON_COLUMN_4) },
	{ PYTHON_HEAP_PLACES_ROWS(PYTHON_COLUMN_5) },
};
#endif

/* clang-format on */
#endif
