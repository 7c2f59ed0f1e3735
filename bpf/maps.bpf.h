/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_MAPS_BPF_H
#define BPFPROF_BPF_MAPS_BPF_H

/*
 * Maps shared by the BPF programs. max_entries marked "set at load" are sized
 * by user/kernel/session.c within the memory budget.
 */

#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpfprof.h"

const volatile struct bpfprof_cfg cfg __weak = {};

/* Everything that is sent. Bytes set at load. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} ring __weak SEC(".maps");

/* Key 0, value: counters of this CPU. Writer: BPF; summed by user space. */
struct counters {
	__u64 count[BPFPROF_NR_COUNTERS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counters);
} counters __weak SEC(".maps");

/* Key pid, value its mappings' place. Writer: user space (BPF only sets flags in it). */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct bpfprof_proc);
} procs __weak SEC(".maps");

/* Arena of mappings, sorted per process. Writer: user space, memory-mapped. Set at load. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct bpfprof_mapping);
} mappings __weak SEC(".maps");

/* Key pid, value 1: processes asked for. Writer: user space, and BPF for new children. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, __u32);
} targets __weak SEC(".maps");

static __always_inline void count_add(__u32 counter, __u64 n)
{
	__u32 zero = 0;
	struct counters *c = bpf_map_lookup_elem(&counters, &zero);

	if (c && counter < BPFPROF_NR_COUNTERS)
		c->count[counter] += n;
}

static __always_inline void task_id_fill(struct bpfprof_task_id *id, struct task_struct *task)
{
	id->pid = task->tgid;
	id->tid = task->pid;
	id->start_ns = task->group_leader->start_boottime;
	id->exec_id = task->self_exec_id;
}

static __always_inline void record_fill(struct bpfprof_record *rec, __u32 kind, __u32 size)
{
	rec->kind = kind;
	rec->size = size;
	rec->ts_ns = bpf_ktime_get_ns();
	rec->cpu = bpf_get_smp_processor_id();
	rec->pad = 0;
}

/*
 * Index after the last mapping of [first, first + nr] (slice header at first)
 * that starts at or below va; first + 1 if none does.
 */
static __always_inline __u32 mapping_upper(__u32 first, __u32 nr, __u64 va)
{
	__u32 lo = first + 1, hi = first + 1 + nr, mid, i;
	struct bpfprof_mapping *m;

	for (i = 0; i < 17 && lo < hi; i++) {
		mid = lo + (hi - lo) / 2;
		m = bpf_map_lookup_elem(&mappings, &mid);
		if (!m)
			break;
		if (m->start <= va)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

#endif
