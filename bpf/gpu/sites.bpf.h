/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_GPU_SITES_BPF_H
#define BPFPROF_BPF_GPU_SITES_BPF_H

/*
 * USDT probes inside functions: PyTorch's caching allocator gives memory to tensors and takes it
 * back; Python's garbage collector begins and ends (gcmodule.c up to 3.12, gc.c from 3.13 on).
 */

#include "gpu/counts.bpf.h"
#include "gpu/open.bpf.h"
#include "gpu/steps.bpf.h"
#include "gpu/threads.bpf.h"

/* Key: the low part of a probe's cookie. Writer: user space. */
ARRAY_MAP(gpu_sites, BPFPROF_GPU_MAX_SITES, struct bpfprof_gpu_site);

static __noinline __u64 register_value(struct pt_regs *ctx, __u32 reg)
{
	return regs_by_number(ctx, reg);
}

/* Reads a value of a site; 0 for GPU_VALUE_NONE. */
static __always_inline __u64 site_value(struct pt_regs *ctx, const struct bpfprof_gpu_value *at)
{
	__u64 value;

	if (at->kind == GPU_VALUE_NONE)
		return 0;
	if (at->kind == GPU_VALUE_CONSTANT)
		value = (__u64)(__s64)at->off;
	else
		value = register_value(ctx, at->reg);
	if (at->kind == GPU_VALUE_MEMORY && user_read(&value, sizeof(value), value + at->off))
		return 0;
	return at->bytes == 4 ? (__u32)value : value;
}

/* Counts the call of a site. True: send the stack; a large allocation always sends one. */
static __always_inline bool site_count(const struct bpfprof_gpu_function *f,
				       struct bpfprof_gpu_thread *t, struct bpfprof_gpu_call *call)
{
	bool fresh, alloc = f->kind == GPU_KIND_ALLOC;
	struct bpfprof_gpu_count *count = count_get(&call->key, &fresh);

	if (!count)
		return false;
	__sync_fetch_and_add(&count->calls, 1);
	if (alloc)
		__sync_fetch_and_add(&count->bytes, call->bytes);
	count->last_ns = call->begin_ns;
	return fresh || (alloc && call->bytes >= BPFPROF_GPU_BIG_BYTES) ||
	       token_take(t, call->begin_ns, alloc ? &t->alloc_tokens : &t->free_tokens);
}

/*
 * Has the process made calls or looked up kernels? Collections of other processes are not recorded.
 */
static __always_inline bool process_is_known(struct task_struct *task)
{
	struct bpfprof_gpu_process_key key = { .start_ns = task->group_leader->start_boottime,
					       .pid = task->tgid };

	return bpf_map_lookup_elem(&gpu_processes, &key);
}

/* A collection begins; it is followed as a call until gc_end(). True: send its stack. */
static __noinline bool gc_begin(struct pt_regs *ctx, const struct bpfprof_gpu_function *f,
				struct bpfprof_gpu_thread *t, __u32 file)
{
	struct bpfprof_gpu_call *call = &t->call;
	bool wanted;

	open_prune(t, regs_sp(ctx));
	call->key.dims[0] = (__u32)call->va;
	call->va = 0;
	wanted = call_count(f, call, file) || token_take(t, call->begin_ns, &t->gc_tokens);
	call->flags |= BPFPROF_CALL_ENTRY | (wanted ? BPFPROF_CALL_STACK : 0);
	if (!open_push(ctx, f, t, call, file))
		call->flags &= ~BPFPROF_CALL_ENTRY;
	else if (cfg.gpu_trace)
		trace_begin(ctx, f, t, 0);
	return wanted;
}

/* A collection ends, in the same frame of the same function. True: send its stack. */
static __noinline bool gc_end(struct pt_regs *ctx, struct bpfprof_gpu_thread *t)
{
	__u64 now = bpf_ktime_get_ns();
	struct bpfprof_gpu_open *open = call_end(t, regs_sp(ctx), now, 0);
	struct bpfprof_gpu_call *call = &t->call;
	struct bpfprof_gpu_function *f;
	__u32 function;

	if (!open)
		return false;
	function = open->key.function;
	f = bpf_map_lookup_elem(&gpu_functions, &function);
	if (!f || f->kind != GPU_KIND_GC) { /* a site has no return */
		gpu_count(GPU_COUNT_LEFT);
		if (cfg.gpu_trace)
			trace_drop(t, open, now);
		return false;
	}
	if (cfg.gpu_trace && open->flags & BPFPROF_CALL_TRACED)
		trace_end(f, t, open, call);
	count_return(f, call);
	if (!(call->flags & BPFPROF_CALL_STACK))
		return call->ns >= cfg.call_long_ns;
	event_send(bpf_get_current_task_btf(), call);
	return false;
}

SEC("?uprobe")
int gpu_site(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u32 nr = FUNCTION_OF(cookie), function;
	struct bpfprof_gpu_site *site = bpf_map_lookup_elem(&gpu_sites, &nr);
	const struct bpfprof_gpu_steps *steps = steps_get();
	struct task_struct *task = bpf_get_current_task_btf();
	struct bpfprof_gpu_function *f;
	struct bpfprof_gpu_thread *t;
	struct bpfprof_gpu_call *call;
	enum step step = STEP_CALL;
	__u32 pid = task->tgid;
	bool wanted;

	if (!site || !probe_counts(cookie))
		return 0;
	if (cfg.filter && !target_find(pid)) {
		gpu_count(GPU_COUNT_FILTERED);
		return 0;
	}
	function = site->function;
	f = bpf_map_lookup_elem(&gpu_functions, &function);
	if (!f || (f->layer == GPU_LAYER_PYTHON && !process_is_known(task)))
		return 0;
	t = thread_get(task);
	if (!t) {
		gpu_count(GPU_COUNT_THREADS_FULL);
		return 0;
	}
	if (f->kind == GPU_KIND_GC_END) {
		if (gc_end(ctx, t))
			stack_send(ctx);
		return 0;
	}
	if (steps)
		step = step_of(steps, t->start_ns, pid);
	if (step == STEP_NONE && f->kind != GPU_KIND_FREE)
		return 0;
	gpu_count(GPU_COUNT_CALLS);
	call = &t->call;
	__builtin_memset(call, 0, sizeof(*call));
	call->key.start_ns = t->start_ns;
	call->key.pid = pid;
	call->key.function = function;
	call->key.flags = step == STEP_WINDOW ? BPFPROF_KEY_WINDOW : 0;
	call->begin_ns = bpf_ktime_get_ns();
	call->va = site_value(ctx, &site->va);
	call->bytes = site_value(ctx, &site->bytes);
	call->site_stream = site_value(ctx, &site->stream);
	call->flags = BPFPROF_CALL_INSIDE | (step == STEP_NONE ? BPFPROF_CALL_OUTSIDE : 0);
	if (site->device.kind != GPU_VALUE_NONE)
		call->flags |= device_flags(site_value(ctx, &site->device));
	t->last_ns = call->begin_ns;
	comm_copy(t->comm, task);
	if (f->kind == GPU_KIND_GC)
		wanted = gc_begin(ctx, f, t, FILE_OF(cookie));
	else
		wanted = step != STEP_NONE && site_count(f, t, call);
	if (wanted)
		stack_send(ctx);
	else if (f->kind != GPU_KIND_GC)
		event_send(task, call);
	return 0;
}

#endif
