/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_MEMORY_LOG_H
#define BPFPROF_GPU_MEMORY_LOG_H

/*
 * The device memory of processes over time: each allocation with its begin, its end and the stacks of
 * both. It keeps a limited number of allocations. The ones that were freed first make room for new
 * ones; those in use stay. Memory that a process held when it ended stays in use, and makes room, too.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"

struct gpu_memory_log;
struct stats_reasons;

/*
 * 4 MiB, and 2.5 MiB while a file is written. Twice what a call table follows of one process at a time
 * (CALL_TABLE_MAX_PROCESS_LIVE), so at least half of it is history. Each has two to five events, and
 * viewers get slow at some 100,000 of them.
 */
#define GPU_MEMORY_LOG_MAX (1U << 16)
/* Numbers of JavaScript, which viewers use, are exact up to here; no device has such addresses. */
#define GPU_MEMORY_LOG_MAX_VA (1ULL << 53)
/* The limit of one allocation: no device has more, and sums of all do not overflow. */
#define GPU_MEMORY_LOG_MAX_BYTES (1ULL << 45)
#define GPU_MEMORY_NO_STACK UINT32_MAX
#define GPU_MEMORY_LEFT (UINT32_MAX - 1) /* as end_stack: not freed, its process ended at end_ns */

enum gpu_memory_kind {
	GPU_MEMORY_INVALID = 0,
	GPU_MEMORY_SEGMENT, /* the driver handed it out by its address */
	GPU_MEMORY_MAPPING, /* memory by handle, mapped there */
	GPU_MEMORY_TENSOR, /* PyTorch's part of one of these */
};

struct gpu_allocation {
	uint64_t va, bytes;
	uint64_t stream;
	uint64_t begin_ns, end_ns; /* CLOCK_MONOTONIC; end 0: in use */
	uint32_t stack, end_stack; /* of the aggregate, or one of these two */
	uint32_t next; /* the allocation that makes room next: index + 1 */
	uint32_t aggregate_process; /* index of the aggregate, if there is a stack */
	uint16_t process; /* of call_table_processes() */
	uint8_t kind; /* enum gpu_memory_kind */
	uint8_t device; /* its number + 1; 0: not known */
};

/* 0 or -ENOMEM. */
int gpu_memory_log_new(struct gpu_memory_log **ret);
void gpu_memory_log_free(struct gpu_memory_log *log); /* NULL is fine */

/* Returns the number of the new allocation, which is in use; 0: it is not kept, which is counted. */
uint32_t gpu_memory_log_add(struct gpu_memory_log *log, const struct gpu_allocation *allocation);
/* The allocation with that number is freed; the number is not valid any more. 0 is fine. */
void gpu_memory_log_end(struct gpu_memory_log *log, uint32_t nr, uint64_t now_ns, uint32_t stack);

/* The process of that allocation has ended; the number is not valid any more. 0 is fine. */
void gpu_memory_log_leave(struct gpu_memory_log *log, uint32_t nr, uint64_t now_ns);
/* Was it freed, and not only left when its process ended? */
bool gpu_memory_log_is_freed(const struct gpu_allocation *allocation);

/* Borrowed, in no order. */
const struct gpu_allocation *gpu_memory_log_all(const struct gpu_memory_log *log, size_t *ret_nr);
/* Allocations that were freed until then may be missing; 0: none is. */
uint64_t gpu_memory_log_complete_ns(const struct gpu_memory_log *log);
/* The same of allocations that a process held when it ended. */
uint64_t gpu_memory_log_left_ns(const struct gpu_memory_log *log);
uint64_t gpu_memory_log_nr_dropped(const struct gpu_memory_log *log);

extern const struct counter gpu_memory_log_counters[];
void gpu_memory_log_lost(const struct gpu_memory_log *log, struct stats_reasons *dst);

#endif
