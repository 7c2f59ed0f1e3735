/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROC_TITLE_H
#define BPFPROF_PROC_TITLE_H

/*
 * The title of a Ray worker, which the worker writes over its own arguments: `ray::Class.method` while
 * a method runs, `ray::IDLE` between two tasks (Ray: python/ray/_raylet.pyx, worker.py
 * _changeproctitle). The target chooses the text, and a reader may see it half written.
 */

#include <stddef.h>

/*
 * Bytes; a longer title is cut and ends in "...". Ray has as much room as the arguments took that the
 * worker was started with: 872 bytes in Ray 2.60.
 */
#define TITLE_MAX 1023
#define TITLE_PREFIX "ray::"

/*
 * Copies the title in raw (len bytes, or up to a NUL) to dst, if it is one: `ray::` and at least one
 * more character, valid UTF-8, no control characters. 0; -EBADMSG: it is none, dst stays as it was.
 */
int title_parse(char dst[TITLE_MAX + 1], const char *raw, size_t len);

/* Cuts as title_parse(): len bytes of text, or as many whole characters as fit and "...". cap > 3. */
void title_cut(char *dst, size_t cap, const char *text, size_t len);

/*
 * *dst, NULL or on the heap, becomes a copy of the first len bytes of text (no more than it has).
 * 0 or -ENOMEM: *dst is as it was.
 */
int title_keep(char **dst, const char *text, size_t len);

#endif
