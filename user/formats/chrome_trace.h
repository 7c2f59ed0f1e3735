/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_FORMATS_CHROME_TRACE_H
#define BPFPROF_FORMATS_CHROME_TRACE_H

/*
 * Writes Chrome's trace event format (JSON object form), which Perfetto and chrome://tracing open. A
 * track is a (pid, tid): a thread, or anything else under a tid that no thread has. The caller passes
 * events by their time, outer ones first; slices of a track may nest, but not overlap. Times are
 * nanoseconds, and microseconds in the file. Without a stream the writer only counts the bytes.
 *
 * Names are made safe here. args has members made by json_key_*(), without braces, or is NULL.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"

struct chrome_trace {
	FILE *out; /* NULL: counted only */
	struct buf line;
	uint64_t bytes; /* so far */
	bool any; /* a comma is due */
	/* While events are skipped. */
	uint64_t skip_until; /* the number of bytes at which that ends; 0: events are written */
	FILE *skip_out;
	bool skip_any;
	int error; /* the first one: -ENOMEM, -E2BIG; ferror() has that of the stream */
};

struct chrome_event {
	const char *name;
	const char *category;
	uint32_t pid, tid;
	uint64_t ts_ns;
	const struct buf *args;
};

/* Write the head and the end of the file; other has the members of `otherData`. 0 or trace->error. */
void chrome_trace_open(struct chrome_trace *trace, FILE *out);
int chrome_trace_close(struct chrome_trace *trace, const struct buf *other);

/*
 * Skips the next events until they have so many bytes together (UINT64_MAX: all). After each event
 * chrome_trace_skipped() says whether it was skipped; after the last of them `skip_until` is 0.
 */
void chrome_trace_skip(struct chrome_trace *trace, uint64_t bytes);
bool chrome_trace_skipped(struct chrome_trace *trace);
void chrome_trace_skip_end(
	struct chrome_trace *trace); /* if it has not ended; so does the file's end */

/* Name processes and tracks, at any place of the file. A track with a smaller order is above. */
void chrome_trace_process(struct chrome_trace *trace, uint32_t pid, const char *name,
			  const char *labels);
void chrome_trace_track(struct chrome_trace *trace, uint32_t pid, uint32_t tid, const char *name,
			int order);

void chrome_trace_slice(struct chrome_trace *trace, const struct chrome_event *event, uint64_t ns);
/* A slice whose end is not known yet. Its end needs only pid, tid and time. */
void chrome_trace_begin(struct chrome_trace *trace, const struct chrome_event *event);
void chrome_trace_end(struct chrome_trace *trace, const struct chrome_event *event);
void chrome_trace_instant(struct chrome_trace *trace, const struct chrome_event *event);
/* An arrow from the slice at one event to the slice at another one; both have the same id. */
void chrome_trace_flow(struct chrome_trace *trace, const struct chrome_event *event, uint64_t id,
		       bool ends);
/* Spans may overlap. Begin and end have the same name, category and id. */
void chrome_trace_span(struct chrome_trace *trace, const struct chrome_event *event, uint64_t id,
		       bool ends);

#endif
