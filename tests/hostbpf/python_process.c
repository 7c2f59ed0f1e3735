// SPDX-License-Identifier: Apache-2.0
#include "python_process.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "python/locals.h"
#include "python/objects.h"
#include "python/tstates.h"

TestSuite(python_objects, .timeout = 60);

struct made_objects made;

const char *repr_in(uint64_t va, size_t max)
{
	static char *text;

	free(text);
	text = NULL;
	cr_assert_eq(python_repr(&made.heap, va, max, &text), 0);
	return text;
}

const char *repr(uint64_t va)
{
	return repr_in(va, PYTHON_REPR_CHARS);
}

uint64_t list_of(uint64_t one, uint64_t two)
{
	return made_list(&made, (uint64_t[]){ one, two }, 2);
}

const uint64_t wild[NR_WILD] = { 0,
				 1,
				 8,
				 4096,
				 MADE_BASE - 8,
				 MADE_BASE + 1,
				 MADE_END - 8,
				 MADE_END,
				 1ULL << 47,
				 (1ULL << 56) - 8,
				 1ULL << 56,
				 0xffff888000000000ULL,
				 1ULL << 63,
				 ~7ULL,
				 ~0ULL };

uint64_t thread_make(const char *name)
{
	uint64_t pairs[] = { made_str(&made, "_target"), 0, made_str(&made, "_name"),
			     made_str(&made, name) };

	return made_instance(&made, name, pairs, 2);
}

struct state_of interpreter_make(uint64_t modules)
{
	struct state_of ret;

	ret.interpreter = made_alloc(&made, INTERPRETER_BYTES);
	ret.first = made_alloc(&made, 512);
	made_put_u64(&made, MADE_RUNTIME + made.layout.runtime_interpreters, ret.interpreter);
	made_put_u64(&made, ret.interpreter + made.layout.interpreter_next, 0);
	made_put_u64(&made, ret.interpreter + made.layout.interpreter_threads, ret.first);
	made_put_u64(&made, ret.interpreter + made.heap.objects.interpreter_modules, modules);
	made_put_u64(&made, ret.first + made.layout.tstate_thread, 0x7f0000001000);
	made_put_u64(&made, ret.first + made.layout.tstate_next + 8, ret.interpreter);
	return ret;
}

uint64_t modules_make(uint64_t active)
{
	uint64_t globals[] = { made_str(&made, "Thread"), made_int(&made, 1),
			       made_str(&made, "_active"), active };
	uint64_t modules[] = { made_str(&made, "sys"), made_int(&made, 1),
			       made_str(&made, "threading"), made_module(&made, globals, 2) };

	return made_dict(&made, modules, 2, MADE_KEYS_STR);
}

size_t names_read(struct python_thread_names *names)
{
	struct python_tstates tstates;

	cr_assert_eq(python_tstates_read(&tstates, &made.heap), 0);
	made.nr_reads = 0;
	cr_assert_eq(python_thread_names_read(names, &made.heap, &tstates), 0);
	python_tstates_fini(&tstates);
	return names->nr;
}

size_t nr_names(uint64_t active)
{
	struct python_thread_names names;
	size_t nr;

	interpreter_make(modules_make(active));
	nr = names_read(&names);
	python_thread_names_fini(&names);
	cr_assert_lt(made.nr_reads, 100000);
	return nr;
}

struct made_frame frame_make(const uint64_t values[VARIABLES])
{
	static const char *const names[] = { "a", "b", "c", "x", "d", "e" };
	static const uint8_t kinds[] = { 0x20, 0x20, 0x20, 0x20, 0x40, 0x80 };
	const struct python_heap_layout *l = &made.heap.objects;
	struct made_frame ret;
	uint64_t strings[VARIABLES];

	for (int i = 0; i < VARIABLES; i++)
		strings[i] = made_str(&made, names[i]);
	ret.code = made_alloc(&made, 512);
	ret.frame = made_alloc(&made, 512 + VARIABLES * 8);
	ret.names = made_tuple(&made, strings, l->code_kinds ? 6 : 4);
	ret.kinds = made_bytes(&made, kinds, 6);
	made_put_u32(&made, ret.code + l->code_argcount, 2);
	made_put_u32(&made, ret.code + l->code_kwonly, 1);
	made_put_u32(&made, ret.code + l->code_nr, l->code_kinds ? 6 : 4);
	made_put_u32(&made, ret.code + made.layout.code_flags, 0);
	made_put_u64(&made, ret.code + l->code_names, ret.names);
	if (l->code_kinds) {
		made_put_u64(&made, ret.code + l->code_kinds, ret.kinds);
	} else {
		made_put_u64(&made, ret.code + l->code_cellvars, made_tuple(&made, strings + 4, 1));
		made_put_u64(&made, ret.code + l->code_freevars, made_tuple(&made, strings + 5, 1));
	}
	made_put(&made, ret.frame + l->frame_locals, values, VARIABLES * 8);
	return ret;
}

uint64_t cell_make(uint64_t value)
{
	uint64_t va = made_object(&made, "cell", 0, 64);

	made_put_u64(&made, va + made.heap.objects.cell_value, value);
	return va;
}

const char *locals_text(const struct made_frame *frame)
{
	static char text[1024];
	struct python_locals locals;
	size_t len = 0;
	int err;

	err = python_locals_read(&locals, &made.heap, frame->code, frame->frame, 128);
	if (err)
		return strerror(-err);
	text[0] = '\0';
	for (size_t i = 0; i < locals.nr && len < sizeof(text); i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s=%s/%x", i ? " " : "",
					locals.locals[i].name, locals.locals[i].repr,
					locals.locals[i].flags);
	python_locals_fini(&locals);
	return text;
}
