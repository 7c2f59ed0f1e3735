/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef BPFPROF_BPF_RECORD_H
#define BPFPROF_BPF_RECORD_H

/*
 * Part of the wire contract (bpfprof.h): the head of each record of the ring buffer, and the
 * identity of tasks and processes.
 */

#include "arch.h"

#define BPFPROF_COMM_LEN 16

enum bpfprof_kind {
	BPFPROF_KIND_INVALID = 0,
	BPFPROF_KIND_SAMPLE = 1,
	BPFPROF_KIND_MISS = 2,
	BPFPROF_KIND_EXEC = 3,
	BPFPROF_KIND_FORK = 4,
	BPFPROF_KIND_EXIT = 5,
	BPFPROF_KIND_RENAME = 6,
	BPFPROF_KIND_MMAP = 7, /* a range that may hold a new file mapping was mapped */
	BPFPROF_KIND_PYTHON_CODE = 8,
	BPFPROF_KIND_TITLE = 9,
	BPFPROF_KIND_GPU_CALL = 10, /* gpu_calls.h */
	BPFPROF_KIND_GPU_NAME = 11,
	BPFPROF_KIND_GPU_TRACE = 12, /* gpu_calls.h */
	BPFPROF_KIND_GPU_WAIT = 13, /* gpu_calls.h */
	BPFPROF_KIND_WAITER = 14, /* wait_times.h */
	BPFPROF_KIND_WINDOW = 15, /* gpu_calls.h */
	BPFPROF_KIND_GPU_GRAPH = 16, /* gpu_calls.h */
	BPFPROF_KIND_KILL = 17,
	BPFPROF_KIND_PAGE_MOVED = 18, /* page_sample.h */
	BPFPROF_KIND_BLOCK_FREED = 19, /* allocations.h */
};

struct bpfprof_record {
	__u32 kind; /* enum bpfprof_kind */
	__u32 size; /* bytes of the whole record */
	__u64 ts_ns; /* CLOCK_MONOTONIC */
	__u32 cpu;
	__u32 pad;
};

/* Names one incarnation of an address space: pids and addresses are reused. */
struct bpfprof_task_id {
	__u32 pid; /* tgid */
	__u32 tid;
	__u64 start_ns; /* of the thread group leader, CLOCK_BOOTTIME */
	__u64 exec_id; /* rises with every exec */
};

/*
 * The namespaces and pids of a process. User space finds its container by them, even after the process
 * has ended. The kernel sends them when a process begins, with its mappings and with a miss (the first
 * sample of an unknown process is a miss), so other samples do not pay for them.
 */
struct bpfprof_ns_context {
	__u64 mnt_ns; /* number of its mount namespace, never reused; 0 = not known */
	__u32 pod_pid; /* its pid in its own pid namespace, 0 = not known */
	__u32 agent_pid; /* its pid in the pid namespace cfg.pid_ns, 0 = it has none there */
};

_Static_assert(sizeof(struct bpfprof_record) == 24, "wire");
_Static_assert(sizeof(struct bpfprof_task_id) == 24, "wire");
_Static_assert(sizeof(struct bpfprof_ns_context) == 16, "wire");

#endif
