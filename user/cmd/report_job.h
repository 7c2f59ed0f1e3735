/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CMD_REPORT_JOB_H
#define BPFPROF_CMD_REPORT_JOB_H

/* The parts of bpfprof report. They report errors. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "formats/output.h"
#include "formats/profile_read.h"
#include "profile/profile.h"
#include "report/tally.h"

#define REPORT_TEXT_BYTES ((size_t)256 << 20)

struct buf;
struct report_options;

/* Some files as one profile. */
struct report_input {
	struct profile_read read;
	struct profile profile;
	bool partial; /* a file of a bundle could not be read, which was reported */
};

/* Files that were read. All zero to begin with. */
struct report_seen {
	struct report_place {
		dev_t dev;
		ino_t ino;
		const char *path;
	} * places;
	size_t nr, cap;
};

/* Was this open file read before, under any name? A warning reports it; else it is added. */
bool report_is_seen(struct report_seen *seen, int fd, const char *path);
void report_seen_fini(struct report_seen *seen);

/* How a file is named in messages: nothing in it controls a terminal. */
void report_file_name(struct buf *dst, const char *path);
int report_open(const char *path); /* a file, or standard input for "-"; or -errno */
/* Reads a file, or standard input for "-". 0, -E2BIG past dst's maximum, -ENOMEM, or -errno. */
int report_load(struct buf *dst, const char *path);
int report_load_fd(struct buf *dst, int fd); /* the same of an open one */
/* To standard output. err: of making the text. An exit status. */
int report_print(const struct buf *text, int err);

/* 0 or an error, which is reported; report_input_fini() is due. */
int report_input_read(struct report_input *input, char *const *files, size_t nr,
		      const struct report_options *options);
void report_input_fini(struct report_input *input);
/* Sets titles as --by wants them. The same. */
int report_input_group(struct report_input *input, enum tally_by by);
/* All of -o. An exit status. */
int report_write(const struct report_options *options, const struct profile *profile,
		 const struct output_options *how);

/* Nothing was printed: there are not two parts. For --compare auto the usual table is the answer. */
#define REPORT_NOT_COMPARED (-1)
/* --compare, to standard output. An exit status, or REPORT_NOT_COMPARED. */
int report_compare(const struct report_options *options, const struct report_input *input);
/* --lines, to standard output. An exit status. */
int report_lines(const struct report_options *options, const struct profile *profile);

int report_diff_run(const struct report_options *options);
int report_tasks_run(const struct report_options *options);
int report_nccl_run(const struct report_options *options);
int report_profiles_run(const struct report_options *options);

#endif
