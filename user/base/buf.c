// SPDX-License-Identifier: Apache-2.0
#include "base/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_init(struct buf *buf, size_t max)
{
	*buf = (struct buf){ .max = max };
}

void buf_fini(struct buf *buf)
{
	free(buf->data);
	*buf = (struct buf){ .max = buf->max };
}

void buf_reset(struct buf *buf)
{
	buf->len = 0;
	buf->error = 0;
	if (buf->data)
		buf->data[0] = 0;
}

/* Makes room for len more bytes and a NUL. */
static int buf_reserve(struct buf *buf, size_t len)
{
	size_t need, cap;
	char *tmp;

	if (buf->error)
		return buf->error;
	if (len > buf->max || buf->len > buf->max - len)
		return buf->error = -E2BIG;
	need = buf->len + len + 1;
	if (need <= buf->cap)
		return 0;
	cap = buf->cap ? buf->cap * 2 : 64;
	if (cap < need)
		cap = need;
	if (cap - 1 > buf->max)
		cap = buf->max + 1;
	tmp = realloc(buf->data, cap);
	if (!tmp)
		return buf->error = -ENOMEM;
	buf->data = tmp;
	buf->cap = cap;
	return 0;
}

void buf_add(struct buf *buf, const void *data, size_t len)
{
	if (buf_reserve(buf, len))
		return;
	if (len)
		memcpy(buf->data + buf->len, data, len);
	buf->len += len;
	buf->data[buf->len] = 0;
}

void buf_add_str(struct buf *buf, const char *str)
{
	buf_add(buf, str, strlen(str));
}

void buf_add_char(struct buf *buf, char c)
{
	buf_add(buf, &c, 1);
}

void buf_printf(struct buf *buf, const char *fmt, ...)
{
	va_list ap;
	int len;

	va_start(ap, fmt);
	len = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (len < 0) {
		buf->error = buf->error ? buf->error : -EINVAL;
		return;
	}
	if (buf_reserve(buf, (size_t)len))
		return;
	va_start(ap, fmt);
	vsnprintf(buf->data + buf->len, (size_t)len + 1, fmt, ap);
	va_end(ap);
	buf->len += (size_t)len;
}

int buf_error(const struct buf *buf)
{
	return buf->error;
}

char *buf_take(struct buf *buf)
{
	char *data;

	if (!buf->data)
		buf_add(buf, "", 0);
	if (buf->error)
		return NULL;
	data = buf->data;
	*buf = (struct buf){ .max = buf->max };
	return data;
}
