/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_GPU_KINDS_BPF_H
#define BPFPROF_BPF_GPU_KINDS_BPF_H

/* The properties of each kind of call that the programs decide by. */

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

/* Calls besides launches that enqueue work on a stream; a capture of the stream records them. */
static __always_inline bool is_enqueued(__u32 kind)
{
	return kind == GPU_KIND_COPY || kind == GPU_KIND_SET || kind == GPU_KIND_COLLECTIVE;
}

/* A freed address can be given out again before the call returns, so the call is sent when it begins. */
static __always_inline bool is_freeing(__u32 kind)
{
	return kind == GPU_KIND_FREE || kind == GPU_KIND_MEMORY_UNMAP;
}

/* These calls are followed outside of the wanted steps, too: a job may make a graph there and run it in one. */
static __always_inline bool matters_outside(const struct bpfprof_gpu_function *f)
{
	/* A call between steps may free what a step has allocated. */
	return is_freeing(f->kind) || is_launch(f->kind) || is_enqueued(f->kind) ||
	       f->kind == GPU_KIND_SYNC || f->kind == GPU_KIND_GROUP_END;
}

#endif
