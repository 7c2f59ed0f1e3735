// SPDX-License-Identifier: Apache-2.0
#include "python/code_read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash_table.h"
#include "python/heap.h"
#include "python/lines.h"

#define MAX_NAME_CHARS 4096 /* as much as the sampler takes */
#define MAX_FILE_CHARS 4096
#define MAX_TABLE (1U << 20)
#define MAX_CACHED 65536
#define MAX_CACHED_BYTES (64U << 20)

/* A string that ends with a mark if it was cut. */
static int text_read(struct python_heap *heap, uint64_t va, size_t max_chars, char **ret)
{
	static const char cut_mark[] = "\xe2\x80\xa6"; /* U+2026 */
	char *text, *marked;
	size_t len;
	bool cut;
	int err;

	err = python_heap_string(heap, va, max_chars, &text, &len, &cut);
	if (err)
		return err;
	if (cut) {
		marked = realloc(text, len + sizeof(cut_mark));
		if (!marked) {
			free(text);
			return -ENOMEM;
		}
		text = marked;
		memcpy(text + len, cut_mark, sizeof(cut_mark));
	}
	*ret = text;
	return 0;
}

/* A code object without a line table has a name still. */
static int table_read(struct python_code *code, struct python_heap *heap, uint64_t va)
{
	uint64_t len;

	if (python_heap_u64(heap, va + heap->layout->bytes_size, &len))
		return 0;
	if (len > MAX_TABLE) {
		heap->counts.nr_cut++;
		return 0;
	}
	code->table = malloc(len + 1);
	if (!code->table)
		return -ENOMEM;
	if (len &&
	    python_heap_read(heap, va + heap->layout->bytes_data, code->table, (uint32_t)len)) {
		free(code->table);
		code->table = NULL;
		return 0;
	}
	code->table_len = (uint32_t)len;
	return 0;
}

int python_code_read(struct python_code *ret, struct python_heap *heap, uint64_t va)
{
	const struct bpfprof_python_layout *l = heap->layout;
	struct python_code code = { .va = va, .lines = l->lines };
	uint8_t buf[BPFPROF_PYTHON_CODE_BYTES] = { 0 };
	int err;

	if (l->code_bytes > sizeof(buf))
		return -EBADMSG;
	err = python_heap_read(heap, va, buf, l->code_bytes);
	if (err)
		return err;
	code.first_line = bytes_u32(buf + l->code_firstlineno);
	code.flags = bytes_u32(buf + l->code_flags);
	err = text_read(heap, bytes_u64(buf + (l->code_qualname ? l->code_qualname : l->code_name)),
			MAX_NAME_CHARS, &code.name);
	if (!err)
		err = text_read(heap, bytes_u64(buf + l->code_filename), MAX_FILE_CHARS,
				&code.file);
	if (!err)
		err = table_read(&code, heap, bytes_u64(buf + l->code_linetable));
	if (err) {
		python_code_fini(&code);
		return err;
	}
	*ret = code;
	return 0;
}

void python_code_fini(struct python_code *code)
{
	free(code->name);
	free(code->file);
	free(code->table);
	*code = (struct python_code){ 0 };
}

uint32_t python_code_line(const struct python_code *code, uint32_t lasti)
{
	if (lasti == BPFPROF_LASTI_NONE)
		return code->first_line;
	if (!code->table)
		return 0;
	return python_line(code->lines, code->table, code->table_len, code->first_line, lasti);
}

struct cached {
	struct hash_node node;
	struct python_code code;
	int err;
};

struct python_code_cache {
	struct python_heap *heap;
	struct hash_table codes; /* by code.va */
	size_t bytes; /* of what they point to */
};

int python_code_cache_new(struct python_code_cache **ret, struct python_heap *heap)
{
	struct python_code_cache *cache = calloc(1, sizeof(*cache));

	if (!cache)
		return -ENOMEM;
	cache->heap = heap;
	hash_table_init(&cache->codes, MAX_CACHED, struct cached, code.va);
	*ret = cache;
	return 0;
}

void python_code_cache_free(struct python_code_cache *cache)
{
	struct cached *at;

	if (!cache)
		return;
	hash_table_each(&cache->codes, at)
		python_code_fini(&at->code);
	hash_table_clear(&cache->codes);
	free(cache);
}

static int cached_add(struct python_code_cache *cache, uint64_t va, struct cached **ret)
{
	struct cached *fresh;

	if (cache->codes.nr >= MAX_CACHED || cache->bytes >= MAX_CACHED_BYTES) {
		cache->heap->counts.nr_cut++;
		return -E2BIG;
	}
	fresh = hash_table_add(&cache->codes, &va);
	if (!fresh)
		return -ENOMEM;
	fresh->err = python_code_read(&fresh->code, cache->heap, va);
	fresh->code.va = va;
	if (!fresh->err)
		cache->bytes +=
			fresh->code.table_len + strlen(fresh->code.name) + strlen(fresh->code.file);
	*ret = fresh;
	return 0;
}

const struct python_code *python_code_cache_get(struct python_code_cache *cache, uint64_t va,
						int *ret_err)
{
	struct cached *found = hash_table_find(&cache->codes, &va);
	int err = 0;

	if (!found)
		err = cached_add(cache, va, &found);
	if (!err)
		err = found->err;
	if (ret_err)
		*ret_err = err;
	return err ? NULL : &found->code;
}
