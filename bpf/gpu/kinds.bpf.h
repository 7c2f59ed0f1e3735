/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_GPU_KINDS_BPF_H
#define BPFPROF_BPF_GPU_KINDS_BPF_H

/* What a kind of call means for the programs. */

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "gpu_calls.h"

static __always_inline bool is_call(__u32 kind)
{
	return BPFPROF_GPU_IS_CALL(kind);
}

static __always_inline bool is_launch(__u32 kind)
{
	return kind == GPU_KIND_LAUNCH || kind == GPU_KIND_LAUNCH_CONFIG || kind == GPU_KIND_GRAPH;
}

/* Besides launches: what a stream may be given, and a capture of it writes down. */
static __always_inline bool is_enqueued(__u32 kind)
{
	return kind == GPU_KIND_COPY || kind == GPU_KIND_SET || kind == GPU_KIND_COLLECTIVE;
}

/* What it ends is told when it begins: then it can be handed out again. */
static __always_inline bool is_freeing(__u32 kind)
{
	return kind == GPU_KIND_FREE || kind == GPU_KIND_MEMORY_UNMAP;
}

/* Of what is called outside of the steps that are wanted: a graph may be made there and run in one. */
static __always_inline bool matters_outside(const struct bpfprof_gpu_function *f)
{
	/* What is freed between steps may have been allocated in one. */
	return is_freeing(f->kind) || is_launch(f->kind) || is_enqueued(f->kind) ||
	       f->kind == GPU_KIND_SYNC || f->kind == GPU_KIND_GROUP_END;
}

#endif
