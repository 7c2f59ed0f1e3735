/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_FORMATS_TRACE_PLACE_H
#define BPFPROF_FORMATS_TRACE_PLACE_H

/*
 * The place of a trace's records until the trace is written: a file without a name in the folder of
 * path, or else in a folder for temporary files.
 */

struct trace_facts;

/* open() tries one folder, 0 or -errno. Returns 0, or the error of the last folder. */
int trace_place_open(const char *path, int (*open)(void *arg, const char *folder), void *arg);

/* The trace is written: warns of calls that are not in it. err: the error of their file, or 0. */
void trace_place_say_missing(const char *path, const struct trace_facts *facts, int err);

#endif
