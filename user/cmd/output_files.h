/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CMD_OUTPUT_FILES_H
#define BPFPROF_CMD_OUTPUT_FILES_H

/* The files of -o: how record, gpu and report name them, and report that they are written. */

#include <stdbool.h>
#include <stdint.h>

#include "formats/output.h"

struct profile;
struct record_options;

/* Values of the % forms. %p is the recorded process if there is only one, else bpfprof itself. */
struct output_names output_files_names(const struct record_options *options, uint64_t time_ns);
/* Does a result go to standard output? */
bool output_files_have_standard(const struct record_options *options);
/* Does the profile have more than one process? Names and titles of one process are still one. */
bool output_files_several(const struct profile *profile);
/* Reports a file as written, or the error. path: the expanded pattern; NULL: that failed. Returns err. */
int output_files_report(const char *pattern, const char *path, int err);

#endif
