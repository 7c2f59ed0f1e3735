// SPDX-License-Identifier: Apache-2.0
/* Variables and code objects in a heap that lies. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "python/code_read.h"
#include "python_objects.h"
#include "python_process.h"

Test(python_objects, variables)
{
	FOR_EACH_VERSION(nr)
	{
		const struct python_heap_layout *l = &made.heap.objects;
		uint64_t one = made_int(&made, 1), tag = made.layout.code_mask ? 1 : 0;
		uint64_t values[] = { one, 0, one | tag, one, cell_make(one), cell_make(0) };
		struct made_frame frame = frame_make(values);

		cr_assert_str_eq(locals_text(&frame), "a=1/1 c=1/2 x=1/0 d=1/4");
		made_put_u64(&made, values[5] + l->cell_value, one);
		cr_assert_str_eq(locals_text(&frame), "a=1/1 c=1/2 x=1/0 d=1/4 e=1/8");
		/* A variable of a comprehension that is part of this function now. */
		made.bytes[frame.kinds + made.layout.bytes_data + 3 - MADE_BASE] = 0x30;
		if (l->code_kinds)
			cr_assert_str_eq(locals_text(&frame), "a=1/1 c=1/2 d=1/4 e=1/8");
		made.bytes[frame.kinds + made.layout.bytes_data + 3 - MADE_BASE] = 0x20;
		/* A small number in place of a reference; a reference to nothing. */
		made_put_u64(&made, frame.frame + l->frame_locals, 17 << 2 | 3);
		cr_assert_str_eq(locals_text(&frame),
				 tag ? "c=1/2 x=1/0 d=1/4 e=1/8" : "a=?/1 c=1/2 x=1/0 d=1/4 e=1/8");
		made_put_u64(&made, frame.frame + l->frame_locals, tag);
		cr_assert_str_eq(locals_text(&frame), "c=1/2 x=1/0 d=1/4 e=1/8");
		for (size_t i = 1; i < NR_WILD; i++) {
			made_put_u64(&made, frame.frame + l->frame_locals, wild[i] & ~3ULL);
			cr_assert(!strncmp(locals_text(&frame), "a=?/1 c=", 8) ||
				  wild[i] == MADE_BASE + 1 || wild[i] < 4);
		}
	}
}

Test(python_objects, variables_counts)
{
	static const uint32_t absurd[] = { 7, 4096, 4097, 1U << 20, 1U << 31, ~0U };

	FOR_EACH_VERSION(nr)
	{
		const struct python_heap_layout *l = &made.heap.objects;
		uint64_t one = made_int(&made, 1), values[VARIABLES] = { one, one, one, one };
		struct made_frame frame = frame_make(values);

		cr_assert_eq(strncmp(locals_text(&frame), "a=1/1 b=1/1 c=1/2", 17), 0);
		for (size_t i = 0; i < sizeof(absurd) / sizeof(*absurd); i++) {
			made_put_u32(&made, frame.code + l->code_nr, absurd[i]);
			cr_assert_str_eq(locals_text(&frame), strerror(EBADMSG));
			made_put_u64(&made, frame.names + l->tuple_size, absurd[i]);
			locals_text(&frame);
			made_put_u64(&made, frame.kinds + made.layout.bytes_size, absurd[i]);
			locals_text(&frame);
			made_put_u64(&made, frame.names + l->tuple_size, 4);
		}
		made_put_u64(&made, frame.names + l->tuple_size, l->code_kinds ? 6 : 4);
		made_put_u32(&made, frame.code + l->code_nr, l->code_kinds ? 6 : 4);
		for (size_t i = 0; i < sizeof(absurd) / sizeof(*absurd); i++) {
			made_put_u32(&made, frame.code + l->code_argcount, absurd[i]);
			locals_text(&frame);
			made_put_u32(&made, frame.code + l->code_kwonly, absurd[i]);
			locals_text(&frame);
		}
		made_put_u32(&made, frame.code + l->code_argcount, ~0U);
		cr_assert_str_eq(locals_text(&frame), strerror(EBADMSG));
		if (!l->code_kinds)
			continue;
		made_put_u32(&made, frame.code + l->code_argcount, 2);
		made_put_u32(&made, frame.code + l->code_kwonly, 1);
		made_put_u64(&made, frame.kinds + made.layout.bytes_size, 5);
		cr_assert_str_eq(locals_text(&frame), strerror(EBADMSG), "kinds are cut off");
	}
}

static uint64_t code_make(uint64_t name, uint64_t file, uint64_t table)
{
	const struct bpfprof_python_layout *l = &made.layout;
	uint64_t va = made_alloc(&made, 512);

	made_put_u64(&made, va + (l->code_qualname ? l->code_qualname : l->code_name), name);
	made_put_u64(&made, va + l->code_filename, file);
	made_put_u64(&made, va + l->code_linetable, table);
	made_put_u32(&made, va + l->code_firstlineno, 7);
	return va;
}

Test(python_objects, codes)
{
	static char text[5001];

	FOR_EACH_VERSION(nr)
	{
		uint64_t name = made_str(&made, "C.f"), file = made_str(&made, "/a/b.py"), va;
		uint64_t table = made_bytes(&made, "", 0);
		struct python_code_cache *cache;
		struct python_code code;
		int err;

		cr_assert_eq(python_code_read(&code, &made.heap, code_make(name, file, table)), 0);
		cr_assert_str_eq(code.name, "C.f");
		cr_assert_str_eq(code.file, "/a/b.py");
		cr_assert_eq(python_code_line(&code, BPFPROF_LASTI_NONE), 7);
		python_code_line(&code, 0);
		python_code_fini(&code);
		/* Without a table, or with one that is too long, it still has a name. */
		for (size_t i = 0; i < NR_WILD; i++) {
			made_put_u64(&made, table + made.layout.bytes_size, wild[i] | 1ULL << 30);
			va = code_make(name, file, i % 2 ? table : wild[i]);
			cr_assert_eq(python_code_read(&code, &made.heap, va), 0);
			cr_assert(!code.table || !code.table_len);
			cr_assert(code.table || !python_code_line(&code, 3));
			python_code_fini(&code);
			va = code_make(wild[i], file, table);
			cr_assert(python_code_read(&code, &made.heap, va));
			va = code_make(name, wild[i], table);
			cr_assert(python_code_read(&code, &made.heap, va));
			cr_assert(python_code_read(&code, &made.heap, wild[i]));
		}
		/* A name that is longer than what is taken ends where one can see it. */
		memset(text, 'x', sizeof(text) - 1);
		va = code_make(made_str(&made, "n"), made_str(&made, text),
			       made_bytes(&made, "", 0));
		cr_assert_eq(python_code_read(&code, &made.heap, va), 0);
		cr_assert_eq(strlen(code.file), 4096 + 3);
		cr_assert_str_eq(code.file + 4096, "\xe2\x80\xa6");
		python_code_fini(&code);
		/* Asked for once. */
		cr_assert_eq(python_code_cache_new(&cache, &made.heap), 0);
		cr_assert_str_eq(python_code_cache_get(cache, va, NULL)->name, "n");
		made.nr_reads = 0;
		cr_assert_str_eq(python_code_cache_get(cache, va, &err)->name, "n");
		cr_assert_null(python_code_cache_get(cache, MADE_END, &err));
		cr_assert_eq(err, -EFAULT);
		cr_assert_eq(made.nr_reads, 1);
		cr_assert_null(python_code_cache_get(cache, MADE_END, &err));
		cr_assert_eq(made.nr_reads, 1);
		python_code_cache_free(cache);
	}
}
