// SPDX-License-Identifier: Apache-2.0
#include "base/print.h"

#include <errno.h>

#include "base/utf8.h"

/* The length of what stands at text and may be printed as it is, 0: its first byte may not. */
static size_t fit_len(const char *text, size_t left)
{
	size_t n, len = 0;

	while (len < left) {
		n = text[len] == '\n' || text[len] == '\t' ? 1
							   : utf8_printable(text + len, left - len);
		if (!n)
			break;
		len += n;
	}
	return len;
}

int print_lines(FILE *out, const char *text, size_t len)
{
	size_t n;

	errno = EIO; /* for a stream that failed earlier */
	while (len) {
		n = fit_len(text, len);
		if (fwrite(text, 1, n, out) != n || (!n && putc('?', out) < 0))
			return -errno;
		n = n ? n : 1;
		text += n;
		len -= n;
	}
	return fflush(out) ? -errno : 0;
}
