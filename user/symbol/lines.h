/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_SYMBOL_LINES_H
#define BPFPROF_SYMBOL_LINES_H

/*
 * Lines of an untrusted text, read in blocks. A line over LINES_MAX bytes is
 * passed over. The caller owns the struct; nothing needs to be freed.
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
	uint64_t off; /* of what is read next; set where to begin */
	/* private */
	size_t pos, len;
	bool skip, end;
	char data[32768];
};

/* 1 and the line without its newline (until the next call) and its offset, 0 at the end, -errno. */
int lines_next(struct lines *lines, const char **ret_line, size_t *ret_len, uint64_t *ret_off);

/*
 * A hexadecimal number ("0x" allowed) at *pos and the blanks behind it: true,
 * and *pos moves on; false if there is none, it is over 64 bits or no blank or end follows.
 */
bool line_hex(const char *line, size_t len, size_t *pos, uint64_t *ret);

#endif
