// SPDX-License-Identifier: GPL-2.0-only
/*
 * What bpfprof's sample is measured against: both stacks as the kernel itself walks
 * them, the user's by frame pointers, in one record through a ring buffer.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "reference.h"

#define USER_STACK (1 << 8) /* BPF_F_USER_STACK of linux/bpf.h */

char LICENSE[] SEC("license") = "GPL";

/* 1: no kernel part for a tick in user mode, as a careful author would do it. */
const volatile __u32 lean = 0;

/* Both counted from user space after the end. Two CPUs may lose a count: no matter. */
__u64 nr_taken = 0;
__u64 nr_others = 0;
__u64 nr_lost = 0;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u32);
} targets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct reference_record);
} scratch SEC(".maps");

SEC("perf_event")
int take_sample(struct bpf_perf_event_data *ctx)
{
	bool user = (*(volatile __u64 *)((void *)ctx + __builtin_offsetof(struct pt_regs, cs)) &
		     3) == 3;
	__u64 id = bpf_get_current_pid_tgid();
	__u32 pid = id >> 32, zero = 0, kernel_bytes = 0;
	struct reference_record *rec;
	long len;

	if (!bpf_map_lookup_elem(&targets, &pid)) {
		nr_others++;
		return 0;
	}
	rec = bpf_map_lookup_elem(&scratch, &zero);
	if (!rec)
		return 0;
	rec->ts_ns = bpf_ktime_get_ns();
	rec->pid = pid;
	rec->tid = id;
	rec->cpu = bpf_get_smp_processor_id();
	rec->pad = 0;
	bpf_get_current_comm(rec->comm, sizeof(rec->comm));
	if (!lean || !user) {
		len = bpf_get_stack(ctx, rec->frames, REFERENCE_MAX_FRAMES * 8, 0);
		if (len > 0 && len <= REFERENCE_MAX_FRAMES * 8)
			kernel_bytes = len;
	}
	rec->kernel_bytes = kernel_bytes;
	len = bpf_get_stack(ctx, (void *)rec->frames + kernel_bytes, REFERENCE_MAX_FRAMES * 8,
			    USER_STACK);
	if (len < 0 || len > REFERENCE_MAX_FRAMES * 8)
		len = 0;
	rec->user_bytes = len;
	len += kernel_bytes + __builtin_offsetof(struct reference_record, frames);
	if (len > (long)sizeof(*rec) || len < 0)
		return 0;
	if (bpf_ringbuf_output(&ring, rec, len, BPF_RB_NO_WAKEUP))
		nr_lost++;
	else
		nr_taken++;
	return 0;
}
