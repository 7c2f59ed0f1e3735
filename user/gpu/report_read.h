/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_REPORT_READ_H
#define BPFPROF_GPU_REPORT_READ_H

/*
 * Reads files of `bpfprof gpu --once --json` for `report --nccl`. A file may come from anywhere:
 * its bytes, depth and kept entries are bounded, and an entry of the wrong type is skipped and
 * counted. The reader fills the structs of gpu/report.h that the analysis of NCCL needs (the kinds
 * in gpu/report_fields.h). Strings are those of the file up to a NUL, not yet safe for a terminal;
 * equal strings have one address. A silent process has only its names and threads. gpu_json()
 * cannot write a report that was read, since not all flags of known values are set. Everything
 * lives until gpu_read_fini().
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
	struct gpu_report report; /* seconds is 0 if it is not known */
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
	size_t nr_rows[GPU_NR_ROWS]; /* rows of each kind that have memory */
	uint64_t nr_not_understood; /* entries of a wrong type */
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

/* Is it a send or receive, which has two ranks, in contrast to a collective? */
bool gpu_read_is_between_two(const char *operation);

/* Parses a number without a sign or leading zeros; false if it does not fit. */
bool gpu_read_number(const char *text, uint32_t *ret);

/* The other rank of a send or receive. False: the operation is neither, or the file has no rank. */
bool gpu_read_peer(const char *operation, const char *extra, uint32_t *ret);

#endif
