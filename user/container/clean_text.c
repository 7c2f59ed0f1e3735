// SPDX-License-Identifier: Apache-2.0
#include "container/clean_text.h"

#include <stdint.h>
#include <string.h>

/* Length of the character at src (RFC 3629), 0 if it is none or a control character. */
static size_t char_len(const uint8_t *src, size_t len)
{
	static const uint32_t smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };
	uint32_t c = src[0];
	size_t n, i;

	if (c < 0x80)
		return c >= 0x20 && c != 0x7f;
	n = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
	if (c < 0xc2 || c > 0xf4 || n > len)
		return 0;
	c &= 0xff >> (n + 1);
	for (i = 1; i < n; i++) {
		if ((src[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (src[i] & 0x3f);
	}
	if (c < smallest[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ||
	    (c >= 0x80 && c < 0xa0))
		return 0;
	return n;
}

void clean_text(char *dst, size_t cap, const char *src, size_t len)
{
	size_t n, used = 0;

	len = strnlen(src, len);
	while (len) {
		n = char_len((const uint8_t *)src, len);
		if (used + (n ? n : 1) >= cap)
			break;
		if (n)
			memcpy(dst + used, src, n);
		else
			dst[used] = '?';
		n = n ? n : 1;
		used += n;
		src += n;
		len -= n;
	}
	dst[used] = 0;
}
