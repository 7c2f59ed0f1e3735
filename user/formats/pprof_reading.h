/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_FORMATS_PPROF_READING_H
#define BPFPROF_FORMATS_PPROF_READING_H

/* The state of reading a pprof file, for pprof_read.c and pprof_frames.c. Errors as in profile_read.h. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "formats/pprof_labels.h"
#include "formats/profile_reading.h"
#include "formats/wire.h"

#define PPROF_MAX_TYPES 16
#define PPROF_MAX_COMMENTS 1024
#define PPROF_MAX_ENTRIES (1U << 22) /* of each kind: texts, functions, frames */
#define PPROF_MAX_MAPPINGS 65536

struct pprof_type {
	uint64_t type, unit; /* texts of the file */
};

struct pprof_function {
	uint32_t name, system_name, file, start_line;
};

struct pprof_range {
	uint32_t first, nr;
};

struct pprof {
	struct profile_read *read;
	const char *path;
	struct buf *why;
	struct wire_span whole;
	const uint8_t *field; /* the start of the current field */
	struct vec texts; /* uint32_t of the builder, by the numbers of the file */
	struct pprof_type types[PPROF_MAX_TYPES];
	size_t nr_types;
	uint64_t comments[PPROF_MAX_COMMENTS];
	size_t nr_comments;
	uint64_t default_type, time_ns, duration_ns, period;
	size_t value_at, count_at; /* of the values of a sample */
	uint64_t scale; /* of the value */
	bool has_count, is_calls, has_main;
	size_t call_at[PROFILE_NR_CALL_VALUES]; /* of the values of a sample; nr_types: none */
	uint32_t main_name; /* of the first mapping, the program itself */
	struct map mappings_by_id, functions_by_id, frames_by_id;
	struct vec functions; /* struct pprof_function */
	struct vec mappings; /* uint32_t, of the builder */
	struct vec frames; /* struct pprof_range of locations */
	struct vec locations; /* uint32_t, of the builder */
	struct vec stack; /* uint32_t, of one sample */
	size_t nr_samples; /* that were read */
	uint64_t total; /* of their counts */
	struct pprof_labels labels;
	struct profile_read_file file;
};

#define PPROF_AT(vec, type, index) ((type *)(vec).data)[index]

/* -EBADMSG; adds the reason to why, unless it has one. */
int pprof_malformed(struct pprof *p, const char *what);
int pprof_too_many(struct pprof *p, const char *what, uint32_t most);
/* The builder's number of a text. */
int pprof_text(struct pprof *p, uint64_t index, uint32_t *ret);

/* Takes a mapping or a function; and a frame, after all of those. */
int pprof_take_referred(struct pprof *p, const struct wire_field *field);
int pprof_take_frame(struct pprof *p, const struct wire_field *of);

#endif
