/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_FORMATS_PROFILE_READING_H
#define BPFPROF_FORMATS_PROFILE_READING_H

/* What the readers behind profile_read_add() share. Errors as there. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/profile_read.h"

struct buf;

int pprof_read(struct profile_read *read, const char *path, const uint8_t *data, size_t len,
	       struct buf *why);
/* Collapsed stacks and py-spy's raw. */
int folded_read(struct profile_read *read, const char *path, const char *text, size_t len,
		struct buf *why);

/*
 * Counters as stats_json() writes them, added to those of the other files. Malformed ones are left
 * out. How long the file says that it took, in ns; 0: it does not.
 */
uint64_t profile_read_stats(struct profile_read *read, const char *json, size_t len);

/* One entry of struct profile_read's intervals: a file's samples are of this time, Unix ns. */
struct profile_read_interval {
	uint64_t start, end;
};

/* What one file says of itself; 0: nothing. */
struct profile_read_file {
	uint64_t time_ns, duration_ns;
	uint32_t host;
	struct profile_value value;
};
/* -EINVAL, with the reason: it counts something else than the files before. */
int profile_read_file_add(struct profile_read *read, const struct profile_read_file *file,
			  struct buf *why);
/* Sets kernel_pid, and title where there is none, and adds it. */
int profile_read_process(struct profile_read *read, struct profile_process *process, uint32_t *ret);
/* Base name of path without what tells its format: a name for a process that the file does not name. */
uint32_t profile_read_name(struct profile_read *read, const char *path);
/* Kind of a location by its name, and what follows of that; name and file are set. */
void profile_read_kind(struct profile_read *read, struct profile_location *location);

#endif
