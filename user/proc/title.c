// SPDX-License-Identifier: Apache-2.0
#include "proc/title.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

#define CUT "..."

void title_cut(char *dst, size_t cap, const char *text, size_t len)
{
	size_t kept = cap - sizeof(CUT);

	if (len < cap) {
		memcpy(dst, text, len);
		dst[len] = 0;
		return;
	}
	while (kept && utf8_continues(text[kept]))
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
	/* The end is not checked: the read may have cut a character. */
	while (at < len && at <= TITLE_MAX) {
		n = utf8_printable(raw + at, len - at);
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
