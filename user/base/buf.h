/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_BUF_H
#define BPFPROF_BASE_BUF_H

/*
 * Room base: gives all other rooms buffers, tables, JSON, text, time, deadlines and messages.
 *
 * A growing byte buffer with a mandatory maximum and a sticky error: the caller appends as often as
 * needed and checks buf_error() once. The caller owns the struct; buf_fini() frees the bytes.
 */

#include <stddef.h>

struct buf {
	char *data; /* NUL after len bytes once anything was appended */
	size_t len;
	size_t cap;
	size_t max;
	int error; /* 0, -ENOMEM or -E2BIG */
};

void buf_init(struct buf *buf, size_t max);
void buf_fini(struct buf *buf);
void buf_reset(struct buf *buf); /* empties, keeps the memory, clears the error */

void buf_add(struct buf *buf, const void *data, size_t len);
void buf_add_str(struct buf *buf, const char *str);
void buf_add_char(struct buf *buf, char c);
void buf_printf(struct buf *buf, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

int buf_error(const struct buf *buf);
/* The bytes, NUL-terminated; the caller frees them. NULL after an error. */
char *buf_take(struct buf *buf);

static inline void buf_fini_ptr(struct buf *buf)
{
	buf_fini(buf);
}

#endif
