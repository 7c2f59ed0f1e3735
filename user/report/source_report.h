/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_REPORT_SOURCE_REPORT_H
#define BPFPROF_REPORT_SOURCE_REPORT_H

/* A source file with the samples of each of its lines. */

#include <stddef.h>
#include <stdint.h>

struct buf;
struct profile;

/*
 * The files that frames are of and that `wanted` may mean: that name in full, or its end; or the end
 * of wanted, where the profile has short names only. At most max of them, ascending; how many there
 * are, or -ENOMEM. Borrowed from the profile.
 */
int source_files(const struct profile *profile, const char *wanted, const char **ret, size_t max);

/*
 * text[len] is the source of the file that the profile calls `file`. 0 or -ENOMEM; dst has an error
 * of its own. *ret_odd: weight of samples at lines that cannot run: past the end, empty, comments.
 */
int source_report(struct buf *dst, const struct profile *profile, const char *file,
		  const char *text, size_t len, uint64_t *ret_odd);

#endif
