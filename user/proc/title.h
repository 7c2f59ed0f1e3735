/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROC_TITLE_H
#define BPFPROF_PROC_TITLE_H

/*
 * The title of a Ray worker: what it wrote over its own arguments, `ray::Class.method` while it
 * runs one, `ray::IDLE` between two tasks (Ray: python/ray/_raylet.pyx, worker.py
 * _changeproctitle). It is the target's to write, and may be read half written.
 */

#include <stddef.h>

/*
 * Bytes; what is longer is cut and ends in "...". Ray writes as much as the arguments had that it was
 * started with: 872 bytes in Ray 2.60.
 */
#define TITLE_MAX 1023
#define TITLE_PREFIX "ray::"

/*
 * The title in raw (len bytes, or up to a NUL), checked: `ray::` and at least one more character,
 * valid UTF-8, no control characters. dst, with room for TITLE_MAX + 1, gets it with a NUL.
 * 0, or -EBADMSG and dst is as it was.
 */
int title_parse(char dst[TITLE_MAX + 1], const char *raw, size_t len);

/* As title_parse() cuts: len bytes of text, or as many whole characters as fit and "...". cap > 3. */
void title_cut(char *dst, size_t cap, const char *text, size_t len);

/*
 * *dst, NULL or on the heap, becomes a copy of the first len bytes of text (no more than it has).
 * 0 or -ENOMEM: *dst is as it was.
 */
int title_keep(char **dst, const char *text, size_t len);

#endif
