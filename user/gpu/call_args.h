/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_CALL_ARGS_H
#define BPFPROF_GPU_CALL_ARGS_H

/* The arguments of one traced call, as a trace's reader sees them. */

struct buf;
struct gpu_function;
struct gpu_timeline_comm;
struct gpu_trace_event;

/*
 * Adds keys and values for chrome_event.args; what is 0 or not known is left out. kernel: of
 * launches; comm: of what has a communicator, or NULL.
 */
void gpu_call_args(struct buf *dst, const struct gpu_function *function,
		   const struct gpu_trace_event *event, const char *kernel,
		   const struct gpu_timeline_comm *comm);

#endif
