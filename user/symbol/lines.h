/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_SYMBOL_LINES_H
#define BPFPROF_SYMBOL_LINES_H

/*
 * Reads the lines of an untrusted text in blocks. A line over LINES_MAX bytes is skipped. The caller owns
 * the struct; nothing needs to be freed.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define LINES_MAX 2048

struct lines {
	/* Bytes at off, 0 at the end, or -errno; called with ascending off, no gaps. */
	ssize_t (*read)(void *arg, void *dst, size_t len, uint64_t off);
	void *arg;
	uint64_t off; /* of the next block; the caller sets the first one */
	/* private */
	size_t pos, len;
	bool skip, end;
	char data[32768];
};

/* 1 and the line without its newline (until the next call) and its offset, 0 at the end, -errno. */
int lines_next(struct lines *lines, const char **ret_line, size_t *ret_len, uint64_t *ret_off);

/*
 * Reads a hexadecimal number ("0x" allowed) at *pos and the blanks behind it; *pos moves on. False if
 * there is none, if it has more than 64 bits, or if neither a blank nor the end follows.
 */
bool line_hex(const char *line, size_t len, size_t *pos, uint64_t *ret);

#endif
