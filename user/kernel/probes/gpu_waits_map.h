/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_PROBES_GPU_WAITS_MAP_H
#define BPFPROF_KERNEL_PROBES_GPU_WAITS_MAP_H

/*
 * The kernel's map of processes with work on streams (bpf/gpu/streams.bpf.h), and its maps of their
 * events, graphs and kernels, of a session with the option gpu. Elements are borrowed during the
 * call.
 */

#include <stdbool.h>
#include <stdint.h>

#include "gpu_calls.h"

struct session;

void gpu_waits_map_each(const struct session *session,
			void (*each)(void *arg, const struct bpfprof_gpu_waits *process),
			void *arg);
/* The element `at`, below BPFPROF_GPU_MAX_WAITS. False: it is not in use. */
bool gpu_waits_map_get(const struct session *session, uint32_t at, struct bpfprof_gpu_waits *ret);
/*
 * Deletes the entries of a process that has ended. last() gets its element first, if there is one.
 */
void gpu_waits_map_forget(const struct session *session, uint32_t pid, uint64_t start_ns,
			  void (*last)(void *arg, const struct bpfprof_gpu_waits *process),
			  void *arg);

#endif
