// SPDX-License-Identifier: Apache-2.0
/*
 * The format is described in "Trace Event Format",
 * docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
 */
#include "formats/chrome_trace.h"

#include <errno.h>
#include <inttypes.h>

#include "base/json.h"

#define MAX_LINE_BYTES 65536

static void put(struct chrome_trace *trace, const char *text, size_t len)
{
	trace->bytes += len;
	if (trace->out)
		fwrite(text, 1, len, trace->out);
}

static void put_line(struct chrome_trace *trace)
{
	int err = buf_error(&trace->line);

	if (err && !trace->error)
		trace->error = err;
	if (!err)
		put(trace, trace->line.data, trace->line.len);
}

/* Begins an event. */
static struct buf *event_open(struct chrome_trace *trace, char phase, uint32_t pid, uint32_t tid)
{
	buf_reset(&trace->line);
	buf_printf(&trace->line, "%s\n{\"ph\":\"%c\",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32,
		   trace->any ? "," : "", phase, pid, tid);
	trace->any = true;
	return &trace->line;
}

static void event_close(struct chrome_trace *trace, const struct buf *args)
{
	if (args && args->len) {
		buf_add_str(&trace->line, ",\"args\":{");
		buf_add(&trace->line, args->data, args->len);
		buf_add_char(&trace->line, '}');
	}
	buf_add_char(&trace->line, '}');
	put_line(trace);
}

static void add_us(struct buf *dst, const char *key, uint64_t ns)
{
	buf_printf(dst, ",\"%s\":%" PRIu64 ".%03u", key, ns / 1000, (unsigned int)(ns % 1000));
}

static struct buf *timed_open(struct chrome_trace *trace, char phase,
			      const struct chrome_event *event)
{
	struct buf *line = event_open(trace, phase, event->pid, event->tid);

	add_us(line, "ts", event->ts_ns);
	return line;
}

static struct buf *named_open(struct chrome_trace *trace, char phase,
			      const struct chrome_event *event)
{
	struct buf *line = timed_open(trace, phase, event);

	json_key_text(line, "name", event->name);
	json_key_text(line, "cat", event->category);
	return line;
}

void chrome_trace_open(struct chrome_trace *trace, FILE *out)
{
	static const char head[] = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";

	*trace = (struct chrome_trace){ .out = out };
	buf_init(&trace->line, MAX_LINE_BYTES);
	put(trace, head, sizeof(head) - 1);
}

int chrome_trace_close(struct chrome_trace *trace, const struct buf *other)
{
	static const char head[] = "\n],\"otherData\":{", end[] = "}}\n";

	chrome_trace_skip_end(trace);
	put(trace, head, sizeof(head) - 1);
	if (other->len)
		put(trace, other->data, other->len);
	put(trace, end, sizeof(end) - 1);
	buf_fini(&trace->line);
	return trace->error;
}

void chrome_trace_skip(struct chrome_trace *trace, uint64_t bytes)
{
	if (!bytes)
		return;
	if (__builtin_add_overflow(trace->bytes, bytes, &trace->skip_until))
		trace->skip_until = UINT64_MAX;
	trace->skip_out = trace->out;
	trace->skip_any = trace->any;
	trace->out = NULL;
}

void chrome_trace_skip_end(struct chrome_trace *trace)
{
	if (!trace->skip_until)
		return;
	trace->skip_until = 0;
	trace->out = trace->skip_out;
	trace->any = trace->skip_any;
}

bool chrome_trace_skipped(struct chrome_trace *trace)
{
	if (!trace->skip_until)
		return false;
	if (trace->bytes >= trace->skip_until)
		chrome_trace_skip_end(trace);
	return true;
}

static void meta(struct chrome_trace *trace, uint32_t pid, uint32_t tid, const char *what,
		 const char *key, const char *text)
{
	struct buf *line = event_open(trace, 'M', pid, tid);

	json_key_text(line, "name", what);
	json_key_open(line, "args", '{');
	json_key_text(line, key, text);
	buf_add_char(line, '}');
	event_close(trace, NULL);
}

void chrome_trace_process(struct chrome_trace *trace, uint32_t pid, const char *name,
			  const char *labels)
{
	meta(trace, pid, 0, "process_name", "name", name);
	if (*labels)
		meta(trace, pid, 0, "process_labels", "labels", labels);
}

void chrome_trace_track(struct chrome_trace *trace, uint32_t pid, uint32_t tid, const char *name,
			int order)
{
	struct buf *line;

	meta(trace, pid, tid, "thread_name", "name", name);
	if (!order) /* 0 is the default */
		return;
	line = event_open(trace, 'M', pid, tid);
	buf_printf(line, ",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%d}", order);
	event_close(trace, NULL);
}

void chrome_trace_slice(struct chrome_trace *trace, const struct chrome_event *event, uint64_t ns)
{
	add_us(named_open(trace, 'X', event), "dur", ns);
	event_close(trace, event->args);
}

void chrome_trace_begin(struct chrome_trace *trace, const struct chrome_event *event)
{
	named_open(trace, 'B', event);
	event_close(trace, event->args);
}

void chrome_trace_end(struct chrome_trace *trace, const struct chrome_event *event)
{
	timed_open(trace, 'E', event);
	event_close(trace, event->args);
}

void chrome_trace_instant(struct chrome_trace *trace, const struct chrome_event *event)
{
	buf_add_str(named_open(trace, 'i', event), ",\"s\":\"t\"");
	event_close(trace, event->args);
}

void chrome_trace_flow(struct chrome_trace *trace, const struct chrome_event *event, uint64_t id,
		       bool ends)
{
	struct buf *line = named_open(trace, ends ? 'f' : 's', event);

	json_key_number(line, "id", id);
	if (ends) /* binds to the slice around it, not to the next one */
		buf_add_str(line, ",\"bp\":\"e\"");
	event_close(trace, event->args);
}

void chrome_trace_span(struct chrome_trace *trace, const struct chrome_event *event, uint64_t id,
		       bool ends)
{
	json_key_number(named_open(trace, ends ? 'e' : 'b', event), "id", id);
	event_close(trace, event->args);
}
