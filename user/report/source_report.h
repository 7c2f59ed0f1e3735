/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_REPORT_SOURCE_REPORT_H
#define BPFPROF_REPORT_SOURCE_REPORT_H

/* A source file with the samples of each of its lines. */

#include <stddef.h>
#include <stdint.h>

struct buf;
struct profile;

/*
 * Finds the files of frames that `wanted` may mean: a file with that name, or one that ends in it; if the
 * profile has short names only, one that wanted ends in. Writes at most max of them, ascending and
 * borrowed from the profile, and returns how many there are, or -ENOMEM.
 */
int source_files(const struct profile *profile, const char *wanted, const char **ret, size_t max);

/*
 * text[len] is the source of the file that the profile calls `file`. *ret_odd: the weight of samples at
 * lines that cannot run: past the end, empty, comments. 0 or -ENOMEM; the caller checks buf_error(dst).
 */
int source_report(struct buf *dst, const struct profile *profile, const char *file,
		  const char *text, size_t len, uint64_t *ret_odd);

#endif
