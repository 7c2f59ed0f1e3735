// SPDX-License-Identifier: Apache-2.0
#include "base/wiped_json.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 64 /* jansson recurses, and the deadline's threads have a small stack */

/* The head of each block: wiping needs the size. It is as large as malloc()'s alignment. */
struct block_head {
	_Alignas(16) size_t bytes;
};

/*
 * The memory that wiped_json_load() may still take in this thread: jansson's allocator has no
 * argument. Other uses of jansson have no limit.
 */
static _Thread_local struct {
	bool limited;
	bool exceeded;
	size_t left;
} limit;

static void *block_alloc(size_t bytes)
{
	struct block_head *head;
	size_t total;

	if (__builtin_add_overflow(bytes, sizeof(*head), &total))
		return NULL;
	if (limit.limited && total > limit.left) {
		limit.exceeded = true;
		return NULL;
	}
	head = malloc(total);
	if (!head)
		return NULL;
	if (limit.limited)
		limit.left -= total;
	head->bytes = bytes;
	return head + 1;
}

static void block_free(void *block)
{
	struct block_head *head = block;

	if (!block)
		return;
	head--;
	if (limit.limited)
		limit.left += head->bytes + sizeof(*head);
	explicit_bzero(block, head->bytes);
	free(head);
}

static void set_allocator(void)
{
	json_set_alloc_funcs(block_alloc, block_free);
}

/* Counts brackets outside of strings; the parser finds other errors. */
static bool is_shallow(const char *text, size_t len)
{
	unsigned int depth = 0;
	bool in_string = false;
	size_t i;

	for (i = 0; i < len; i++) {
		if (in_string && text[i] == '\\')
			i++;
		else if (text[i] == '"')
			in_string = !in_string;
		else if (!in_string && (text[i] == '[' || text[i] == '{') && ++depth > MAX_DEPTH)
			return false;
		else if (!in_string && (text[i] == ']' || text[i] == '}') && depth)
			depth--;
	}
	return true;
}

static int load(json_t **ret, const char *text, size_t len, size_t max_bytes, size_t flags)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	json_t *json;

	pthread_once(&once, set_allocator);
	if (!is_shallow(text, len))
		return -EBADMSG;
	limit.limited = true;
	limit.exceeded = false;
	limit.left = max_bytes;
	errno = 0;
	/* No json_error_t is passed: it would get a piece of the text. */
	json = json_loadb(text, len, JSON_ALLOW_NUL | flags, NULL);
	limit.limited = false;
	if (json) {
		*ret = json;
		return 0;
	}
	if (limit.exceeded)
		return -E2BIG;
	return errno == ENOMEM ? -ENOMEM : -EBADMSG;
}

int wiped_json_load(json_t **ret, const char *text, size_t len, size_t max_bytes)
{
	return load(ret, text, len, max_bytes, 0);
}

int wiped_json_load_reals(json_t **ret, const char *text, size_t len, size_t max_bytes)
{
	return load(ret, text, len, max_bytes, JSON_DECODE_INT_AS_REAL);
}
