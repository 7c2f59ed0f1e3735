/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_FORMATS_CHROME_TRACE_H
#define BPFPROF_FORMATS_CHROME_TRACE_H

/*
 * Chrome's trace event format (JSON object form), as Perfetto and chrome://tracing open it. A track is a
 * (pid, tid): of a thread, or of anything else under a tid that no thread has. Slices of one track lie
 * inside or beside each other, never across: the caller's duty, as is that events come by their
 * time, outer ones first. Times are nanoseconds, written as microseconds. With no stream nothing is
 * written but counted, to know how long it would become.
 *
 * Names are made safe here. args is what json_key_*() made, without braces, or NULL.
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
	/* While events are passed over: when that ends, and what it began with. */
	uint64_t skip_until; /* in bytes; 0: none are */
	FILE *skip_out;
	bool skip_any;
	int error; /* the first: -ENOMEM, -E2BIG; of the stream see ferror() */
};

struct chrome_event {
	const char *name;
	const char *category;
	uint32_t pid, tid;
	uint64_t ts_ns;
	const struct buf *args;
};

/* The head of the file, and its end: other is what stands in `otherData`. The error, if there was one. */
void chrome_trace_open(struct chrome_trace *trace, FILE *out);
int chrome_trace_close(struct chrome_trace *trace, const struct buf *other);

/*
 * From here on events are passed over, but counted, until they are so long (UINT64_MAX: all). After each,
 * chrome_trace_skipped() says whether that one was; with the last of them `skip_until` becomes 0.
 */
void chrome_trace_skip(struct chrome_trace *trace, uint64_t bytes);
bool chrome_trace_skipped(struct chrome_trace *trace);
void chrome_trace_skip_end(
	struct chrome_trace *trace); /* if it has not ended; so does the file's end */

/* What tracks are called, in any order and at any place; of these, smaller orders stand above. */
void chrome_trace_process(struct chrome_trace *trace, uint32_t pid, const char *name,
			  const char *labels);
void chrome_trace_track(struct chrome_trace *trace, uint32_t pid, uint32_t tid, const char *name,
			int order);

void chrome_trace_slice(struct chrome_trace *trace, const struct chrome_event *event, uint64_t ns);
/* A slice whose end is not known yet; its end needs pid, tid and time only. */
void chrome_trace_begin(struct chrome_trace *trace, const struct chrome_event *event);
void chrome_trace_end(struct chrome_trace *trace, const struct chrome_event *event);
void chrome_trace_instant(struct chrome_trace *trace, const struct chrome_event *event);
/* Arrows from the slice that is there at the one time to the one at the other, by a number. */
void chrome_trace_flow(struct chrome_trace *trace, const struct chrome_event *event, uint64_t id,
		       bool ends);
/* Spans that lie across each other: begin and end, with the same name and category, by a number. */
void chrome_trace_span(struct chrome_trace *trace, const struct chrome_event *event, uint64_t id,
		       bool ends);

#endif
