/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_UTF8_H
#define BPFPROF_BASE_UTF8_H

/* Reads characters of UTF-8 (RFC 3629) from untrusted bytes, and writes them. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UTF8_MAX 4 /* bytes of one character */

/*
 * Reads the character at text; at most `left` (> 0) bytes may be read (SIZE_MAX: the text ends in
 * NUL). Returns its length; 0 if the bytes are not UTF-8, then *ret is untouched.
 */
size_t utf8_decode(const char *text, size_t left, uint32_t *ret);
/* Writes c, which is at most 0x10ffff and no surrogate. Returns the length. */
size_t utf8_encode(char dst[UTF8_MAX], uint32_t c);

/* True for the second and later bytes of a character. */
bool utf8_continues(char byte);
/*
 * True for characters that control a terminal (C0, DEL, C1), that end a line (U+2028, U+2029), or that
 * change the direction of the text around them.
 */
bool utf8_is_control(uint32_t c);
/* The length of the character at text; 0 for a control character and for bytes that are not UTF-8. */
size_t utf8_printable(const char *text, size_t left);

#endif
