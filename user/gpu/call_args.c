// SPDX-License-Identifier: Apache-2.0
#include "gpu/call_args.h"

#include <inttypes.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "cuda/functions.h"
#include "gpu/timeline.h"
#include "gpu/trace.h"

/* Adds a handle or an address; 0 is left out. */
static void add_handle(struct buf *dst, const char *key, uint64_t handle)
{
	if (handle)
		json_key_hex(dst, key, handle);
}

/* Also writes handle 0 if the function has a stream argument: it means the default stream. */
static void add_stream(struct buf *dst, const struct gpu_function *function,
		       const struct gpu_trace_event *event)
{
	if (function->wire.stream || function->wire.kind == GPU_KIND_LAUNCH_CONFIG)
		json_key_hex(dst, "stream", event->stream);
}

static void add_comm(struct buf *dst, const struct gpu_trace_event *event,
		     const struct gpu_timeline_comm *comm)
{
	add_handle(dst, "comm", event->handle);
	if (comm && comm->hash)
		json_key_hex(dst, "comm_hash", comm->hash);
	if (comm && comm->size) {
		json_key_number(dst, "rank", comm->rank);
		json_key_number(dst, "size", comm->size);
	}
}

static void add_collective(struct buf *dst, const struct gpu_function *function,
			   const struct gpu_trace_event *event,
			   const struct gpu_timeline_comm *comm)
{
	const char *extra = gpu_nccl_extra(function);
	char type[24];

	json_key_text(dst, "datatype", gpu_nccl_type(event->dims[0], type));
	if (!strcmp(extra, "op"))
		json_key_text(dst, extra, gpu_nccl_operation(event->dims[1]));
	else if (*extra)
		json_key_number(dst, extra, event->dims[1]);
	add_comm(dst, event, comm);
}

static void add_of_kind(struct buf *dst, const struct gpu_function *function,
			const struct gpu_trace_event *event, const char *kernel,
			const struct gpu_timeline_comm *comm)
{
	switch (function->wire.kind) {
	case GPU_KIND_LAUNCH:
	case GPU_KIND_LAUNCH_CONFIG:
		json_key_text(dst, "kernel", kernel);
		/* A captured launch has no shape here. */
		if (event->flags & GPU_TRACE_CAPTURED)
			break;
		json_key_three(dst, "grid", event->dims);
		json_key_three(dst, "block", event->dims + 3);
		break;
	case GPU_KIND_GRAPH:
		/* The key is the same as in "graphs" of the JSON report. */
		add_handle(dst, "content", event->handle);
		break;
	case GPU_KIND_ALLOC:
	case GPU_KIND_FREE:
		add_handle(dst, "address", event->handle);
		break;
	case GPU_KIND_SYNC:
		add_handle(dst, "event", event->handle);
		break;
	case GPU_KIND_COLLECTIVE:
		add_collective(dst, function, event, comm);
		break;
	case GPU_KIND_GC:
		if (event->handle != BPFPROF_GPU_OTHER)
			json_key_number(dst, "generation", event->dims[0]);
		break;
	case GPU_KIND_COMM_INIT:
	case GPU_KIND_COMM_END:
		add_comm(dst, event, comm);
		break;
	}
}

void gpu_call_args(struct buf *dst, const struct gpu_function *function,
		   const struct gpu_trace_event *event, const char *kernel,
		   const struct gpu_timeline_comm *comm)
{
	add_of_kind(dst, function, event, kernel, comm);
	if (event->bytes)
		json_key_number(dst, "bytes", event->bytes);
	add_stream(dst, function, event);
	if (event->result) {
		json_key(dst, "result");
		buf_printf(dst, "%" PRId32, event->result);
	}
	if (event->flags & GPU_TRACE_CAPTURED)
		json_key_bool(dst, "captured", true);
	if (event->flags & GPU_TRACE_NESTED)
		json_key_bool(dst, "nested", true);
	if (event->flags & GPU_TRACE_UNRETURNED)
		json_key_bool(dst, "returned", false);
}
