// SPDX-License-Identifier: GPL-2.0-only
/*
 * Allocations: the stacks that allocate blocks, and which of these blocks are not freed yet.
 *
 * At its begin a call says its size, which decides whether it belongs to the sample. Only then its
 * return matters, where the block is known. The stack is taken there: a call that never returns, or
 * returns no block, has allocated nothing. From 6.13 on a session link runs one program at both ends,
 * and leaves out the return of calls that do not matter; older kernels run alloc_return for each.
 */
#define HOOKED_CALLS /* a walk may be preempted by another one */
#include "send.bpf.h"
#include "allocations.h"

/* The same on all architectures of Linux but Alpha, MIPS, PA-RISC and Xtensa. */
#define PROT_WRITE 2
#define MAP_ANONYMOUS 0x20

char LICENSE[] SEC("license") = "GPL";

/* See allocations.h. Writer: BPF; user space deletes blocks of processes that have ended. */
HASH_MAP(held_blocks, BPFPROF_MAX_HELD_BLOCKS, struct bpfprof_block_key, struct bpfprof_block);

struct alloc_open_key {
	__u64 sp; /* at the begin of the call: a signal handler may allocate, too */
	__u32 tid;
	__u32 pad;
};

struct alloc_open {
	__u64 start_ns; /* of the thread */
	__u64 bytes, rate; /* of it; per sample, as the call began */
	__u64 out; /* the argument that the result is written to */
	__u64 old_va; /* the block of the sample that a realloc takes over; 0: none */
	struct bpfprof_block old;
	__u32 sampled;
	__u32 pad;
};

/* Calls that have not returned. Some never will (longjmp, exit), so the oldest make room. Writer: BPF. */
MAP(open_allocations, LRU_HASH, BPFPROF_MAX_OPEN_ALLOCATIONS, struct alloc_open_key,
    struct alloc_open, 0);

/* See allocations.h. Key: pid. Writer: both sides. */
MAP(alloc_costs, PERCPU_HASH, BPFPROF_MAX_ALLOC_PROCESSES, __u32, struct bpfprof_alloc_cost, 0);

/* See allocations.h. Key: pid. Writer: user space. */
HASH_MAP(alloc_codes, BPFPROF_MAX_ALLOC_PROCESSES, __u32, struct bpfprof_alloc_code);

/* See allocations.h. */
MMAPABLE_MAP(alloc_control, 1, struct bpfprof_alloc_control);

/* Always empty: each program here must have a tail call, see gpu_programs in gpu/maps.bpf.h. */
MAP(alloc_programs, PROG_ARRAY, 1, __u32, __u32, 0);

static __always_inline struct bpfprof_alloc_control *control_get(struct pt_regs *ctx)
{
	__u32 zero = 0;
	struct bpfprof_alloc_control *control = bpf_map_lookup_elem(&alloc_control, &zero);

	if (!control) /* never */
		bpf_tail_call(ctx, &alloc_programs, 0);
	return control;
}

static __always_inline void alloc_count(struct bpfprof_alloc_control *control, __u32 counter)
{
	__sync_fetch_and_add(&control->count[counter], 1);
}

/* The product of two arguments, at most so many bytes as no allocator can serve. */
static __always_inline __u64 times(__u64 a, __u64 b)
{
	return a && b > BPFPROF_USER_VA_END / a ? BPFPROF_USER_VA_END : a * b;
}

static __always_inline __u64 bytes_asked(struct pt_regs *ctx, __u32 kind)
{
	switch (kind) {
	case ALLOC_MALLOC:
		return regs_argument(ctx, 1);
	case ALLOC_CALLOC:
		return times(regs_argument(ctx, 1), regs_argument(ctx, 2));
	case ALLOC_REALLOC:
	case ALLOC_ALIGNED:
		return regs_argument(ctx, 2);
	case ALLOC_REALLOC_PASSING:
		return regs_argument(ctx, 1) ? regs_argument(ctx, 2) : 0;
	case ALLOC_MMAP: /* memory that may be written to, of no file */
		return regs_argument(ctx, 3) & PROT_WRITE && regs_argument(ctx, 4) & MAP_ANONYMOUS
			       ? regs_argument(ctx, 2)
			       : 0;
	case ALLOC_POSIX:
		return regs_argument(ctx, 3);
	default:
		return 0;
	}
}

/* p = min(1, bytes / R). */
static __always_inline bool is_sampled(__u64 bytes, __u64 r)
{
	/* R is less than 2^32, so the product fits. */
	return bytes >= r || (bpf_get_prandom_u32() * r) >> 32 < bytes;
}

/* Takes a block of the sample away from its address. True: there was one. */
static __always_inline bool block_take(struct bpfprof_alloc_control *control, __u32 pid, __u64 va,
				       struct bpfprof_block *ret)
{
	struct bpfprof_block_key key = { .va = va, .pid = pid };
	struct bpfprof_block *block = va ? bpf_map_lookup_elem(&held_blocks, &key) : NULL;

	if (!block)
		return false;
	*ret = *block;
	if (bpf_map_delete_elem(&held_blocks, &key))
		return false;
	__sync_fetch_and_add(&control->held_bytes, -ret->bytes);
	return true;
}

/* A block has ended. Without room for a report user space finds it gone at a look. */
static __always_inline void block_end(struct bpfprof_alloc_control *control, __u32 pid,
				      const struct bpfprof_block *block, __u32 counter)
{
	struct bpfprof_block_freed *e = NULL;

	alloc_count(control, counter);
	if (ring_has_room())
		e = bpf_ringbuf_reserve(&ring, sizeof(*e), 0);
	if (!e) {
		alloc_count(control, ALLOC_COUNT_UNREPORTED);
		return;
	}
	record_fill(&e->rec, BPFPROF_KIND_BLOCK_FREED, sizeof(*e));
	e->block = block->id;
	e->pid = pid;
	e->unseen = counter == ALLOC_COUNT_REPLACED;
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
}

static __always_inline bool is_in(__u64 ret, const struct bpfprof_alloc_range *range)
{
	return ret > range->start && ret <= range->end;
}

/* Does the allocator itself make the call? Then the outer call counts. A mmap counts only if that is certain. */
static __always_inline bool is_inner(struct pt_regs *ctx, struct task_struct *task, __u32 kind)
{
	__u32 pid = task->tgid;
	struct bpfprof_alloc_code *code = bpf_map_lookup_elem(&alloc_codes, &pid);
	__u64 ret;
	int i;

	if (!code || code->exec_id != task->self_exec_id)
		return kind == ALLOC_MMAP;
	regs_return_read(ctx, &ret);
	for (i = 0; i < BPFPROF_MAX_ALLOC_FUNCTIONS; i++)
		if (is_in(ret, &code->functions[i]))
			return true;
	for (i = 0; kind == ALLOC_MMAP && i < BPFPROF_ALLOC_FILES; i++)
		if (is_in(ret, &code->files[i]))
			return true;
	return false;
}

/* A call begins. False: its return does not matter. */
static __always_inline bool call_begins(struct pt_regs *ctx, struct task_struct *task, __u32 kind)
{
	struct bpfprof_alloc_control *control = control_get(ctx);
	struct alloc_open_key key = { .sp = regs_sp(ctx), .tid = task->pid };
	struct alloc_open open = { .start_ns = task->start_boottime };
	__u32 pid = task->tgid;
	__u64 old = 0;

	if (!control)
		return false;
	if (kind == ALLOC_FREE || kind == ALLOC_MUNMAP) {
		if (block_take(control, pid, regs_argument(ctx, 1), &open.old))
			block_end(control, pid, &open.old, ALLOC_COUNT_FREED);
		return false;
	}
	open.bytes = bytes_asked(ctx, kind);
	if (open.bytes > BPFPROF_USER_VA_END)
		open.bytes = BPFPROF_USER_VA_END;
	open.rate = control->bytes;
	open.sampled = is_sampled(open.bytes, open.rate) && !is_inner(ctx, task, kind);
	if (kind == ALLOC_REALLOC || kind == ALLOC_REALLOC_PASSING)
		old = regs_argument(ctx, 1);
	/* Taken now: once it is freed, another thread may get the address before this call returns. */
	if (old && block_take(control, pid, old, &open.old))
		open.old_va = old;
	if (!open.sampled && !open.old_va)
		return false;
	if (kind == ALLOC_POSIX)
		open.out = regs_argument(ctx, 1);
	if (!bpf_map_update_elem(&open_allocations, &key, &open, BPF_ANY))
		return true;
	alloc_count(control, ALLOC_COUNT_OPEN_FULL);
	return false;
}

/* Enters the block and sends its stack. */
static __always_inline void block_add(struct bpfprof_alloc_control *control,
				      struct task_struct *task, __u64 va, __u64 bytes, __u64 rate)
{
	struct bpfprof_block_key key = { .va = va, .pid = task->tgid };
	struct bpfprof_block block = { .bytes = bytes > rate ? bytes : rate }, old;
	struct unwind_reader *r = scratch_take();

	if (!r) {
		alloc_count(control, ALLOC_COUNT_BUSY);
		return;
	}
	block.id = __sync_fetch_and_add(&control->last_id, 1) + 1;
	/* Its end was not seen, or it is memory that mmap maps over. */
	if (block_take(control, key.pid, va, &old))
		block_end(control, key.pid, &old, ALLOC_COUNT_REPLACED);
	if (bpf_map_update_elem(&held_blocks, &key, &block, BPF_ANY)) {
		alloc_count(control, ALLOC_COUNT_FULL);
		r->busy = 0;
		return;
	}
	alloc_count(control, ALLOC_COUNT_SAMPLED);
	__sync_fetch_and_add(&control->held_bytes, block.bytes);
	sample_fill(r, task, block.bytes, BPFPROF_SAMPLE_USER_MODE | BPFPROF_SAMPLE_BLOCK);
	r->rec.sample.block = block.id;
	r->rec.sample.block_bytes = bytes;
	r->point = CALL_RETURN;
	user_walk(r, task, task->mm);
	sample_send(r, task);
	r->busy = 0;
}

/* A call of the sample has returned: 0 if it returned no block. */
static __always_inline __u64 block_returned(struct pt_regs *ctx, const struct alloc_open *open)
{
	__u64 va = 0;

	if (!open->out) /* mmap returns -1 */
		return regs_result(ctx) < BPFPROF_USER_VA_END ? regs_result(ctx) : 0;
	if (!(__u32)regs_result(ctx))
		bpf_probe_read_user(&va, sizeof(va), (void *)open->out);
	return va;
}

static __always_inline void call_returns(struct pt_regs *ctx, struct task_struct *task,
					 struct bpfprof_alloc_cost *cost)
{
	struct alloc_open_key key = { .sp = regs_sp(ctx) - CALL_PUSHES, .tid = task->pid };
	struct alloc_open *found = bpf_map_lookup_elem(&open_allocations, &key), open;
	struct bpfprof_alloc_control *control = control_get(ctx);
	__u64 va, begin_ns;

	if (!found || !control)
		return;
	open = *found;
	bpf_map_delete_elem(&open_allocations, &key);
	if (open.start_ns != task->start_boottime)
		return;
	va = block_returned(ctx, &open);
	if (open.old_va && !va && open.bytes) { /* it failed: the old block is still there */
		struct bpfprof_block_key old = { .va = open.old_va, .pid = task->tgid };

		if (!bpf_map_update_elem(&held_blocks, &old, &open.old, BPF_ANY))
			__sync_fetch_and_add(&control->held_bytes, open.old.bytes);
	} else if (open.old_va) {
		block_end(control, task->tgid, &open.old, ALLOC_COUNT_FREED);
	}
	if (!open.sampled)
		return;
	if (!va) {
		alloc_count(control, ALLOC_COUNT_FAILED);
		return;
	}
	begin_ns = bpf_ktime_get_ns();
	block_add(control, task, va, open.bytes, open.rate);
	__sync_fetch_and_add(&cost->stack_ns, bpf_ktime_get_ns() - begin_ns);
}

static __always_inline struct bpfprof_alloc_cost *cost_find(struct task_struct *task)
{
	__u32 pid = task->tgid;

	return bpf_map_lookup_elem(&alloc_costs, &pid);
}

/* Runs at both ends of a call. 1 at the begin: the return does not matter. */
SEC("?uprobe")
int alloc_session(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct bpfprof_alloc_cost *cost = cost_find(task);

	if (!cost)
		return 1;
	/* At the end it is the address after the call. */
	if (regs_pc(ctx) != bpf_get_func_ip(ctx)) {
		__sync_fetch_and_add(&cost->returns, 1);
		call_returns(ctx, task, cost);
		return 0;
	}
	__sync_fetch_and_add(&cost->calls, 1); /* it may be preempted */
	return !call_begins(ctx, task, bpf_get_attach_cookie(ctx));
}

SEC("?uprobe")
int alloc_enter(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct alloc_open_key key = { .sp = regs_sp(ctx), .tid = task->pid };
	struct bpfprof_alloc_cost *cost = cost_find(task);

	if (!cost)
		return 0;
	__sync_fetch_and_add(&cost->calls, 1);
	/* An earlier call at this place may never have returned. */
	if (!call_begins(ctx, task, bpf_get_attach_cookie(ctx)))
		bpf_map_delete_elem(&open_allocations, &key);
	return 0;
}

SEC("?uprobe")
int alloc_return(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct bpfprof_alloc_cost *cost = cost_find(task);

	if (!cost)
		return 0;
	__sync_fetch_and_add(&cost->returns, 1);
	call_returns(ctx, task, cost);
	return 0;
}
