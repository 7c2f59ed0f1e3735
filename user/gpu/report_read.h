/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_REPORT_READ_H
#define BPFPROF_GPU_REPORT_READ_H

/*
 * Files of `bpfprof gpu --once --json`, read for `report --nccl`. A file may come from anywhere: it
 * is bounded in bytes, depth and in how much of it is kept; an entry of the wrong type is skipped and
 * counted. Of gpu/report.h the reader fills what the analysis of NCCL needs (the kinds in
 * gpu/report_fields.h). Strings are as the file has them, up to a NUL, not yet fit for a terminal, and equal
 * ones are one. Of a silent process the reader takes only what names it and where it is. A report that was
 * read is not for gpu_json(): flags that say what is known are not all set. Everything lives until
 * gpu_read_fini().
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/report.h"
#include "gpu/report_fields.h"
#include "gpu/report_arrays.h"

#define GPU_READ_FILE_BYTES (64U << 20)
#define GPU_READ_FILES 1024

struct gpu_read_file {
	const char *path; /* as the user named it */
	struct gpu_report report; /* seconds: 0 if they are not known */
};

struct gpu_read_process {
	const struct gpu_report_process *report;
	uint32_t file;
	bool silent; /* it is one of report.silent */
};

struct gpu_read {
	struct gpu_read_file *files;
	size_t nr_files;
	struct gpu_read_process *processes; /* of all files, in their order */
	size_t nr_processes;
	size_t nr_comms, nr_collectives, nr_completions, nr_open; /* of all processes */
	size_t nr_rows[GPU_NR_ROWS]; /* memory was taken for so many of each kind */
	uint64_t nr_not_understood; /* entries of another type than they should have */
	uint64_t nr_left_out; /* entries past the limits */
	struct gpu_arrays
		arrays; /* all arrays above, and those of the reports with their strings */
};

int gpu_read_init(struct gpu_read *read); /* 0 or -ENOMEM */
void gpu_read_fini(struct gpu_read *read);

/*
 * Adds the file of that name with the content text[len]. 0, -EBADMSG (not what gpu --json writes),
 * -E2BIG (over GPU_READ_FILE_BYTES or GPU_READ_FILES, or too much to parse), -ENOMEM. After an error
 * a part of the file may have been added.
 */
int gpu_read_add(struct gpu_read *read, const char *path, const char *text, size_t len);

/* Is it a send or receive, which is between two ranks and not of all? */
bool gpu_read_is_between_two(const char *operation);

/* A number that fits, written without a sign or leading zeros. */
bool gpu_read_number(const char *text, uint32_t *ret);

/* The rank that a send or receive is with. False: it is none, or the file does not say. */
bool gpu_read_peer(const char *operation, const char *extra, uint32_t *ret);

#endif
