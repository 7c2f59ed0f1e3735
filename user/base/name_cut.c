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

size_t name_cut_finish(const struct name_cut *cut, char dst[NAME_CUT_MAX])
{
	size_t len = HEAD_LEN, skip = 0, i;
	char end[NAME_CUT_END];

	if (cut->len < NAME_CUT_MAX) {
		memcpy(dst, cut->head, cut->len);
		dst[cut->len] = 0;
		return cut->len;
	}
	for (i = 0; i < NAME_CUT_END; i++)
		end[i] = cut->end[(cut->len + i) % NAME_CUT_END];
	while (skip < 3 && utf8_continues(end[skip]))
		skip++;
	for (i = 0; i < 3 && utf8_continues(cut->head[len]); i++)
		len--;
	memcpy(dst, cut->head, len);
	snprintf(dst + len, MARK_LEN + 1, "...[%08x]...", cut->hash);
	len += MARK_LEN;
	memcpy(dst + len, end + skip, NAME_CUT_END - skip);
	len += NAME_CUT_END - skip;
	dst[len] = 0;
	return len;
}

bool name_cut_is_cut(const char *name, size_t len)
{
	const char *mark;

	if (len < HEAD_LEN + MARK_LEN)
		return false;
	mark = memmem(name + HEAD_LEN - 3, 3 + MARK_LEN, "...[", 4);
	return mark && mark + MARK_LEN <= name + len && !memcmp(mark + 12, "]...", 4);
}
