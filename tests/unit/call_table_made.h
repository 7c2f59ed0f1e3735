/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TESTS_CALL_TABLE_MADE_H
#define BPFPROF_TESTS_CALL_TABLE_MADE_H

/* A table of calls under test, and the events that it is sent. */

#include "gpu/call_table.h"

#include "profile/aggregate.h"

#define MIB (1U << 20)
#define FRAME(n) ((uint64_t)BPFPROF_FRAME_NATIVE << BPFPROF_FRAME_SHIFT | (n))
#define START_NS 1000
#define VA 0x7f0000000000ULL

extern struct aggregate *table_aggregate;
extern struct call_table *table;
extern uint64_t made_clock_ns;
void table_make(size_t max_bytes);
void table_setup(void);
void table_teardown(void);
uint32_t function_nr(const char *name);
struct bpfprof_gpu_key key_of(uint32_t pid, const char *function);
struct bpfprof_gpu_key launch_of(uint32_t pid, uint64_t kernel);
struct bpfprof_gpu_call call_of(struct bpfprof_gpu_key key);
/* A stack of two frames; its leaf identifies it. */
void send_stack(const struct bpfprof_gpu_call *call, uint32_t tid, uint64_t leaf);
void send_call(const struct bpfprof_gpu_call *call, uint32_t tid);
/* An allocation: its return reports everything, without a stack. */
void alloc_by(const char *name, uint32_t pid, uint64_t start_ns, uint64_t va, uint64_t bytes);
void alloc_ns(uint32_t pid, uint64_t start_ns, uint64_t va, uint64_t bytes);
void send_alloc(uint32_t pid, uint64_t va, uint64_t bytes);
void release_by(const char *name, uint32_t pid, uint64_t va);
void send_release(uint32_t pid, uint64_t va);
const struct call_table_process *process_at(uint32_t pid, uint64_t start_ns);
struct call_table_memory memory_of(uint32_t pid);
void name_send_as(uint32_t flags, uint32_t pid, uint64_t handle, uint64_t other, const char *name);
void name_send(uint32_t pid, uint64_t handle, uint64_t other, const char *name);
const char *kernel_name(uint32_t pid, uint64_t handle);
uint64_t table_lost(const char *reason);
void no_comm(void *arg, const struct bpfprof_gpu_key *key, char comm[24], char rank[16]);
void table_finish(const struct call_table_count *counts, size_t nr, struct aggregate_view *view);
/* The next interval, with an aggregate of its own; view is of it once it has finished, too. */
void table_next(const struct call_table_count *counts, size_t nr, struct aggregate_view *view);
uint64_t value_sum(const struct aggregate_view *view, enum profile_call_value value);
const uint64_t *frames_of(const struct aggregate_view *view, size_t sample, size_t *ret_nr);
/* Text of a label frame, "" of others. */
const char *label_at(const struct aggregate_view *view, size_t sample, size_t depth);
/* The sample whose stack has this native frame below its nr_labels labels; none: NULL. */
const uint64_t *values_at(const struct aggregate_view *view, size_t nr_labels, uint64_t leaf);

#endif
