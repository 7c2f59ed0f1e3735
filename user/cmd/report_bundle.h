/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CMD_REPORT_BUNDLE_H
#define BPFPROF_CMD_REPORT_BUNDLE_H

/*
 * Several files on one standard input, for a machine where the reader cannot have files: a container with
 * a read-only root and without tar. "bpfprof-files" and a newline, then for each file "SIZE NAME", a
 * newline and SIZE bytes. The input is not trusted: sizes are checked against what is there.
 */

#include <stdbool.h>
#include <stddef.h>

struct report_bundle_file {
	char name[256]; /* for messages: not a path that is opened */
	const char *data; /* borrowed */
	size_t len;
};

bool report_bundle_is(const char *data, size_t len);
/*
 * Takes data of a bundle, and calls each() for every file until a call returns an error. Returns that error;
 * -EBADMSG: the bundle is cut off or malformed.
 */
int report_bundle_each(const char *data, size_t len,
		       int (*each)(void *arg, const struct report_bundle_file *file), void *arg);
/*
 * The same for readers: a bad file, which each() has reported, does not end it; *bad is set then.
 * -ECANCELED: all files are bad. -ENOMEM of each() ends it.
 */
int report_bundle_read(const char *data, size_t len,
		       int (*each)(void *arg, const struct report_bundle_file *file), void *arg,
		       bool *bad);

#endif
