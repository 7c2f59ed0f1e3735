/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_FORMATS_TRACE_PLACE_H
#define BPFPROF_FORMATS_TRACE_PLACE_H

/*
 * Where the records of a trace lie until it is written: in a file without a name beside the one that path
 * is to become, else in a folder for such.
 */

struct trace_facts;

/* open(): tries one folder, 0 or -errno. 0, or why it failed in the last one. */
int trace_place_open(const char *path, int (*open)(void *arg, const char *folder), void *arg);

/* Once the trace is written: what of its calls is not in it. err: of putting them away, 0 if none. */
void trace_place_say_missing(const char *path, const struct trace_facts *facts, int err);

#endif
