/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_CALL_ARGS_H
#define BPFPROF_GPU_CALL_ARGS_H

/* The arguments of a traced call, as the viewer of a trace shows them. */

struct buf;
struct gpu_function;
struct gpu_timeline_comm;
struct gpu_trace_event;

/*
 * Adds keys and values for chrome_event.args, without those that are 0 or not known. kernel: the
 * name, for a launch; comm: the communicator or NULL.
 */
void gpu_call_args(struct buf *dst, const struct gpu_function *function,
		   const struct gpu_trace_event *event, const char *kernel,
		   const struct gpu_timeline_comm *comm);

#endif
