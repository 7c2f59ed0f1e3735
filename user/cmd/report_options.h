/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CMD_REPORT_OPTIONS_H
#define BPFPROF_CMD_REPORT_OPTIONS_H

/* The options of `bpfprof report`; rules as in options/options.h. */

#include <stdbool.h>
#include <stddef.h>

#include "capture/process_choice.h"
#include "cmd/report_store.h"
#include "options/options.h"
#include "report/profile_diff.h"
#include "report/tally.h"

/* --compare: the parts that are compared. */
enum report_compare {
	REPORT_COMPARE_NONE,
	REPORT_COMPARE_AUTO, /* the first kind below that occurs more than once */
	REPORT_COMPARE_RANK,
	REPORT_COMPARE_POD,
	REPORT_COMPARE_NODE,
};

struct report_options {
	struct record_options record; /* files to write; without any a table is printed */
	bool nccl;
	bool tasks;
	bool timelines; /* with tasks: the files are timelines, not profiles */
	enum report_compare compare;
	bool diff; /* exactly two files */
	enum diff_per per;
	bool has_per; /* the user gave it */
	char **files; /* "-": standard input, at most once */
	size_t nr_files;
	struct report_window window; /* of files that are folders */
	struct process_choice choice; /* the samples that count; no workers */
	size_t rows; /* of a table, 0: all */
	enum tally_by by;
	bool by_total; /* the table's order */
	char *library; /* itwinai's table, of leaves under this; or NULL */
	bool aggregate_leaf;
	char *lines; /* a source file, to be printed with its samples; or NULL */
	char *sample_type; /* of a pprof; NULL: its default */
	const struct flag
		*of_profiles; /* the last flag of the user that is about profiles, or NULL */
};

extern const struct flag_set report_flags;

#endif
