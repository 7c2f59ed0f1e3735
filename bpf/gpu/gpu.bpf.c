// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hooked calls of libcuda and libnccl: every one is counted, of some the stack is sent.
 *
 * gpu_enter runs where a function begins and gpu_return, for those whose end matters, where it has
 * returned; the cookie of a probe says which function of which file it is. Both decide whether
 * a stack is to be sent and leave that to gpu_stack, a program of its own for the verifier's sake, by
 * a tail call. A stack is sent of a call that differs from all before in what it is counted by, of
 * one that took long, and otherwise while the thread has tokens.
 *
 * These programs can be preempted and run on many CPUs at once: what is shared is added to
 * atomically; what belongs to a thread is written by that thread alone.
 */
#include "gpu/arguments.bpf.h"
#include "gpu/comms.bpf.h"
#include "gpu/counts.bpf.h"
#include "gpu/graphs.bpf.h"
#include "gpu/kernels.bpf.h"
#include "gpu/kinds.bpf.h"
#include "gpu/maps.bpf.h"
#include "gpu/open.bpf.h"
#include "gpu/sites.bpf.h"
#include "gpu/steps.bpf.h"
#include "gpu/threads.bpf.h"
#include "gpu/trace.bpf.h"
#include "gpu/waits.bpf.h"
#include "gpu/windows.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* Writer: BPF. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct bpfprof_gpu_process_key);
	__type(value, struct bpfprof_gpu_memory);
} gpu_memory SEC(".maps");

/* What is known when a call begins. */
static __always_inline void call_begin(struct pt_regs *ctx, const struct bpfprof_gpu_function *f,
				       struct task_struct *task, __u32 function,
				       struct bpfprof_gpu_call *call)
{
	__builtin_memset(call, 0, sizeof(*call));
	call->key.start_ns = task->group_leader->start_boottime;
	call->key.pid = task->tgid;
	call->key.function = function;
	call->begin_ns = bpf_ktime_get_ns();
	if (!is_call(f->kind)) {
		if (f->kind == GPU_KIND_MEMORY_MAP || f->kind == GPU_KIND_MEMORY_UNMAP) {
			call->va = argument(ctx, f->extra);
			call->bytes = size_of_call(ctx, f);
		}
		return;
	}
	key_fill(ctx, f, &call->key);
	call->bytes = size_of_call(ctx, f);
	if (f->kind == GPU_KIND_FREE)
		call->va = argument(ctx, f->handle);
}

SEC("?uprobe")
int gpu_enter(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u32 function = FUNCTION_OF(cookie), file = FILE_OF(cookie), zero = 0;
	struct bpfprof_gpu_function *f = bpf_map_lookup_elem(&gpu_functions, &function);
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 pid = task->tgid;
	struct bpfprof_gpu_thread *t;
	struct bpfprof_gpu_call *call;
	const struct bpfprof_gpu_steps *steps = steps_get();
	enum step step = STEP_CALL;
	bool returns, begins, wanted = false;
	__u64 device_idle_ns = 0, start_ns;

	if (!f || !f->kind || !probe_counts(cookie))
		return 0;
	if (cfg.filter && !target_find(pid)) {
		gpu_count(GPU_COUNT_FILTERED);
		return 0;
	}
	if (f->kind == GPU_KIND_WINDOW_BEGIN || f->kind == GPU_KIND_WINDOW_END) {
		begins = f->kind == GPU_KIND_WINDOW_BEGIN;
		start_ns = task->group_leader->start_boottime;
		if (steps)
			window_tell(start_ns, pid, begins, window_note(start_ns, pid, begins));
		return 0;
	}
	t = thread_get(task);
	if (!t) {
		gpu_count(GPU_COUNT_THREADS_FULL);
		return 0;
	}
	if (steps && (is_call(f->kind) || is_freeing(f->kind)))
		step = step_of(steps, t->start_ns, pid);
	if (step == STEP_NONE && !matters_outside(f))
		return 0;
	gpu_count(GPU_COUNT_CALLS);
	call = &t->call;
	call_begin(ctx, f, task, function, call);
	call->key.flags = step == STEP_WINDOW ? BPFPROF_KEY_WINDOW : 0;
	t->last_ns = call->begin_ns;
	comm_copy(t->comm, task);
	returns = f->flags & BPFPROF_GPU_RETURNS;
	open_prune(t, regs_sp(ctx));
	if (step == STEP_NONE)
		call->flags |= BPFPROF_CALL_OUTSIDE;
	if (f->kind == GPU_KIND_GRAPH)
		graph_name(t);
	if (!is_call(f->kind)) {
		waits_enter(ctx, f, t);
	} else if (is_nested(t, f->layer)) {
		if (step != STEP_NONE)
			gpu_count(GPU_COUNT_NESTED);
		call->flags |= BPFPROF_CALL_NESTED;
	} else {
		if (is_launch(f->kind))
			device_idle_ns = call->va = waits_launch(t, f);
		else if (f->stream && is_enqueued(f->kind))
			capture_enqueued(t, f);
		/* The first of its kind, and after a gap: whatever the thread has sent. */
		wanted = step != STEP_NONE &&
			 (call_count(f, call, file) || device_idle_ns >= cfg.call_long_ns ||
			  token_take(t, call->begin_ns, returns ? &t->wait_tokens : &t->tokens));
	}
	if (returns) {
		call->flags |= BPFPROF_CALL_ENTRY;
		if (wanted)
			call->flags |= BPFPROF_CALL_STACK;
		if (!open_push(ctx, f, t, call, file)) {
			call->flags &= ~BPFPROF_CALL_ENTRY;
			waits_blur(f, t);
		} else if (cfg.gpu_trace && is_call(f->kind) && step != STEP_NONE)
			trace_begin(ctx, f, t, 0);
	} else if (cfg.gpu_trace && is_call(f->kind) && step != STEP_NONE &&
		   open_push(ctx, f, t, call, file)) {
		trace_begin(ctx, f, t, BPFPROF_CALL_TRACE_ONLY);
	}
	if (wanted) {
		bpf_tail_call(ctx, &gpu_programs, zero);
		gpu_count(GPU_COUNT_EVENTS_LOST); /* there is no such program: never */
	} else if (is_freeing(f->kind)) {
		event_send(task, call);
	}
	return 0;
}

static __always_inline void memory_note(const struct bpfprof_gpu_open *open, __u64 now)
{
	struct bpfprof_gpu_process_key key = { .start_ns = open->key.start_ns,
					       .pid = open->key.pid };
	struct bpfprof_gpu_memory memory = { .ts_ns = now };

	if (!user_read(&memory.free_bytes, 8, open->out) &&
	    !user_read(&memory.total_bytes, 8, open->name) &&
	    bpf_map_update_elem(&gpu_memory, &key, &memory, BPF_ANY))
		gpu_count(GPU_COUNT_KEYS_FULL);
}

SEC("?uprobe")
int gpu_return(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 tid = task->pid, function, zero = 0;
	struct bpfprof_gpu_thread *t = bpf_map_lookup_elem(&gpu_threads, &tid);
	__u64 now = bpf_ktime_get_ns(), pitch = 0;
	struct bpfprof_gpu_function *f;
	struct bpfprof_gpu_open *open;
	struct bpfprof_gpu_call *call;

	if (!probe_counts(bpf_get_attach_cookie(ctx)))
		return 0;
	if (!t || t->start_ns != task->group_leader->start_boottime) {
		__u32 pid = task->tgid;

		if (!steps_get() && (!cfg.filter || target_find(pid)))
			gpu_count(GPU_COUNT_RETURN_UNKNOWN);
		return 0;
	}
	open = open_pop(t, regs_sp(ctx) - CALL_PUSHES, now);
	if (!open) {
		if (t->over)
			t->over--;
		else if (!steps_get()) /* else it began outside of them */
			gpu_count(GPU_COUNT_RETURN_UNKNOWN);
		return 0;
	}
	function = open->key.function;
	f = bpf_map_lookup_elem(&gpu_functions, &function);
	if (!f)
		return 0;
	call = &t->call;
	call->key = open->key;
	call->begin_ns = open->begin_ns;
	call->ns = now - open->begin_ns;
	call->bytes = open->bytes;
	call->va = 0;
	call->idle_ns = 0;
	call->result = (__s32)regs_result(ctx);
	call->flags = open->flags & ~BPFPROF_CALL_ENTRY;
	t->last_ns = now;
	if (cfg.gpu_trace && open->flags & BPFPROF_CALL_TRACE_ONLY) {
		trace_end(f, t, open, call);
		return 0;
	}
	switch (f->kind) {
	case GPU_KIND_NAME:
	case GPU_KIND_ALIAS:
		if (!call->result)
			name_send(open->out, open->name, f->kind);
		return 0;
	case GPU_KIND_MEMORY_INFO:
		if (!call->result)
			memory_note(open, now);
		return 0;
	case GPU_KIND_EVENT_QUERY:
	case GPU_KIND_STREAM_QUERY:
	case GPU_KIND_CAPTURE_BEGIN:
	case GPU_KIND_CAPTURE_END:
	case GPU_KIND_GRAPH_COPY:
	case GPU_KIND_STREAM_WAIT:
		waits_return(t, f, open, now);
		return 0;
	case GPU_KIND_MEMORY_REF:
		if (!call->result && !user_read(&call->va, 8, open->out))
			event_send(task, call);
		return 0;
	case GPU_KIND_MEMORY_MAP:
		call->va = open->out;
		call->key.handle = open->name;
		if (!call->result)
			event_send(task, call);
		return 0;
	case GPU_KIND_COMM_INIT:
		if (!call->result)
			comm_note(open, f, now);
		call->key.dims[0] = 0; /* as it was counted */
		call->key.dims[1] = 0;
		break;
	case GPU_KIND_ALLOC:
		if (call->result) {
			call->bytes = 0;
			break;
		}
		if (f->out)
			user_read(&call->va, 8, open->out);
		else
			call->va = open->name;
		if (f->size_rule == GPU_SIZE_PITCH && !user_read(&pitch, 8, open->name))
			call->bytes = pitch * open->bytes;
		break;
	}
	if (cfg.gpu_trace && open->flags & BPFPROF_CALL_TRACED)
		trace_end(f, t, open, call);
	if (call->flags & BPFPROF_CALL_NESTED) {
		/* ncclCommInitAll has a group of its own, whose start was counted. */
		if (f->kind == GPU_KIND_GROUP_END && t->groups)
			t->groups--;
		return 0;
	}
	waits_return(t, f, open, now);
	if (call->flags & BPFPROF_CALL_OUTSIDE)
		return 0;
	count_return(f, call);
	if (!(call->flags & BPFPROF_CALL_STACK) && call->ns >= cfg.call_long_ns) {
		bpf_tail_call(ctx, &gpu_programs, zero);
		gpu_count(GPU_COUNT_EVENTS_LOST);
	} else if (call->flags & BPFPROF_CALL_STACK || f->kind == GPU_KIND_ALLOC) {
		event_send(task, call);
	}
	return 0;
}

/* Sends the stack of the call that gpu_enter or gpu_return left in its thread's entry. */
SEC("?uprobe")
int gpu_stack(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 tid = task->pid;
	struct bpfprof_gpu_thread *t = bpf_map_lookup_elem(&gpu_threads, &tid);
	struct unwind_reader *r;

	bpf_tail_call(ctx, &gpu_programs, 1); /* comes back at once */
	if (!t)
		return 0;
	r = scratch_take();
	if (!r) {
		gpu_count(GPU_COUNT_SCRATCH_BUSY);
		event_send(task, &t->call);
		return 0;
	}
	sample_fill(r, task, 0, BPFPROF_SAMPLE_USER_MODE | BPFPROF_SAMPLE_CALL);
	r->call = t->call;
	/* Without a time it has only begun. */
	r->point = r->call.ns ? CALL_RETURN : CALL_ENTRY;
	if (r->call.flags & BPFPROF_CALL_INSIDE)
		r->point = CALL_NONE;
	returns_take(r, t);
	user_walk(r, task);
	sample_send(r, task);
	r->busy = 0;
	return 0;
}
