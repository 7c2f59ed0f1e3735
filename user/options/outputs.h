/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_OPTIONS_OUTPUTS_H
#define BPFPROF_OPTIONS_OUTPUTS_H

/* The files that -o names, in the record_options of every command that writes profiles. */

#include <stdbool.h>

#include "formats/output.h"
#include "options/flag.h"
#include "options/options.h"

struct buf;

/* The rest of the rows --output, --format and --max-trace-bytes, after name, value and help. */
#define OUTPUTS_ROW                                                                                \
	FLAG_CUSTOM, FLAG_AT(struct record_options, nr_outputs),                                   \
		.letter = 'o', .repeatable = true, .take = outputs_take,                           \
		.release = outputs_release
#define OUTPUTS_FORMAT_ROW                                                                         \
	FLAG_CUSTOM, FLAG_AT(struct record_options, format),                                       \
		.take = outputs_take_format,                                                       \
		.refusal = "format must be trace, pickle, " OUTPUT_NAMES
#define OUTPUTS_TRACE_BYTES_ROW                                                                    \
	FLAG_BYTES, FLAG_AT(struct record_options, max_trace_bytes),                               \
		.min = 64ULL << 10, .max = 16ULL << 30,                                            \
		.refusal = "must be a number of bytes from 64K to 16G, like 256M"

/* For those rows; object is a record_options. */
int outputs_take(void *object, const char *value, struct buf *why);
int outputs_take_format(void *object, const char *value, struct buf *why);
void outputs_release(void *object);

/* Do both texts name the same file? Links are not followed. */
bool outputs_same_path(const char *a, const char *b);
/* Checks a file name and its % forms. 0, -ENOMEM, or -EINVAL with the reason added to why. */
int outputs_check_path(const char *path, struct buf *why);
/* The formats that a command writes besides those of a profile: bits. */
#define OUTPUTS_TRACES (1U << OUTPUT_TRACE)
#define OUTPUTS_PICKLES (1U << OUTPUT_PICKLE)

/*
 * Gives each file its format: by its name, else by --format. more: OUTPUTS_* of the command. 0, or -EINVAL
 * with a sentence added to error.
 */
int outputs_choose_formats(struct record_options *options, unsigned int more, struct buf *error);

#endif
