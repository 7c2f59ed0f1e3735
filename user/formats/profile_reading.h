/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_FORMATS_PROFILE_READING_H
#define BPFPROF_FORMATS_PROFILE_READING_H

/* For the readers behind profile_read_add(), with the same errors. */

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
 * Adds counters in the form of stats_json() to those of the other files, except malformed ones. Returns
 * the duration of the file in ns; 0: it has none.
 */
uint64_t profile_read_stats(struct profile_read *read, const char *json, size_t len);

/* The time of a file, Unix ns. */
struct profile_read_interval {
	uint64_t start, end;
};

/* The facts of one file; 0: not known. */
struct profile_read_file {
	uint64_t time_ns, duration_ns;
	uint32_t host;
	struct profile_value value;
};
/* -EINVAL, with the reason: the file counts something else than the files before. */
int profile_read_file_add(struct profile_read *read, const struct profile_read_file *file,
			  struct buf *why);
/* Adds the process; sets its kernel_pid, and its title if it has none. */
int profile_read_process(struct profile_read *read, struct profile_process *process, uint32_t *ret);
/* The base name of path without its suffix, as the name of a process that the file does not name. */
uint32_t profile_read_name(struct profile_read *read, const char *path);
/* Sets the kind of a location that has name and file, and the members that depend on it. */
void profile_read_kind(struct profile_read *read, struct profile_location *location);

#endif
