// SPDX-License-Identifier: Apache-2.0
#include "proc/title.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CUT "..."

/*
 * Length of the character at text that may be shown: 0 if it is no UTF-8 (RFC 3629) or controls
 * something: C0, DEL, C1.
 */
static size_t character_length(const uint8_t *text, size_t left)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	uint32_t c = text[0];
	size_t len, i;

	if (c < 0x80)
		return c >= 0x20 && c != 0x7f;
	len = c < 0xc0 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf8 ? 4 : 0;
	if (!len || len > left)
		return 0;
	c &= 0x7fU >> len;
	for (i = 1; i < len; i++) {
		if ((text[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (text[i] & 0x3f);
	}
	if (c < least[len] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 0;
	return c >= 0x80 && c < 0xa0 ? 0 : len;
}

void title_cut(char *dst, size_t cap, const char *text, size_t len)
{
	size_t kept = cap - sizeof(CUT);

	if (len < cap) {
		memcpy(dst, text, len);
		dst[len] = 0;
		return;
	}
	while (kept && ((uint8_t)text[kept] & 0xc0) == 0x80)
		kept--;
	memcpy(dst, text, kept);
	memcpy(dst + kept, CUT, sizeof(CUT));
}

int title_parse(char dst[TITLE_MAX + 1], const char *raw, size_t len)
{
	size_t at = sizeof(TITLE_PREFIX) - 1, n;

	len = strnlen(raw, len);
	if (len <= at || memcmp(raw, TITLE_PREFIX, at))
		return -EBADMSG;
	/* What is cut off is not judged: a character may have been cut in two when it was read. */
	while (at < len && at <= TITLE_MAX) {
		n = character_length((const uint8_t *)raw + at, len - at);
		if (!n && !(len > TITLE_MAX && len - at < 4 && (uint8_t)raw[at] >= 0xc0))
			return -EBADMSG;
		at += n ? n : len - at;
	}
	title_cut(dst, TITLE_MAX + 1, raw, len);
	return 0;
}

int title_keep(char **dst, const char *text, size_t len)
{
	char *copy;

	len = strnlen(text, len);
	if (*dst && !strncmp(*dst, text, len) && !(*dst)[len])
		return 0;
	copy = strndup(text, len);
	if (!copy)
		return -ENOMEM;
	free(*dst);
	*dst = copy;
	return 0;
}
