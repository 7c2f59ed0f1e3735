// SPDX-License-Identifier: Apache-2.0
#include "base/utf8.h"

#define SURROGATE_FIRST 0xd800
#define SURROGATE_LAST 0xdfff
#define LAST 0x10ffff

size_t utf8_decode(const char *text, size_t left, uint32_t *ret)
{
	static const uint32_t smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };
	unsigned char first = (unsigned char)text[0];
	uint32_t c = first;
	size_t len, i;

	if (first < 0x80) {
		*ret = c;
		return 1;
	}
	len = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
	if (first < 0xc2 || first > 0xf4 || len > left)
		return 0;
	c &= 0x7fU >> len;
	for (i = 1; i < len; i++) {
		if (!utf8_continues(text[i]))
			return 0;
		c = c << 6 | (text[i] & 0x3f);
	}
	if (c < smallest[len] || c > LAST || (c >= SURROGATE_FIRST && c <= SURROGATE_LAST))
		return 0;
	*ret = c;
	return len;
}

size_t utf8_encode(char dst[UTF8_MAX], uint32_t c)
{
	size_t len = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4, i;

	if (len == 1) {
		dst[0] = (char)c;
		return 1;
	}
	for (i = len - 1; i; i--, c >>= 6)
		dst[i] = (char)(0x80 | (c & 0x3f));
	dst[0] = (char)((0xf00U >> len & 0xff) | c);
	return len;
}

bool utf8_continues(char byte)
{
	return ((unsigned char)byte & 0xc0) == 0x80;
}

bool utf8_is_control(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c <= 0x9f) || c == 0x61c || c == 0x200e || c == 0x200f ||
	       (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0xfeff;
}

size_t utf8_printable(const char *text, size_t left)
{
	uint32_t c;
	size_t len = utf8_decode(text, left, &c);

	return len && !utf8_is_control(c) ? len : 0;
}
