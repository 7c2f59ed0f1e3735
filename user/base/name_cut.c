// SPDX-License-Identifier: Apache-2.0
#include "base/name_cut.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

#define MARK_LEN 16 /* ...[0123abcd]... */
#define HEAD_LEN (NAME_CUT_MAX - 1 - MARK_LEN - NAME_CUT_END)
#define FNV_BASIS 2166136261U
#define FNV_PRIME 16777619U

void name_cut_init(struct name_cut *cut)
{
	cut->len = 0;
	cut->hash = FNV_BASIS;
}

void name_cut_add(struct name_cut *cut, const char *str, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++, cut->len++) {
		cut->hash = (cut->hash ^ (uint8_t)str[i]) * FNV_PRIME;
		cut->end[cut->len % NAME_CUT_END] = str[i];
		if (cut->len < NAME_CUT_MAX)
			cut->head[cut->len] = str[i];
	}
}

/* Writes `HEAD...[0123abcd]...END`: len bytes of head at most, and the end. Length. */
static size_t join(char dst[NAME_CUT_MAX], const char *head, size_t len, uint32_t hash,
		   const char *end, size_t end_len)
{
	size_t skip = 0, i;

	while (skip < 3 && utf8_continues(end[skip]))
		skip++;
	for (i = 0; i < 3 && utf8_continues(head[len]); i++)
		len--;
	memcpy(dst, head, len);
	snprintf(dst + len, MARK_LEN + 1, "...[%08x]...", hash);
	len += MARK_LEN;
	memcpy(dst + len, end + skip, end_len - skip);
	len += end_len - skip;
	dst[len] = 0;
	return len;
}

size_t name_cut_finish(const struct name_cut *cut, char dst[NAME_CUT_MAX])
{
	char end[NAME_CUT_END];
	size_t i;

	if (cut->len < NAME_CUT_MAX) {
		memcpy(dst, cut->head, cut->len);
		dst[cut->len] = 0;
		return cut->len;
	}
	for (i = 0; i < NAME_CUT_END; i++)
		end[i] = cut->end[(cut->len + i) % NAME_CUT_END];
	return join(dst, cut->head, HEAD_LEN, cut->hash, end, NAME_CUT_END);
}

size_t name_cut_short(const char *name, size_t len, size_t max, char dst[NAME_CUT_MAX])
{
	struct name_cut cut;
	size_t half;

	if (max > NAME_CUT_MAX - 1)
		max = NAME_CUT_MAX - 1;
	if (len <= max) {
		memcpy(dst, name, len);
		dst[len] = 0;
		return len;
	}
	half = (max - MARK_LEN) / 2;
	name_cut_init(&cut);
	name_cut_add(&cut, name, len);
	return join(dst, name, half, cut.hash, name + len - half, half);
}

bool name_cut_is_cut(const char *name, size_t len)
{
	const char *mark;

	if (len < HEAD_LEN + MARK_LEN)
		return false;
	mark = memmem(name + HEAD_LEN - 3, 3 + MARK_LEN, "...[", 4);
	return mark && mark + MARK_LEN <= name + len && !memcmp(mark + 12, "]...", 4);
}
