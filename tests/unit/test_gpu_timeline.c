// SPDX-License-Identifier: Apache-2.0
#include "gpu/timeline.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/strtab.h"
#include "cuda/functions.h"
#include "gpu/call_table.h"
#include "gpu/trace.h"
#include "profile/aggregate.h"
#include "profile/stats.h"

#define START_NS 1000
#define PID 42
#define END_NS 1000000000ULL

static struct aggregate *a;
static struct call_table *table;
static struct gpu_trace *trace;
static char *text;
static size_t text_len;
static uint64_t nr_kept, nr_dropped;

static void setup(void)
{
	cr_assert_eq(aggregate_new(&a, false, 16U << 20), 0);
	cr_assert_eq(call_table_new(&table, a), 0);
	cr_assert_eq(gpu_trace_new(&trace, "/tmp", 64U << 20), 0);
}

static void teardown(void)
{
	gpu_trace_free(trace);
	call_table_free(table);
	aggregate_free(a);
	free(text);
}

TestSuite(gpu_timeline, .init = setup, .fini = teardown);

static uint32_t function_nr(const char *name)
{
	const struct gpu_function *all;
	size_t nr, i;

	all = gpu_functions(&nr);
	for (i = 1; i < nr; i++)
		if (!strcmp(all[i].name, name))
			return (uint32_t)i;
	cr_assert(false, "no function %s", name);
	return 0;
}

static struct bpfprof_gpu_trace call_of(const char *name, uint32_t tid, uint64_t begin, uint64_t ns)
{
	struct bpfprof_gpu_trace call = { .start_ns = START_NS,
					  .pid = PID,
					  .tid = tid,
					  .begin_ns = begin,
					  .ns = ns,
					  .function = function_nr(name),
					  .comm = "thread" };

	return call;
}

static void add(const char *name, uint32_t tid, uint64_t begin, uint64_t ns, uint64_t stream)
{
	struct bpfprof_gpu_trace call = call_of(name, tid, begin, ns);

	call.stream = stream;
	gpu_trace_call(trace, &call);
}

static bool comm_known(void *arg, uint32_t pid, uint64_t start_ns, uint64_t comm,
		       struct gpu_timeline_comm *ret)
{
	cr_assert_null(arg);
	cr_assert_eq(pid, PID);
	cr_assert_eq(start_ns, START_NS);
	*ret = (struct gpu_timeline_comm){ .hash = comm + 1, .rank = 3, .size = 8 };
	return true;
}

/* The trace as it is written. */
static json_t *written(uint64_t max_bytes)
{
	struct stats_reasons lost = { 0 };
	struct gpu_timeline timeline = { .trace = trace,
					 .table = table,
					 .comm = comm_known,
					 .facts.max_bytes = max_bytes,
					 .facts.host = "host",
					 .facts.end_ns = END_NS,
					 .facts.lost = &lost };
	json_error_t error;
	json_t *whole;
	FILE *out;

	stats_add(&lost, "something", 5);
	free(text);
	text = NULL;
	out = open_memstream(&text, &text_len);
	cr_assert_eq(gpu_timeline_write(out, &timeline), 0);
	fclose(out);
	nr_kept = timeline.facts.nr_kept;
	nr_dropped = timeline.facts.nr_dropped;
	whole = json_loadb(text, text_len, JSON_REJECT_DUPLICATES, &error);
	cr_assert_not_null(whole, "%s: %.1000s", error.text, text);
	return whole;
}

static json_t *closed_and_written(void)
{
	cr_assert_eq(gpu_trace_close(trace, END_NS), 0);
	return written(1U << 30);
}

static const char *of(const json_t *event, const char *key)
{
	const char *value = json_string_value(json_object_get(event, key));

	return value ? value : "";
}

/* The nth event of that phase, or NULL. */
static json_t *event_of(const json_t *whole, char phase, size_t nth)
{
	const json_t *events = json_object_get(whole, "traceEvents");
	json_t *event;
	size_t i;

	json_array_foreach(events, i,
			   event) if (of(event, "ph")[0] == phase && !nth--) return event;
	return NULL;
}

static double number(const json_t *event, const char *key)
{
	return json_number_value(json_object_get(event, key));
}

static void expect(const json_t *event, const char *name, double ts)
{
	cr_assert_not_null(event, "no %s: %s", name, text);
	cr_assert_str_eq(of(event, "name"), name);
	cr_assert_float_eq(number(event, "ts"), ts, 1e-6, "%s at %f", name, number(event, "ts"));
}

Test(gpu_timeline, nothing)
{
	json_t *whole = closed_and_written();

	cr_assert_eq(json_array_size(json_object_get(whole, "traceEvents")), 0);
	cr_assert_eq(number(json_object_get(whole, "otherData"), "calls"), 0);
	json_decref(whole);
}

Test(gpu_timeline, sorted_outer_ones_first)
{
	json_t *whole;

	/* Inner ones end, and come, before outer ones. */
	add("cuLaunchKernelEx", 50, 2000, 1000, 0x10);
	add("ncclAllReduce", 50, 1000, 5000, 0x10);
	add("cuMemFree_v2", 51, 1500, 10, 0);
	add("cuLaunchKernelEx", 50, 7000, 100, 0x10);
	add("ncclGroupEnd", 50, 7000, 200, 0);
	whole = closed_and_written();
	expect(event_of(whole, 'X', 0), "ncclAllReduce", 1.0);
	expect(event_of(whole, 'X', 1), "cuMemFree", 1.5);
	expect(event_of(whole, 'X', 2), "cuLaunchKernelEx", 2.0);
	expect(event_of(whole, 'X', 3), "ncclGroupEnd", 7.0);
	expect(event_of(whole, 'X', 4), "cuLaunchKernelEx", 7.0);
	cr_assert_null(event_of(whole, 'X', 5));
	cr_assert_float_eq(number(event_of(whole, 'X', 0), "dur"), 5.0, 1e-6);
	json_decref(whole);
}

/* A wait ends the spans of its streams. */
Test(gpu_timeline, spans)
{
	json_t *whole;

	add("cuLaunchKernel", 50, 1000, 10, 0x10);
	add("cuLaunchKernel", 50, 2000, 10, 0x10);
	add("cuLaunchKernel", 50, 2500, 10, 0x20);
	add("cuStreamSynchronize", 50, 3000, 1000, 0x10); /* of one of them */
	add("cuEventSynchronize", 50, 4100, 10, 0); /* of an unknown stream */
	add("cuLaunchKernel", 50, 5000, 10, 0); /* the default stream, */
	add("cuMemcpyDtoH_v2", 50, 6000, 500, 0); /* waits for the launch before it */
	add("cuMemcpyDtoD_v2", 50, 6600, 500, 0);
	add("cuLaunchKernel", 51, 7000, 10, 0x10);
	add("cuCtxSynchronize", 50, 8000, 1000, 0); /* for both that are left */
	add("cuLaunchKernel", 51, 8500, 10, 0x10); /* while it waits: a new one, to the end */
	whole = closed_and_written();
	expect(event_of(whole, 'b', 0), "launch to sync: stream 0x10", 1.0);
	expect(event_of(whole, 'b', 1), "launch to sync: stream 0x20", 2.5);
	expect(event_of(whole, 'e', 0), "launch to sync: stream 0x10", 4.0);
	expect(event_of(whole, 'b', 2), "launch to sync: default stream", 5.0);
	expect(event_of(whole, 'e', 1), "launch to sync: default stream", 6.5);
	expect(event_of(whole, 'b', 3), "launch to sync: stream 0x10", 7.0);
	expect(event_of(whole, 'b', 4), "launch to sync: stream 0x10", 8.5);
	cr_assert_float_eq(number(event_of(whole, 'e', 2), "ts"), 9.0, 1e-6);
	cr_assert_float_eq(number(event_of(whole, 'e', 3), "ts"), 9.0, 1e-6);
	expect(event_of(whole, 'e', 4), "launch to sync: stream 0x10", END_NS / 1e3);
	cr_assert_null(event_of(whole, 'e', 5));
	expect(event_of(whole, 'f', 3), "launch to sync", 8.0);
	cr_assert_null(event_of(whole, 'f', 4));
	json_decref(whole);
}

/* Legacy and per-thread default streams under all their names. */
Test(gpu_timeline, default_streams)
{
	json_t *whole;
	size_t i;

	add("cuLaunchKernel", 50, 1000, 10, 0);
	add("cuLaunchKernel", 51, 1100, 10, 1);
	add("cuLaunchKernel_ptsz", 50, 1200, 10, 0);
	add("cuLaunchKernel", 50, 1300, 10, 2);
	add("cuLaunchKernel_ptsz", 51, 1400, 10, 0);
	whole = closed_and_written();
	for (i = 0; i < 5; i++)
		cr_assert_not_null(event_of(whole, 'i', i));
	cr_assert_eq(number(event_of(whole, 'i', 0), "tid"),
		     number(event_of(whole, 'i', 1), "tid"));
	cr_assert_eq(number(event_of(whole, 'i', 2), "tid"),
		     number(event_of(whole, 'i', 3), "tid"));
	cr_assert_neq(number(event_of(whole, 'i', 3), "tid"),
		      number(event_of(whole, 'i', 4), "tid"));
	cr_assert_not_null(strstr(text, "\"default stream of thread 50\""));
	cr_assert_not_null(strstr(text, "\"default stream of thread 51\""));
	json_decref(whole);
}

Test(gpu_timeline, arguments)
{
	struct bpfprof_gpu_trace call = call_of("ncclAllReduce", 50, 1000, 10);
	json_t *whole, *args;

	call.handle = 0xabc;
	call.stream = 0x10;
	call.bytes = 4096;
	call.dims[0] = 7;
	call.dims[1] = 2;
	call.result = -3;
	gpu_trace_call(trace, &call);
	call = call_of("cuLaunchKernel", 50, 2000, 10);
	call.handle = 0x5000;
	call.dims[0] = 128;
	call.dims[5] = 3;
	call.flags = BPFPROF_CALL_NESTED;
	gpu_trace_call(trace, &call);
	call = call_of("cuMemAlloc_v2", 50, 3000, 10);
	call.handle = 0x7777; /* of a call that failed: no result */
	call.result = 2;
	gpu_trace_call(trace, &call);
	whole = closed_and_written();
	args = json_object_get(event_of(whole, 'X', 0), "args");
	cr_assert_str_eq(of(args, "datatype"), "float32");
	cr_assert_str_eq(of(args, "op"), "max");
	cr_assert_str_eq(of(args, "comm"), "0xabc");
	cr_assert_str_eq(of(args, "comm_hash"), "0xabd");
	cr_assert_eq(number(args, "rank"), 3);
	cr_assert_eq(number(args, "bytes"), 4096);
	cr_assert_eq(number(args, "result"), -3);
	args = json_object_get(event_of(whole, 'X', 1), "args");
	cr_assert_str_eq(of(args, "kernel"), "kernel@0x5000");
	cr_assert(json_is_true(json_object_get(args, "nested")));
	cr_assert_eq(json_integer_value(json_array_get(json_object_get(args, "grid"), 0)), 128);
	cr_assert_eq(json_integer_value(json_array_get(json_object_get(args, "block"), 2)), 3);
	args = json_object_get(event_of(whole, 'X', 2), "args");
	cr_assert_null(json_object_get(args, "address"));
	cr_assert_null(event_of(whole, 'i', 0), "a nested launch is on no stream by itself");
	json_decref(whole);
}

static void note_open(uint32_t tid, const char *name, uint64_t begin)
{
	struct bpfprof_gpu_thread thread = { .start_ns = START_NS, .pid = PID, .depth = 1 };

	thread.open[0].key = (struct bpfprof_gpu_key){ .start_ns = START_NS,
						       .pid = PID,
						       .function = function_nr(name) };
	thread.open[0].begin_ns = begin;
	thread.open[0].flags = BPFPROF_CALL_TRACED;
	thread.open[0].out = 0xdead;
	gpu_trace_note_open(trace, tid, &thread);
}

/* One of the calls that were open at the end returns later. */
Test(gpu_timeline, open_calls)
{
	json_t *whole;

	note_open(50, "cuStreamSynchronize", 1000);
	note_open(51, "ncclCommInitRank", 2000);
	note_open(52, "cuMemFree_v2", 3000);
	add("cuMemFree_v2", 52, 3000, 10, 0);
	whole = closed_and_written();
	expect(event_of(whole, 'X', 0), "cuStreamSynchronize", 1.0);
	expect(event_of(whole, 'X', 1), "ncclCommInitRank", 2.0);
	expect(event_of(whole, 'X', 2), "cuMemFree", 3.0);
	cr_assert_null(event_of(whole, 'X', 3));
	cr_assert_float_eq(number(event_of(whole, 'X', 0), "dur"), (END_NS - 1000) / 1e3, 1e-3);
	cr_assert(json_is_false(
		json_object_get(json_object_get(event_of(whole, 'X', 0), "args"), "returned")));
	cr_assert_null(json_object_get(json_object_get(event_of(whole, 'X', 1), "args"), "comm"),
		       "a pointer to a result is no handle");
	cr_assert_null(
		json_object_get(json_object_get(event_of(whole, 'X', 2), "args"), "returned"));
	json_decref(whole);
}

static void retitle(uint32_t pid, const char *title, const char *old, uint64_t ns)
{
	struct bpfprof_title_event event = { .rec.ts_ns = ns };

	event.task = (struct bpfprof_task_id){ .pid = pid, .tid = pid, .start_ns = START_NS };
	strncpy(event.title, title, sizeof(event.title) - 1);
	strncpy(event.old_comm, old, sizeof(event.old_comm) - 1);
	gpu_trace_title(trace, &event);
}

Test(gpu_timeline, titles)
{
	json_t *whole;

	retitle(PID, "ray::Actor.step", "ray::Actor", 1000);
	retitle(PID, "ray::Actor", "ray::Actor.step", 2000);
	retitle(PID, "ray::Actor.other", "ray::Actor", 3000);
	retitle(99, "ray::Nobody.asked", "ray::Nobody", 3500); /* it makes no calls */
	retitle(PID, "\x01", "", 3600);
	retitle(PID, "ray::Actor.third", "ray::Actor.other", 4000);
	add("cuMemFree_v2", PID, 1500, 10, 0);
	whole = closed_and_written();
	expect(event_of(whole, 'B', 0), "ray::Actor.step", 1.0);
	expect(event_of(whole, 'B', 1), "ray::Actor.other", 3.0);
	expect(event_of(whole, 'B', 2), "ray::Actor.third", 4.0);
	cr_assert_null(event_of(whole, 'B', 3));
	cr_assert_float_eq(number(event_of(whole, 'E', 0), "ts"), 2.0, 1e-6);
	cr_assert_float_eq(number(event_of(whole, 'E', 1), "ts"), 4.0, 1e-6);
	cr_assert_float_eq(number(event_of(whole, 'E', 2), "ts"), END_NS / 1e3, 1e-3);
	cr_assert_not_null(strstr(text, "\"Ray task\""));
	json_decref(whole);
}

/* With any limit the newest events stay within the bytes, and all events are accounted for. */
Test(gpu_timeline, limits)
{
	const uint64_t limits[] = { 64 << 10, 100000, 333333, 1 << 20, 3 << 20 };
	uint64_t last = 0;
	json_t *whole;
	size_t i;

	retitle(PID, "ray::Actor.step", "ray::Actor", 500);
	for (i = 0; i < 10000; i++)
		add("cuLaunchKernel", 50, 1000 + 100 * i, 50, 0x10);
	cr_assert_eq(gpu_trace_close(trace, END_NS), 0);
	for (i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		whole = written(limits[i]);
		cr_assert_leq(text_len, limits[i]);
		cr_assert_eq(nr_kept + nr_dropped, 10000);
		cr_assert_gt(nr_kept, last);
		cr_assert_eq(number(json_object_get(whole, "otherData"), "calls_dropped"),
			     nr_dropped);
		expect(event_of(whole, 'X', 0), "cuLaunchKernel",
		       (1000 + 100 * (double)nr_dropped) / 1e3);
		expect(event_of(whole, 'X', nr_kept - 1), "cuLaunchKernel", 1000.9);
		cr_assert_null(event_of(whole, 'X', nr_kept));
		/* A call that goes on past the last skipped event begins there. */
		cr_assert_not_null(event_of(whole, 'B', 0));
		cr_assert_not_null(event_of(whole, 'b', 0));
		cr_assert_null(event_of(whole, 'b', 1));
		last = nr_kept;
		json_decref(whole);
	}
	cr_assert_eq(nr_dropped, 0);
	whole = written(100);
	cr_assert_eq(nr_kept, 0);
	json_decref(whole);
}

Test(gpu_timeline, too_many_threads)
{
	struct stats_reasons lost = { 0 };
	uint32_t i;

	for (i = 0; i < GPU_TRACE_MAX_THREADS + 10; i++)
		add("cuMemFree_v2", 1000 + i, 1000 + i, 10, 0);
	cr_assert_eq(gpu_trace_nr_calls(trace), GPU_TRACE_MAX_THREADS);
	gpu_trace_lost(trace, &lost);
	cr_assert_eq(stats_total(&lost), 10);
	json_decref(closed_and_written());
	cr_assert_eq(nr_kept, GPU_TRACE_MAX_THREADS);
	cr_assert_eq(nr_dropped, 0);
}
