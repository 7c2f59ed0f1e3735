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
#define HOOKED_RETURNS
#include "hooked.bpf.h"

char LICENSE[] SEC("license") = "GPL";

#define FILE_OF(cookie)                                                                            \
	((__u32)(((cookie) & ~BPFPROF_GPU_OF_ONE_PROCESS) >> BPFPROF_GPU_FUNCTION_BITS))
#define FUNCTION_OF(cookie) ((__u32)(cookie) & ((1U << BPFPROF_GPU_FUNCTION_BITS) - 1))

/* Writer: user space. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, BPFPROF_GPU_MAX_FUNCTIONS);
	__type(key, __u32);
	__type(value, struct bpfprof_gpu_function);
} gpu_functions SEC(".maps");

/* Writer: user space. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, BPFPROF_GPU_MAX_FILES);
	__type(key, __u32);
	__type(value, struct bpfprof_gpu_file);
} gpu_files SEC(".maps");

/* All calls. Writer: BPF. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct bpfprof_gpu_key);
	__type(value, struct bpfprof_gpu_count);
} gpu_counts SEC(".maps");

/* Writer: BPF. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct bpfprof_gpu_process_key);
	__type(value, struct bpfprof_gpu_memory);
} gpu_memory SEC(".maps");

/* Key: enum bpfprof_gpu_counter. Writer: BPF, atomically. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, GPU_NR_COUNTERS);
	__type(key, __u32);
	__type(value, __u64);
} gpu_counters SEC(".maps");

/*
 * Key 0: gpu_stack; key 1: nobody. Writer: user space.
 *
 * Linux 6.13 and later give programs of this type a stack per CPU, as if they could not be
 * preempted: two threads on one CPU overwrite each other's variables, and the kernel dies of it
 * (commit a76ab5731e32; seen in 7.2). Programs that may call others this way are left the thread's
 * own stack, so each program here must have such a call in it.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u32);
} gpu_programs SEC(".maps");

static __always_inline void gpu_count(__u32 counter)
{
	__u64 *value = bpf_map_lookup_elem(&gpu_counters, &counter);

	if (value)
		__sync_fetch_and_add(value, 1);
}

/* The last quarter is for events of processes. */
static __always_inline bool ring_has_room(void)
{
	return bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) < cfg.ring_bytes / 4 * 3;
}

/* NULL if there is no room. */
static __noinline struct bpfprof_gpu_process *process_get(const struct bpfprof_gpu_process_key *key)
{
	struct bpfprof_gpu_process fresh = { 0 };
	struct bpfprof_gpu_process *process = bpf_map_lookup_elem(&gpu_processes, key);

	if (process)
		return process;
	bpf_map_update_elem(&gpu_processes, key, &fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&gpu_processes, key);
}

#include "gpu/arguments.bpf.h" /* these need what is above */
#include "gpu/comms.bpf.h"
#include "gpu/kernels.bpf.h"
#include "gpu/trace.bpf.h"
#include "gpu/graphs.bpf.h"
#include "gpu/waits.bpf.h"
#include "gpu/threads.bpf.h"
#include "gpu/steps.bpf.h"

/* May this process have one more key? Then it has. */
static __noinline bool key_allowed(const struct bpfprof_gpu_key *key)
{
	struct bpfprof_gpu_process_key at;
	struct bpfprof_gpu_process *process;

	if (!key)
		return false;
	at.start_ns = key->start_ns;
	at.pid = key->pid;
	at.pad = 0;
	process = process_get(&at);
	if (!process || process->keys >= cfg.call_keys)
		return false;
	__sync_fetch_and_add(&process->keys, 1);
	kernel_launched(key);
	return true;
}

/*
 * The counts of key; *fresh: they are the first of it. NULL if there is no room. One process must
 * not take all of that: past its share calls are counted without what tells them apart.
 */
static __always_inline struct bpfprof_gpu_count *count_get(struct bpfprof_gpu_key *key, bool *fresh)
{
	struct bpfprof_gpu_count *count = bpf_map_lookup_elem(&gpu_counts, key), zero = { 0 };

	*fresh = !count;
	if (count)
		return count;
	if (!key_allowed(key)) {
		gpu_count(GPU_COUNT_OTHER);
		key->handle = BPFPROF_GPU_OTHER;
		key->stream = BPFPROF_GPU_OTHER;
		__builtin_memset(key->dims, 0, sizeof(key->dims));
		count = bpf_map_lookup_elem(&gpu_counts, key);
		*fresh = !count;
		if (count)
			return count;
	}
	bpf_map_update_elem(&gpu_counts, key, &zero, BPF_NOEXIST);
	count = bpf_map_lookup_elem(&gpu_counts, key);
	if (!count)
		gpu_count(GPU_COUNT_KEYS_FULL);
	return count;
}

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

#include "gpu/open.bpf.h" /* needs that and what is above */

static __always_inline void event_send(struct task_struct *task,
				       const struct bpfprof_gpu_call *call)
{
	struct bpfprof_gpu_event *e = NULL;

	if (ring_has_room())
		e = bpf_ringbuf_reserve(&ring, sizeof(*e), 0);
	if (!e) {
		gpu_count(GPU_COUNT_EVENTS_LOST);
		return;
	}
	record_fill(&e->rec, BPFPROF_KIND_GPU_CALL, sizeof(*e));
	task_id_fill(&e->task, task);
	e->call = *call;
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
}

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

/* Counts a call that begins. Is it the first of its kind? */
static __always_inline bool call_count(const struct bpfprof_gpu_function *f,
				       struct bpfprof_gpu_call *call, __u32 file)
{
	struct bpfprof_gpu_count *count;
	bool fresh;

	if (f->kind == GPU_KIND_COLLECTIVE)
		comm_use(&call->key, file, call->begin_ns);
	count = count_get(&call->key, &fresh);
	if (!count)
		return false;
	__sync_fetch_and_add(&count->calls, 1);
	count->last_ns = call->begin_ns;
	if (f->kind != GPU_KIND_ALLOC && call->bytes) /* it may fail, and its size be told later */
		__sync_fetch_and_add(&count->bytes, call->bytes);
	return fresh;
}

/* While probes of all processes take the place of those of single ones, both kinds are there. */
static __always_inline bool probe_counts(__u64 cookie)
{
	__u32 nr = FILE_OF(cookie);
	struct bpfprof_gpu_file *file = bpf_map_lookup_elem(&gpu_files, &nr);

	return file && !file->everywhere == !!(cookie & BPFPROF_GPU_OF_ONE_PROCESS);
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
	open_prune(t, ctx->sp);
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

/*
 * A kernel's handle lies at out now, looked up by the name at name, or by the other handle `name`. Not
 * static: see gpu/waits.bpf.h.
 */
__noinline int name_send(__u64 out, __u64 name, __u32 kind)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 start_ns = task->group_leader->start_boottime, handle, hash;
	struct bpfprof_gpu_graph_key at;
	struct bpfprof_gpu_name *e = NULL;
	__u32 pid = task->tgid, flags;
	long len = 0;

	if (bpf_probe_read_user(&handle, 8, (void *)out)) {
		gpu_count(GPU_COUNT_ARGUMENT_FAULT);
		return 0;
	}
	kernel_key(&at, start_ns, pid, handle);
	if (ring_has_room())
		e = bpf_ringbuf_reserve(&ring, sizeof(*e), 0);
	if (!e)
		return kernel_unreported(&at);
	record_fill(&e->rec, BPFPROF_KIND_GPU_NAME, sizeof(*e));
	task_id_fill(&e->task, task);
	e->handle = handle;
	e->other = kind == GPU_KIND_ALIAS ? name : 0;
	e->pad = 0;
	e->name[0] = 0;
	if (kind == GPU_KIND_NAME) {
		len = bpf_probe_read_user_str(e->name, sizeof(e->name), (void *)name);
		if (len <= 0) {
			gpu_count(GPU_COUNT_ARGUMENT_FAULT);
			bpf_ringbuf_discard(e, BPF_RB_NO_WAKEUP);
			return kernel_unreported(&at);
		}
		hash = name_hash(e, len);
	} else {
		hash = kernel_find(start_ns, pid, name);
	}
	flags = kernel_named(&at, hash);
	e->flags = flags;
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	/* Behind that and without a place in the ring, which nobody could read past meanwhile. */
	return flags & BPFPROF_NAME_REUSED ? kernel_reused(&at) : 0;
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

static __always_inline void count_return(const struct bpfprof_gpu_function *f,
					 const struct bpfprof_gpu_call *call)
{
	struct bpfprof_gpu_count *count = bpf_map_lookup_elem(&gpu_counts, &call->key);

	if (!count)
		return;
	__sync_fetch_and_add(&count->ns, call->ns);
	if (call->ns > count->max_ns)
		count->max_ns = call->ns;
	if (call->result)
		__sync_fetch_and_add(&count->errors, 1);
	else if (f->kind == GPU_KIND_ALLOC)
		__sync_fetch_and_add(&count->bytes, call->bytes);
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
	open = open_pop(t, ctx->sp, now);
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
	call->result = (__s32)ctx->ax;
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

/* These need all of the above. */
#include "gpu/sites.bpf.h"
#include "gpu/windows.bpf.h"
