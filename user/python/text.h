/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PYTHON_TEXT_H
#define BPFPROF_PYTHON_TEXT_H

/*
 * Python's strings as the target keeps them, made into UTF-8.
 */

#include <stddef.h>
#include <stdint.h>

/*
 * len bytes of characters of char_bytes each (1 = Latin-1, 2, 4) into dst, always terminated. Lone
 * surrogates (undecodable file names: surrogateescape), code points that do not exist and NUL
 * become U+FFFD; other control characters stay. What does not fit is cut at a whole character,
 * and ends with U+2026 (the cut is visible), as does text that was cut before: `total` bytes, of
 * which only len are here. Returns the length of dst; 0 for any other char_bytes, and for cap 0.
 */
size_t python_text(char *dst, size_t cap, const uint8_t *src, size_t len, size_t total,
		   uint32_t char_bytes);

/*
 * The short form of a file name, a part of path: from the outermost folder that still holds an
 * __init__.py, as has_init(arg, folder) says (1 yes, 0 no, negative: cannot be seen; folder has no
 * slash at its end). Where that cannot be seen (NULL: nothing can): what follows the last
 * site-packages/, dist-packages/ or lib/pythonX.Y/ (or lib64); else the base name. <string>,
 * <frozen importlib._bootstrap> stay as they are. At most 64 folders are asked for.
 */
const char *python_short_file(const char *path, int (*has_init)(void *arg, const char *folder),
			      void *arg);

#endif
