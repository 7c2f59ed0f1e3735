/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PYTHON_TEXT_H
#define BPFPROF_PYTHON_TEXT_H

/* Turns Python's strings in the target's memory into UTF-8, and shortens file names. */

#include <stddef.h>
#include <stdint.h>

/*
 * Writes len bytes of characters of char_bytes each (1 = Latin-1, 2, 4) to dst, always terminated. Lone
 * surrogates (undecodable file names: surrogateescape), invalid code points and NUL become U+FFFD; other
 * control characters stay. A text that does not fit is cut at a whole character and ends with U+2026, so
 * that the cut is visible, and so does a text that was cut before (total > len). Returns the length of
 * dst; 0 for any other char_bytes, and for cap 0.
 */
size_t python_text(char *dst, size_t cap, const uint8_t *src, size_t len, size_t total,
		   uint32_t char_bytes);

/*
 * The short form of a file name, a part of path: from the outermost folder on that still has an
 * __init__.py. has_init(arg, folder) checks that (1 yes, 0 no, negative: not known; folder has no slash
 * at its end). If it is not known, or has_init is NULL: the part behind the last site-packages/,
 * dist-packages/ or lib/pythonX.Y/ (or lib64); else the base name. <string> and
 * <frozen importlib._bootstrap> stay unchanged. At most 64 folders are checked.
 */
const char *python_short_file(const char *path, int (*has_init)(void *arg, const char *folder),
			      void *arg);

#endif
