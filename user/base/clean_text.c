// SPDX-License-Identifier: Apache-2.0
#include "base/clean_text.h"

#include <string.h>

#include "base/utf8.h"

void clean_text(char *dst, size_t cap, const char *src, size_t len)
{
	size_t n, used = 0;

	len = strnlen(src, len);
	while (len) {
		n = utf8_printable(src, len);
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
