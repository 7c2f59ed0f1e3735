/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CLI_REPORT_JOB_H
#define BPFPROF_CLI_REPORT_JOB_H

/* The parts of bpfprof report. What went wrong was said. */

#include <stddef.h>

struct buf;
struct report_options;

/* How a file is named in messages: nothing in it controls a terminal. */
void report_file_name(struct buf *dst, const char *path);
/* All of a file, or of standard input for "-". 0, -E2BIG past dst's maximum, -ENOMEM, or why it cannot be read. */
int report_load(struct buf *dst, const char *path);
/* To standard output. err: what making the text said. An exit status. */
int report_print(const struct buf *text, int err);

int report_nccl_run(const struct report_options *options);
int report_profiles_run(const struct report_options *options);

#endif
