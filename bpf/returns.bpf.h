/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_RETURNS_BPF_H
#define BPFPROF_BPF_RETURNS_BPF_H

/*
 * Lists the return addresses that return probes, of any tracer, have replaced on a thread's stack,
 * innermost first. The kernel keeps them in a list. The list of a running thread may change while
 * it is read; wrong elements are at no place where the walk looks for a return address.
 */
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include "bpfprof.h"

static __always_inline __u32 returns_list(struct bpfprof_return returns[BPFPROF_MAX_RETURNS],
					  struct task_struct *task)
{
	struct return_instance *at = NULL;
	__u32 i;

	if (bpf_core_field_exists(task->utask)) /* CONFIG_UPROBES */
		at = BPF_CORE_READ(task, utask, return_instances);
	for (i = 0; i < BPFPROF_MAX_RETURNS && at; i++) {
		returns[i].va = BPF_CORE_READ(at, stack);
		returns[i].to = BPF_CORE_READ(at, orig_ret_vaddr);
		at = BPF_CORE_READ(at, next);
	}
	return i;
}

#endif
