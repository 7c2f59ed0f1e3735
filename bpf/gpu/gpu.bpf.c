// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hooked calls of libcuda and libnccl: the programs count every call and send the stacks of some.
 *
 * gpu_enter runs where a function begins. gpu_return runs where it has returned, for functions
 * whose end matters. The cookie of a probe names the function and the file. Both programs decide
 * whether the stack is sent, and tail-call gpu_stack, which sends it; the verifier could not follow
 * all of it in one program. The stack of a call is sent if the call has a new key, if it took long,
 * and otherwise while the thread has tokens.
 *
 * These programs can be preempted and run on many CPUs at once. Shared values are added to
 * atomically; values of a thread are written by that thread alone.
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

/* Functions by number. Writer: user space. */
HASH_MAP(gpu_memory, 4096, struct bpfprof_gpu_process_key, struct bpfprof_gpu_memory);

/* The device of memory by handle, in the flags of the call. */
static __always_inline __u32 device_of_properties(__u64 va)
{
	__u32 location[2] = { 0 };

	if (!va || user_read(location, sizeof(location), va + PROP_LOCATION))
		return 0;
	return location[0] == LOCATION_DEVICE && location[1] < BPFPROF_CALL_DEVICE_MAX
		       ? device_flags(location[1])
		       : 0;
}

/* Fills in the facts of the call that its first instruction shows. */
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
	if (f->kind == GPU_KIND_ALLOC && f->extra)
		call->flags = device_of_properties(argument(ctx, f->extra));
}

/* A program begins or ends a window of the profiler. */
static __always_inline void enter_window(const struct bpfprof_gpu_function *f,
					 struct task_struct *task)
{
	bool begins = f->kind == GPU_KIND_WINDOW_BEGIN;
	__u64 start_ns = task->group_leader->start_boottime;
	__u32 pid = task->tgid;

	if (steps_get())
		window_send(start_ns, pid, begins, window_note(start_ns, pid, begins));
}

/* A call begins in thread t. True: send its stack. */
static __always_inline bool enter_call(const struct bpfprof_gpu_function *f,
				       struct bpfprof_gpu_thread *t, __u32 file, enum step step)
{
	bool returns = f->flags & BPFPROF_GPU_RETURNS;
	struct bpfprof_gpu_call *call = &t->call;
	__u64 device_idle_ns = 0;

	if (is_nested(t, f->layer)) {
		if (step != STEP_NONE)
			gpu_count(GPU_COUNT_NESTED);
		call->flags |= BPFPROF_CALL_NESTED;
		return false;
	}
	if (is_launch(f->kind))
		device_idle_ns = call->va = waits_launch(t, f);
	else if (f->stream && is_enqueued(f->kind))
		capture_enqueued(t, f);
	/* The first call with its key, and a call after a gap, need no token. */
	return step != STEP_NONE &&
	       (call_count(f, call, file) || device_idle_ns >= cfg.call_long_ns ||
		token_take(t, call->begin_ns, returns ? &t->wait_tokens : &t->tokens));
}

/* Follows the call until it returns, if its return is hooked. */
static __always_inline void enter_open(struct pt_regs *ctx, const struct bpfprof_gpu_function *f,
				       struct bpfprof_gpu_thread *t, __u32 file, bool traced,
				       bool wanted)
{
	bool returns = f->flags & BPFPROF_GPU_RETURNS;
	struct bpfprof_gpu_call *call = &t->call;

	if (returns)
		call->flags |= BPFPROF_CALL_ENTRY | (wanted ? BPFPROF_CALL_STACK : 0);
	else if (!traced)
		return;
	if (open_push(ctx, f, t, call, file)) {
		if (traced)
			trace_begin(ctx, f, t, returns ? 0 : BPFPROF_CALL_TRACE_ONLY);
	} else if (returns) {
		call->flags &= ~BPFPROF_CALL_ENTRY;
		waits_blur(f, t);
	}
}

SEC("?uprobe")
int gpu_enter(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u32 function = FUNCTION_OF(cookie), file = FILE_OF(cookie);
	struct bpfprof_gpu_function *f = bpf_map_lookup_elem(&gpu_functions, &function);
	struct task_struct *task = bpf_get_current_task_btf();
	const struct bpfprof_gpu_steps *steps;
	struct bpfprof_gpu_thread *t;
	struct bpfprof_gpu_call *call;
	enum step step = STEP_CALL;
	__u32 pid = task->tgid;
	bool wanted = false;

	if (!f || !f->kind || !probe_counts(cookie))
		return 0;
	if (cfg.filter && !target_find(pid)) {
		gpu_count(GPU_COUNT_FILTERED);
		return 0;
	}
	if (f->kind == GPU_KIND_WINDOW_BEGIN || f->kind == GPU_KIND_WINDOW_END) {
		enter_window(f, task);
		return 0;
	}
	t = thread_get(task);
	if (!t) {
		gpu_count(GPU_COUNT_THREADS_FULL);
		return 0;
	}
	steps = steps_get();
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
	open_prune(t, regs_sp(ctx));
	if (step == STEP_NONE)
		call->flags |= BPFPROF_CALL_OUTSIDE;
	if (f->kind == GPU_KIND_GRAPH)
		graph_name(t);
	if (is_call(f->kind))
		wanted = enter_call(f, t, file, step);
	else
		waits_enter(ctx, f, t);
	enter_open(ctx, f, t, file, cfg.gpu_trace && is_call(f->kind) && step != STEP_NONE, wanted);
	if (wanted)
		stack_send(ctx);
	else if (is_freeing(f->kind))
		event_send(task, call);
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

/* An allocation returns: now its address and its size are known. */
static __always_inline void return_alloc(const struct bpfprof_gpu_function *f,
					 const struct bpfprof_gpu_open *open,
					 struct bpfprof_gpu_call *call)
{
	__u64 pitch = 0;

	if (call->result) {
		call->bytes = 0;
		return;
	}
	if (f->out)
		user_read(&call->va, 8, open->out);
	else
		call->va = open->name;
	if (f->size_rule == GPU_SIZE_PITCH && !user_read(&pitch, 8, open->name))
		call->bytes = pitch * open->bytes;
}

/* A call that makes a communicator returns. */
static __always_inline void return_comm_init(const struct bpfprof_gpu_function *f,
					     const struct bpfprof_gpu_open *open,
					     struct bpfprof_gpu_call *call, __u64 now)
{
	if (!call->result)
		comm_note(open, f, now);
	call->key.dims[0] = 0; /* the key as it was counted */
	call->key.dims[1] = 0;
}

/* The call has added a reference or a mapping of memory by handle. */
static __always_inline void return_memory(struct task_struct *task,
					  const struct bpfprof_gpu_function *f,
					  const struct bpfprof_gpu_open *open,
					  struct bpfprof_gpu_call *call)
{
	if (call->result)
		return;
	if (f->kind == GPU_KIND_MEMORY_MAP) {
		call->va = open->out;
		call->key.handle = open->name;
	} else if (user_read(&call->va, 8, open->out)) {
		return;
	}
	event_send(task, call);
}

/*
 * Does the work that a kind needs at its return. False: the call is not counted, and needs no more.
 */
static __always_inline bool return_kind(struct task_struct *task,
					const struct bpfprof_gpu_function *f,
					struct bpfprof_gpu_thread *t,
					const struct bpfprof_gpu_open *open, __u64 now)
{
	struct bpfprof_gpu_call *call = &t->call;

	switch (f->kind) {
	case GPU_KIND_NAME:
	case GPU_KIND_ALIAS:
		if (!call->result)
			name_send(open->out, open->name, f->kind);
		return false;
	case GPU_KIND_MEMORY_INFO:
		if (!call->result)
			memory_note(open, now);
		return false;
	case GPU_KIND_EVENT_QUERY:
	case GPU_KIND_STREAM_QUERY:
	case GPU_KIND_CAPTURE_BEGIN:
	case GPU_KIND_CAPTURE_END:
	case GPU_KIND_GRAPH_COPY:
	case GPU_KIND_STREAM_WAIT:
		waits_return(t, f, open, now);
		return false;
	case GPU_KIND_MEMORY_REF:
	case GPU_KIND_MEMORY_MAP:
		return_memory(task, f, open, call);
		return false;
	case GPU_KIND_COMM_INIT:
		return_comm_init(f, open, call, now);
		break;
	case GPU_KIND_ALLOC:
		return_alloc(f, open, call);
		break;
	}
	return true;
}

/* Ends a call: counts it, and sends its stack if it took long. */
static __always_inline void return_call(struct pt_regs *ctx, struct task_struct *task,
					const struct bpfprof_gpu_function *f,
					struct bpfprof_gpu_thread *t,
					const struct bpfprof_gpu_open *open, __u64 now)
{
	struct bpfprof_gpu_call *call = &t->call;

	if (call->flags & BPFPROF_CALL_NESTED) {
		/* ncclCommInitAll has a group of its own, whose start was counted. */
		if (f->kind == GPU_KIND_GROUP_END && t->groups)
			t->groups--;
		return;
	}
	waits_return(t, f, open, now);
	if (call->flags & BPFPROF_CALL_OUTSIDE)
		return;
	count_return(f, call);
	if (!(call->flags & BPFPROF_CALL_STACK) && call->ns >= cfg.call_long_ns)
		stack_send(ctx);
	else if (call->flags & BPFPROF_CALL_STACK || f->kind == GPU_KIND_ALLOC)
		event_send(task, call);
}

SEC("?uprobe")
int gpu_return(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 tid = task->pid, pid = task->tgid, function;
	struct bpfprof_gpu_thread *t = bpf_map_lookup_elem(&gpu_threads, &tid);
	__u64 now = bpf_ktime_get_ns();
	struct bpfprof_gpu_function *f;
	struct bpfprof_gpu_open *open;

	if (!probe_counts(bpf_get_attach_cookie(ctx)))
		return 0;
	if (!t || t->start_ns != task->group_leader->start_boottime) {
		if (!steps_get() && (!cfg.filter || target_find(pid)))
			gpu_count(GPU_COUNT_RETURN_UNKNOWN);
		return 0;
	}
	open = call_end(t, regs_sp(ctx) - CALL_PUSHES, now, (__s32)regs_result(ctx));
	if (!open)
		return 0;
	function = open->key.function;
	f = bpf_map_lookup_elem(&gpu_functions, &function);
	if (!f)
		return 0;
	if (cfg.gpu_trace && open->flags & BPFPROF_CALL_TRACE_ONLY) {
		trace_end(f, t, open, &t->call);
		return 0;
	}
	if (!return_kind(task, f, t, open, now))
		return 0;
	if (cfg.gpu_trace && open->flags & BPFPROF_CALL_TRACED)
		trace_end(f, t, open, &t->call);
	return_call(ctx, task, f, t, open, now);
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
	/* A call without a time has only begun. */
	r->point = r->call.ns ? CALL_RETURN : CALL_ENTRY;
	if (r->call.flags & BPFPROF_CALL_INSIDE)
		r->point = CALL_NONE;
	returns_take(r, t);
	user_walk(r, task, task->mm);
	sample_send(r, task);
	r->busy = 0;
	return 0;
}
