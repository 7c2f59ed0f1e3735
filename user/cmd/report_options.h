/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CMD_REPORT_OPTIONS_H
#define BPFPROF_CMD_REPORT_OPTIONS_H

/* What `bpfprof report` is asked for; rules as in options/options.h. */

#include <stdbool.h>
#include <stddef.h>

#include "options/options.h"
#include "report/profile_diff.h"
#include "report/tally.h"

struct buf;

struct report_options {
	bool nccl;
	bool tasks;
	bool timelines; /* with tasks: the files are such, no profiles */
	bool diff; /* exactly two files */
	enum diff_per per;
	char **files; /* "-": standard input, at most once */
	size_t nr_files;
	size_t rows; /* of a table, 0: all */
	struct record_options record; /* files to write, how; else a table is printed */
	enum tally_by by;
	bool by_total; /* the table's order */
	char *library; /* itwinai's table, of leaves under this; or NULL */
	bool aggregate_leaf;
	char *lines; /* a source file, to be printed with its samples; or NULL */
	char *sample_type; /* of a pprof; NULL: its default */
};

int report_options_parse(struct report_options *options, int argc, char *const argv[],
			 struct buf *error);
void report_options_fini(struct report_options *options);
void report_help(struct buf *dst);

#endif
