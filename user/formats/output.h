/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_FORMATS_OUTPUT_H
#define BPFPROF_FORMATS_OUTPUT_H

/*
 * Room formats: writes profiles and traces as files, and reads profiles back.
 *
 * The files that a profile becomes: docs/files.md says which formats there are.
 * Files are written whole or not at all: a temporary file in the same folder,
 * fsync, rename. Writers stream; none of them keeps a second copy of the profile.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct buf;
struct profile;

/*
 * The formats, one line each: its value in the enum, its name (NAME_write() in NAME.c writes it), the
 * suffix that says it, and its content type. A new format is one line with MORE and that file. FIRST,
 * MORE and LAST make a text of each line with the right separator before it.
 */
#define OUTPUT_FORMATS(FIRST, MORE, LAST)                                                          \
	FIRST(PPROF, pprof, ".pb.gz", OUTPUT_BYTES)                                                \
	MORE(FOLDED, folded, ".folded", OUTPUT_PLAIN)                                              \
	MORE(HTML, html, ".html", "text/html; charset=utf-8")                                      \
	MORE(SVG, svg, ".svg", "image/svg+xml")                                                    \
	MORE(SPEEDSCOPE, speedscope, ".speedscope.json", "application/json")                       \
	LAST(RAW, raw, ".raw", OUTPUT_PLAIN) /* py-spy raw */
#define OUTPUT_EACH(EACH) OUTPUT_FORMATS(EACH, EACH, EACH)

#define OUTPUT_PLAIN "text/plain; charset=utf-8"
#define OUTPUT_BYTES "application/octet-stream"

/* "pprof, folded ... or raw"; ".pb.gz, .folded ... or .raw"; the same without "or". */
#define OUTPUT_NAMES OUTPUT_FORMATS(OUTPUT_NAME, ", " OUTPUT_NAME, " or " OUTPUT_NAME)
#define OUTPUT_SUFFIXES OUTPUT_FORMATS(OUTPUT_SUFFIX, ", " OUTPUT_SUFFIX, " or " OUTPUT_SUFFIX)
#define OUTPUT_NAME_LIST OUTPUT_FORMATS(OUTPUT_NAME, ", " OUTPUT_NAME, ", " OUTPUT_NAME)
#define OUTPUT_SUFFIX_LIST OUTPUT_FORMATS(OUTPUT_SUFFIX, " " OUTPUT_SUFFIX, " " OUTPUT_SUFFIX)
#define OUTPUT_NAME(VALUE, NAME, SUFFIX, TYPE) #NAME
#define OUTPUT_SUFFIX(VALUE, NAME, SUFFIX, TYPE) SUFFIX

enum output_format {
	OUTPUT_INVALID = 0,
	/* These two are not made from a profile alone; each command has a writer of its own. */
	OUTPUT_TRACE, /* .json: a Chrome trace */
	OUTPUT_PICKLE, /* .pickle: memory of GPUs over time */
#define OUTPUT_VALUE(VALUE, NAME, SUFFIX, TYPE) OUTPUT_##VALUE,
	OUTPUT_EACH(OUTPUT_VALUE)
#undef OUTPUT_VALUE
};

/*
 * Of a flame graph of two profiles (profile_diff.h): what one unit of a count is worth, and an
 * average sample, of which the sampling error follows. Index 0: before, 1: after.
 */
struct output_diff {
	double scale[2];
	double sample[2]; /* both 0: each call is counted, by chance there is nothing */
	const char *unit; /* of the results, for people; no quotes in it */
};

/* How far apart the two are by chance: one standard deviation of their difference. */
double output_diff_error(const struct output_diff *diff, double before, double after);
bool output_diff_is_exact(const struct output_diff *diff);

struct output_options {
	bool threads; /* THREAD-TID frames in collapsed stacks */
	bool native; /* .raw: native frames too */
	bool several; /* .raw: several processes: root frames `process PID:"CMDLINE"` */
	bool py_spy; /* .svg, .speedscope.json, .raw: as py-spy writes them (py_spy.h) */
	const struct output_diff *diff; /* .html and .svg of two profiles; else NULL */
	const char *title; /* flame graph's heading; NULL = made from the profile */
	const char *caption; /* beside it; NULL = made from the profile */
};

/*
 * By name, or by the suffix of path. OUTPUT_INVALID if unknown, and for formats that are not made from a
 * profile.
 */
enum output_format output_format_by_name(const char *name);
enum output_format output_format_by_path(const char *path);
const char *output_name(enum output_format format);
const char *output_suffix(enum output_format format); /* "" of OUTPUT_INVALID */
const char *output_content_type(enum output_format format);
bool output_has_suffix(const char *path, const char *suffix); /* and something before it */
/* Adds path with `what` in front of the suffix that says its format, or at its end without one. */
void output_path_insert(struct buf *dst, const char *path, const char *what);

/* Values for the % forms of file names. */
struct output_names {
	const char *host; /* %h; NULL: this machine */
	uint32_t pid; /* %p */
	uint64_t time_ns; /* %t as yyyymmddThhmmssZ */
	const char *worker; /* %w */
};

/*
 * Expands %h %p %t %w %{NAME} (environment) %%; anything else after % is -EINVAL.
 * -ENOENT for a variable that is not set. Slashes, control characters and a leading dot of a
 * value become '_'. Nothing is added on failure.
 */
int output_expand_path(struct buf *dst, const char *pattern, const struct output_names *names);

/*
 * Can path be written (parents made as needed)? Tried by making and removing a
 * temporary file there. 0 or -errno. "-" is always fine.
 */
int output_check(const char *path);

/*
 * Writes one file, or standard output for "-". 0 or -errno; after a failure nothing is left behind
 * and an older file of that name is as it was. Pipes, devices and /dev/fd/N are
 * written in place; a symbolic link to a file is replaced, not followed. SIGXFSZ must be ignored.
 */
int output_write(const char *path, enum output_format format, const struct profile *profile,
		 const struct output_options *options);
/* The same of whatever writer() writes, which gives 0 or -errno. */
int output_write_by(const char *path, int (*writer)(FILE *out, void *arg), void *arg);
/* The same for ready bytes (--stats). */
int output_write_bytes(const char *path, const void *data, size_t len);
/* Into an open file, from where it stands; neither synced nor closed. 0 or -errno. */
int output_write_fd(int fd, enum output_format format, const struct profile *profile,
		    const struct output_options *options);

/* The same of whatever writer() writes, which gives 0 or -errno. */
int output_write_fd_by(int fd, int (*writer)(FILE *out, void *arg), void *arg);

/* The writers themselves: 0 or -errno; stream errors are checked by the caller (ferror). */
#define OUTPUT_WRITER(VALUE, NAME, SUFFIX, TYPE)                                                   \
	int NAME##_write(FILE *out, const struct profile *profile,                                 \
			 const struct output_options *options);
OUTPUT_EACH(OUTPUT_WRITER)
#undef OUTPUT_WRITER

/* Text of one frame as .raw shows it, `NAME (PATH:LINE)`; nothing of what it leaves out. */
struct profile_location;
void raw_frame(struct buf *dst, const struct profile *profile,
	       const struct profile_location *location, bool native);

/* The run's last words: top functions by own and total time, then per process lines. */
void top_text(struct buf *dst, const struct profile *profile, size_t rows);

#endif
