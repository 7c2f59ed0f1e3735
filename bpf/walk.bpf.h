/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_WALK_BPF_H
#define BPFPROF_BPF_WALK_BPF_H

/*
 * The user stack of the current task, unwound and sent: what samples and hooked calls share.
 *
 * What costs time here are helper calls that touch user memory (some 60 ns each
 * and more), not arithmetic. So the stack above sp is copied once, in growing
 * pieces as the walk gets there, and rules are found in a direct-mapped cache
 * of this CPU: a pc seen before costs a few ns. The copy is also what a miss sends to
 * user space: the rest of the walk is done there, with the same code.
 */
#include "reader.bpf.h"
#include "vma.bpf.h"
#include "python/frames.bpf.h"
#include "python/proof.bpf.h"
#include "returns.bpf.h"

#define FRAMES_A_STEP 12 /* divides BPFPROF_MAX_USER_FRAMES */
#define MISS_BLIND_BYTES 65536 /* of a stack whose end is not known, a miss sends this much */
#define MISS_STEPS 80 /* steps in which the window grows to its full size, mostly of holes */
#define MISS_MIN_BYTES 16384 /* most misses are smaller */
#define MISS_RING_SHARE 24 /* of the room for misses that one may take: 256 KiB of 6 MiB */
#define MISS_SAVED_MS 1000 /* a virtual CPU that the reader runs on may stand still for long */

/* Arena of unwind rows; a slice starts with its generation. Writer: user space. Set at load. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << 21);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, __u64);
} rows __weak SEC(".maps");

/* (image, 64 KiB of its file) -> slice of rows. Writer: user space. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct bpfprof_page_key);
	__type(value, struct bpfprof_page);
} pages __weak SEC(".maps");

/* Writer: user space. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct bpfprof_code_block);
	__type(value, __u64);
} code_blocks __weak SEC(".maps");

/* The row that rules file offset low16 in the slice; *next_low = address of the row after it, 0: none. */
static __always_inline int row_find(const struct bpfprof_page *page, __u32 low, __u64 *ret_row,
				    __u32 *ret_next_low)
{
	__u32 lo = page->first + 1, hi = lo + page->nr, end = hi, mid, i;
	__u64 *row;

	for (i = 0; i < 15 && lo < hi; i++) {
		mid = lo + (hi - lo) / 2;
		row = bpf_map_lookup_elem(&rows, &mid);
		if (!row)
			return -1;
		if (unwind_row_low(*row) <= low)
			lo = mid + 1;
		else
			hi = mid;
	}
	*ret_next_low = 0; /* the next page's row may be any */
	if (lo < end) {
		row = bpf_map_lookup_elem(&rows, &lo);
		if (row)
			*ret_next_low = unwind_row_low(*row);
	}
	lo--;
	row = bpf_map_lookup_elem(&rows, &lo);
	if (!row || lo <= page->first)
		return -1;
	*ret_row = *row;
	return 0;
}

static __always_inline bool slice_is(__u32 first, __u64 generation)
{
	__u64 *header = bpf_map_lookup_elem(&rows, &first);

	return header && *(volatile __u64 *)header == generation;
}

/* Row of (image, off), or a stop. */
static __always_inline int page_look_up(struct unwind_reader *r, __u32 image, __u64 off)
{
	struct bpfprof_page_key key = { .image = image, .page = off >> BPFPROF_PAGE_SHIFT };
	struct bpfprof_page *found = bpf_map_lookup_elem(&pages, &key), page;
	__u32 next_low = 0;
	__u64 row = 0;

	if (!found)
		return BPFPROF_STOP_NO_PAGE;
	r->last_flags = eval_flags(image, off);
	page = *found;
	if (!page.nr) {
		r->last_row = unwind_row_make(0, ROW_NONE, 0, 0, 0, 0, UNWIND_LOOKED_AT);
		return 0;
	}
	if (!slice_is(page.first, page.generation))
		return BPFPROF_STOP_STALE;
	if (row_find(&page, off & 0xffff, &row, &next_low))
		return BPFPROF_STOP_STALE;
	if (!slice_is(page.first, page.generation))
		return BPFPROF_STOP_STALE;
	if (!r->state.exact && unwind_row_starts_stack(row, off & 0xffff, next_low))
		row = unwind_row_make(0, ROW_END, 0, 0, 0, 0, 0);
	r->last_row = row;
	return 0;
}

/* Code in no file: a rule that was read out of it, else its frame pointer is tried. */
static __always_inline int code_block_look_up(struct unwind_reader *r, __u64 pc)
{
	struct bpfprof_code_block key = { .block = pc >> BPFPROF_CODE_BLOCK_SHIFT,
					  .asid = r->asid };
	__u64 *row = bpf_map_lookup_elem(&code_blocks, &key);

	if (!row) {
		key.block = pc | BPFPROF_CODE_BLOCK_PC;
		row = bpf_map_lookup_elem(&code_blocks, &key);
	}
	r->last_row = row ? *row : unwind_row_make(0, ROW_NONE, 0, 0, 0, 0, 0);
	r->last_frame =
		(__u64)BPFPROF_FRAME_NATIVE_VA << BPFPROF_FRAME_SHIFT | (pc & BPFPROF_FRAME_MASK);
	return 0;
}

/* Code in a file that its rows say nothing of: a rule that holds for this process alone. */
static __always_inline void code_place_look_up(struct unwind_reader *r)
{
	struct bpfprof_code_block key = { .block = r->last_frame, .asid = r->asid };
	__u64 *row = bpf_map_lookup_elem(&code_blocks, &key);

	if (row)
		r->last_row = *row;
}

/*
 * Rule, frame and flags of pc into r->last_*, through mappings, pages and rows. 0 or a stop. A global
 * function, so that the verifier goes through its searches once and not after each way of a step.
 */
__weak __noinline int look_up_slow(struct unwind_reader *r, __u64 pc)
{
	struct bpfprof_mapping *m, *header;
	__u32 first, at, image, asid;
	__u64 start, off;
	int stop;

	if (!r)
		return BPFPROF_STOP_NO_MAPPING;
	first = r->first;
	asid = r->asid;
	r->last_flags = 0;
	at = mapping_upper(first, r->nr, pc) - 1;
	if (at <= first)
		return BPFPROF_STOP_NO_MAPPING;
	m = bpf_map_lookup_elem(&mappings, &at);
	if (!m)
		return BPFPROF_STOP_NO_MAPPING;
	start = m->start;
	off = pc - start;
	image = m->image;
	if (off >> 12 >= m->nr_pages)
		return BPFPROF_STOP_NO_MAPPING;
	off += m->off;
	header = bpf_map_lookup_elem(&mappings, &first);
	if (!header || *(volatile __u32 *)&header->image != asid) {
		count_add(BPFPROF_COUNT_STALE, 1);
		return BPFPROF_STOP_STALE;
	}
	if (image == BPFPROF_IMAGE_NONE)
		return code_block_look_up(r, pc);
	r->last_frame = (__u64)BPFPROF_FRAME_NATIVE << BPFPROF_FRAME_SHIFT |
			(__u64)image << BPFPROF_OFF_BITS | (off & BPFPROF_OFF_MASK);
	stop = page_look_up(r, image, off);
	if (stop == BPFPROF_STOP_STALE)
		count_add(BPFPROF_COUNT_STALE, 1);
	if (!stop && unwind_row_unexplored(r->last_row))
		code_place_look_up(r);
	return stop;
}

static __always_inline bool cache_hit(struct unwind_reader *r, const struct bpfprof_cached_pc *c,
				      __u64 pc)
{
	if (c->pc != pc || c->asid != r->asid)
		return false;
	r->last_row = c->row;
	r->last_frame = c->frame;
	r->last_flags = c->flags;
	return true;
}

/*
 * Two neighbours per hash, or two frames of one stack that collide throw each other out
 * in every sample. The newer one comes first.
 */
static __always_inline int look_up(struct unwind_reader *r, __u64 pc)
{
	__u64 hash = (pc ^ (__u64)r->asid << 32) * 0x9e3779b97f4a7c15ULL;
	struct bpfprof_cached_pc *c = &r->cache[(hash >> 40) & (CACHE_SLOTS - 2)];
	int stop;

	if (cache_hit(r, &c[0], pc) || cache_hit(r, &c[1], pc))
		return 0;
	stop = look_up_slow(r, pc);
	if (stop || unwind_row_kind(r->last_row) == ROW_UNREADABLE) /* may become readable */
		return stop;
	if (unwind_row_kind(r->last_row) == ROW_SIGNAL)
		r->last_flags |= BPFPROF_CACHED_SIGNAL;
	if (r->last_frame >> BPFPROF_FRAME_SHIFT == BPFPROF_FRAME_NATIVE_VA)
		return 0; /* such code may change */
	if (unwind_row_unexplored(r->last_row))
		return BPFPROF_STOP_RARE_RULE;
	c[1] = c[0];
	c->pc = pc;
	c->asid = r->asid;
	c->row = r->last_row;
	c->frame = r->last_frame;
	c->flags = r->last_flags;
	return 0;
}

/* If the frame just stepped over (from sp on) is a C call of the eval loop, frames[at] says so. */
static __always_inline void eval_mark(struct unwind_reader *r, __u64 at, __u64 sp)
{
	if (r->state.regs[UNWIND_SP] < sp) /* it is on another stack */
		return;
	if (r->next_va - sp < r->state.regs[UNWIND_SP] - sp)
		entry_mark(r, at, r->rec.at.next_entry);
}

/* Global as look_up_slow(). */
__weak __noinline int step_other(struct unwind_reader *r)
{
	return r ? unwind_step_other(&r->state, r->last_row, r) : BPFPROF_STOP_RARE_RULE;
}

/* One frame: look it up, note it, step over it. 1 = the walk is over. */
static __always_inline int walk_frame(struct unwind_reader *r)
{
	__u64 at = r->rec.sample.nr_kernel + r->rec.sample.nr_python + r->rec.sample.nr_user;
	__u64 sp = r->state.regs[UNWIND_SP];
	bool goes_on = false;
	int stop;

	stop = look_up(r, unwind_lookup_pc(&r->state));
	if (!stop && unwind_row_kind(r->last_row) == ROW_RARE)
		stop = BPFPROF_STOP_RARE_RULE;
	if (stop) {
		r->stop = stop;
		return 1;
	}
	if (r->last_flags & BPFPROF_CACHED_SIGNAL)
		r->last_frame += unwind_signal_entry(&r->state, r->last_row, r->last_frame);
	barrier_var(at); /* Linux 6.1 forgets what was compared if it was put aside before */
	if (at >= BPFPROF_MAX_FRAMES) {
		r->stop = BPFPROF_STOP_DEPTH;
		return 1;
	}
	r->rec.frames[at] = r->last_frame;
	r->rec.sample.nr_user++;
	if (r->last_flags & BPFPROF_CACHED_EVAL && r->next_va)
		goes_on = proof_begin(r);
	stop = unwind_row_kind(r->last_row) == ROW_CFA ? unwind_step_cfa(&r->state, r->last_row, r)
						       : step_other(r);
	if (stop) {
		/* There may be a rule. */
		if (unwind_row_unexplored(r->last_row) && unwind_end_guessed(&r->state, stop)) {
			stop = BPFPROF_STOP_RARE_RULE;
			r->noted = 1;
		}
		r->stop = stop;
		return 1;
	}
	if (r->next_va) {
		if (r->last_flags & BPFPROF_CACHED_EVAL)
			proof_mark(r, at, goes_on);
		else
			eval_mark(r, at, sp);
	}
	return 0;
}

/*
 * bpf_loop calls this for each step; a call and its return cost a third of what a frame does. The barrier keeps clang
 * from reading most of r before the loop and putting it on the stack, in each step.
 */
static long walk_frames(__u32 i, struct reader_ctx *ctx)
{
	struct unwind_reader *r = ctx->r;
	__u32 nr;

#pragma clang loop unroll(disable)
	for (nr = 0; nr < FRAMES_A_STEP; nr++) {
		barrier_var(r);
		if (walk_frame(r))
			return 1;
	}
	return 0;
}

static __always_inline bool in_syscall(struct task_struct *task)
{
	return regs_syscall(task_regs(task)) >= 0;
}

/*
 * Where the walk begins. A hooked call stands at its first instruction, which may have no unwind rule
 * (trampolines), so the walk begins with what it returns to; or it has just returned.
 */
static __always_inline void walk_begin(struct unwind_reader *r, struct task_struct *task)
{
	struct pt_regs *regs = task_regs(task);

	regs_copy(r->state.regs, regs);
	r->state.valid = UNWIND_ALL_REGS;
	r->state.exact = regs_are_exact(regs);
	r->noted = 0;
	if (r->point == CALL_NONE)
		return;
	r->state.exact = 0;
	if (r->point != CALL_ENTRY)
		return;
	regs_return_read(regs, &r->state.regs[UNWIND_PC]);
	r->state.regs[UNWIND_SP] += CALL_PUSHES;
}

static __always_inline bool is_miss(__u32 stop)
{
	return (stop >= BPFPROF_STOP_NO_PROCESS && stop <= BPFPROF_STOP_STALE) ||
	       stop == BPFPROF_STOP_REG_LOST;
}

/*
 * Is that a thread of a process that stays in the kernel (io_uring, vhost)? copy_thread() gives it
 * user registers all the same, with neither a pc nor a stack.
 */
static __always_inline bool is_kernel_worker(const struct pt_regs *regs)
{
	return !regs_pc(regs) && !regs_sp(regs);
}

/* Walks the user stack of the current task; sets r->stop. */
static __always_inline void user_walk(struct unwind_reader *r, struct task_struct *task)
{
	struct pt_regs *regs = task_regs(task);
	struct bpfprof_sample *s = &r->rec.sample;
	struct reader_ctx ctx = { .r = r };
	struct bpfprof_mapping *header;
	struct bpfprof_proc *proc;
	bool worker = is_kernel_worker(regs);
	__u32 pid = s->task.pid;

	if (worker) {
		count_add(BPFPROF_COUNT_KERNEL_WORKER, 1);
	} else if (regs_are_compat32(regs)) {
		r->stop = BPFPROF_STOP_COMPAT32;
		return;
	}
	walk_begin(r, task);
	window_begin(r, task, r->state.regs[UNWIND_SP]);
	proc = bpf_map_lookup_elem(&procs, &pid);
	if (!proc || proc->start_ns != s->task.start_ns || proc->exec_id != s->task.exec_id) {
		r->stop = BPFPROF_STOP_NO_PROCESS;
		return;
	}
	if (proc->flags & BPFPROF_PROC_RAY)
		s->flags |= BPFPROF_SAMPLE_RAY;
	if (worker) { /* a process that is not known is still told, by a miss */
		r->stop = BPFPROF_STOP_NO_USER;
		return;
	}
	r->asid = proc->asid;
	r->first = proc->first;
	r->nr = proc->nr;
	if (proc->python) { /* also while its mappings change */
		r->py.tls_base = task->TASK_TLS_BASE;
		python_walk(&ctx, proc->python);
		entry_next(r, 0);
	}
	header = bpf_map_lookup_elem(&mappings, &r->first);
	if (!header || header->image != r->asid || header->start) {
		r->stop = BPFPROF_STOP_NO_PROCESS;
		return;
	}
	s->asid = r->asid;
	r->stop = BPFPROF_STOP_DEPTH;
	bpf_loop(BPFPROF_MAX_USER_FRAMES / FRAMES_A_STEP, walk_frames, &ctx, 0);
}

/* The same, of a thread that may have no user stack (any more). */
static __always_inline void stack_walk(struct unwind_reader *r, struct task_struct *task)
{
	if (task->flags & PF_KTHREAD || !task->mm) {
		r->rec.sample.flags |= BPFPROF_SAMPLE_KTHREAD;
		r->stop = BPFPROF_STOP_NO_USER;
		return;
	}
	user_walk(r, task);
	/* Half way through exec the old stack is gone and no new one is there yet. */
	if (r->stop != BPFPROF_STOP_COMPLETE && !(r->rec.sample.flags & BPFPROF_SAMPLE_USER_MODE) &&
	    BPF_CORE_READ_BITFIELD(task, in_execve)) {
		r->rec.sample.nr_user = 0;
		r->rec.sample.nr_python = 0;
		r->stop = BPFPROF_STOP_NO_USER;
	}
}

static long vma_found(struct task_struct *task, struct vm_area_struct *vma, struct reader_ctx *ctx)
{
	if (vma->vm_flags & VM_EXEC) {
		vma_fill(&ctx->r->rec.at.leaf_vma, vma);
		ctx->r->rec.sample.flags |= BPFPROF_SAMPLE_VMA;
	}
	return 0;
}

static __always_inline __u64 at_most(__u64 n, __u64 limit)
{
	return n < limit ? n : limit;
}

/*
 * Copies the rest of the stack, as far as it may be of use; a step of bpf_loop. A large
 * array that was never written to has no memory: such pages are noted and passed over.
 */
static long window_fill(__u32 i, struct reader_ctx *ctx)
{
	struct unwind_reader *r = ctx->r;
	__u64 va = r->rec.at.stack_va + r->rec.at.stack_len, wanted = MISS_BLIND_BYTES;
	__u64 page = va / PAGE_BYTES - r->rec.at.stack_va / PAGE_BYTES;

	if (r->stack_end)
		wanted = r->stack_end - r->rec.at.stack_va;
	wanted = at_most(wanted, r->miss_window);
	if (r->rec.at.stack_len >= wanted || page >= BPFPROF_STACK_PAGES)
		return 1;
	if (!window_grow(r))
		return 0;
	if (!r->stack_end) /* it may be over */
		return 1;
	r->rec.at.stack_holes |= 1ULL << page;
	r->rec.at.stack_len += PAGE_BYTES - (va & (PAGE_BYTES - 1));
	r->hole = HOLE_UNKNOWN;
	return r->rec.at.stack_len >= BPFPROF_STACK_BYTES;
}

/* May this CPU send another miss? A steady allowance, some of which can be saved up. */
static __always_inline bool miss_allowed(struct unwind_reader *r, __u64 now, __u64 in_ring)
{
	__u64 ms = now / 1000000, passed = ms - r->miss_ms;
	__u64 cap = cfg.miss_bytes_per_ms * MISS_SAVED_MS, room = cfg.ring_bytes / 4 * 3;

	if (cap < sizeof(struct bpfprof_miss) + BPFPROF_STACK_BYTES)
		cap = sizeof(struct bpfprof_miss) + BPFPROF_STACK_BYTES;
	if (passed > MISS_SAVED_MS)
		passed = MISS_SAVED_MS;
	r->miss_ms = ms;
	r->miss_bytes += passed * cfg.miss_bytes_per_ms;
	if (r->miss_bytes > cap)
		r->miss_bytes = cap;
	if (r->miss_bytes < MISS_MIN_BYTES || in_ring >= room)
		return false;
	/* When the reader is late, large stacks must not leave nothing for all others. */
	r->miss_window = (room - in_ring) / MISS_RING_SHARE;
	return true;
}

/* Global, so that the verifier goes through it once. */
__weak __noinline int miss_returns(struct unwind_reader *r)
{
	if (r)
		r->rec.at.nr_returns = returns_list(r->rec.at.returns, bpf_get_current_task_btf());
	return 0;
}

static __always_inline void miss_prepare(struct unwind_reader *r, struct task_struct *task)
{
	struct reader_ctx ctx = { .r = r };
	__u64 sp = r->state.regs[UNWIND_SP], off = sp - r->rec.at.stack_va;
	int i;

	/*
	 * Rows follow three registers alone; some rules build on another one. So user
	 * space walks again from the leaf, where all are known, unless the walk has gone so far
	 * up, or to another stack, that the copy would not reach.
	 */
	if (off <= BPFPROF_STACK_BYTES / 4 || r->stop == BPFPROF_STOP_REG_LOST) {
		walk_begin(r, task);
		r->rec.sample.nr_user = 0;
		r->rec.at.next_entry = 0;
		sp = r->state.regs[UNWIND_SP];
	} else {
		unwind_settle(&r->state, r);
		r->rec.sample.nr_user -= r->noted; /* user space will note it */
	}
	for (i = 0; i < BPFPROF_NR_REGS; i++)
		r->rec.at.regs[i] = r->state.regs[i];
	r->rec.at.regs_valid = r->state.valid;
	r->rec.at.pc_exact = r->state.exact;
	place_fill(&r->rec.at.place, task);
	miss_returns(r);
	if (sp - r->rec.at.stack_va > RED_ZONE_BYTES)
		window_begin(r, task, sp);
	bpf_loop(MISS_STEPS, window_fill, &ctx, 0);
	if (r->stop == BPFPROF_STOP_NO_PROCESS || r->stop == BPFPROF_STOP_NO_MAPPING)
		bpf_find_vma(task, unwind_lookup_pc(&r->state), vma_found, &ctx, 0);
}

/* head bytes of the record and what is used of the rest of a miss. 0, or nothing was sent. */
static __always_inline long miss_output(struct unwind_reader *r, __u64 head, __u64 entries,
					__u64 stack)
{
	__u64 size = head + sizeof(r->rec.at) + entries + stack;
	struct bpf_dynptr dst;
	long err;

	r->rec.sample.rec.size = size;
	r->miss_bytes -= size < r->miss_bytes ? size : r->miss_bytes;
	err = bpf_ringbuf_reserve_dynptr(&ring, size, 0, &dst);
	if (!err) {
		bpf_dynptr_write(&dst, 0, &r->rec, head, 0);
		bpf_dynptr_write(&dst, head, &r->rec.at, sizeof(r->rec.at), 0);
		head += sizeof(r->rec.at);
		bpf_dynptr_write(&dst, head, r->entries, entries, 0);
		bpf_dynptr_write(&dst, head + entries, r->stack, stack, 0);
	}
	bpf_ringbuf_submit_dynptr(&dst, BPF_RB_FORCE_WAKEUP); /* whether it was reserved or not */
	return err;
}

/*
 * A Ray worker overwrites its arguments with what it does at the moment: they are read for each
 * sample, so that shares per task are exact. Into the scratch with this index, behind all frames. A
 * global function: on Linux 6.1 the verifier would go through all that follows for each way through it.
 */
__weak __noinline int title_take(__u32 index)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct unwind_reader *r = bpf_map_lookup_elem(&scratches, &index);
	struct bpfprof_sample *s;
	void *title, *from;
	__u64 nr;
	long len;

	if (!r || !task->mm)
		return 0;
	s = &r->rec.sample;
	nr = s->nr_kernel + s->nr_python + s->nr_user;
	title = &r->rec.frames[at_most(nr, BPFPROF_MAX_FRAMES)];
	from = (void *)task->mm->arg_start;
	len = bpf_probe_read_user_str(title, BPFPROF_TITLE_SHORT, from);
	if (len == BPFPROF_TITLE_SHORT)
		len = bpf_probe_read_user_str(title, BPFPROF_TITLE_BYTES, from);
	if (len > 0)
		s->title_words = ((__u64)len + 7) / 8;
	return 0;
}

/* To be called once all frames are there. */
static __always_inline void title_read(struct unwind_reader *r)
{
	if (r->rec.sample.flags & BPFPROF_SAMPLE_RAY)
		title_take(r->index);
}

/* Words after the sample: its frames and its title. */
static __always_inline __u64 sample_words(const struct bpfprof_sample *s)
{
	__u64 nr = s->nr_kernel + s->nr_python + s->nr_user + s->title_words;

	return at_most(nr, BPFPROF_MAX_FRAMES + BPFPROF_TITLE_BYTES / 8);
}

/* Bytes of the sample with all that follows. */
static __always_inline __u64 sample_bytes(const struct bpfprof_sample *s)
{
	return sizeof(*s) + sample_words(s) * 8 +
	       (s->flags & BPFPROF_SAMPLE_CALL ? BPFPROF_CALL_BYTES : 0);
}

/* To be called once all frames and the title are there. */
static __always_inline void call_append(struct unwind_reader *r)
{
	__u64 nr = sample_words(&r->rec.sample);

	if (r->rec.sample.flags & BPFPROF_SAMPLE_CALL)
		*(struct bpfprof_gpu_call *)&r->rec.frames[nr] = r->call;
}

static __always_inline long miss_send(struct unwind_reader *r, struct task_struct *task)
{
	struct bpfprof_sample *s = &r->rec.sample;

	miss_prepare(r, task);
	title_read(r);
	call_append(r);
	s->rec.kind = BPFPROF_KIND_MISS;
	count_add(BPFPROF_COUNT_MISSES, 1);
	return miss_output(r, sample_bytes(s),
			   at_most(r->rec.at.nr_entries, BPFPROF_MAX_PYTHON_ENTRIES) *
				   sizeof(r->entries[0]),
			   at_most(r->rec.at.stack_len, BPFPROF_STACK_BYTES));
}

/* Sends what was gathered; counts it sent or lost. */
static __noinline int sample_send(struct unwind_reader *r, struct task_struct *task)
{
	struct bpfprof_sample *s = &r->rec.sample;
	__u64 avail = bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA), flags;
	bool miss = is_miss(r->stop) && miss_allowed(r, s->rec.ts_ns, avail);
	long err;

	if (is_miss(r->stop) && !miss)
		r->stop = BPFPROF_STOP_MISS_RATE;
	s->stop = r->stop;
	flags = avail > cfg.ring_bytes / 8 ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
	if (avail + sizeof(r->rec.frames) > cfg.ring_bytes) { /* what is left is for events */
		err = -1;
	} else if (miss) {
		err = miss_send(r, task);
	} else {
		title_read(r);
		call_append(r);
		s->rec.size = sample_bytes(s);
		err = bpf_ringbuf_output(&ring, &r->rec, sample_bytes(s), flags);
	}
	count_add(err ? BPFPROF_COUNT_RING_FULL : BPFPROF_COUNT_SAMPLES, 1);
	return 0;
}

/*
 * Which scratch to try first. Of a few for all CPUs it is any: clocks of two CPUs that keep in step would
 * want the same one of them again and again.
 */
static __always_inline __u32 scratch_choose(void)
{
	__u32 few = cfg.few_scratches;

	return few ? bpf_get_prandom_u32() % few : bpf_get_smp_processor_id();
}

/*
 * A scratch for a walk, marked busy: this CPU's, or a spare one. What interrupts a walk, or the thread that
 * runs instead of the one that makes it, needs one of its own meanwhile, which happens where
 * calls are hooked: elsewhere there are no spare ones, and the verifier need not follow that. NULL:
 * none is free.
 */
static __always_inline struct unwind_reader *scratch_take(void)
{
	__u32 i, key = scratch_choose();
	struct unwind_reader *r;

	for (i = 0; i <= SPARE_SCRATCHES; i++) {
		r = bpf_map_lookup_elem(&scratches, &key);
		if (!r)
			break;
		if (!__sync_lock_test_and_set(&r->busy, 1)) {
			r->index = key;
			return r;
		}
		key = cfg.nr_cpus + i;
	}
	return NULL;
}

/* By words: a byte of a kernel object costs as much as eight. */
static __always_inline void comm_copy(char dst[BPFPROF_COMM_LEN], struct task_struct *task)
{
	const __u64 *comm = (const void *)task->comm;

	((__u64 *)dst)[0] = comm[0];
	((__u64 *)dst)[1] = comm[1];
}

static __always_inline void sample_fill(struct unwind_reader *r, struct task_struct *task,
					__u64 period_ns, __u32 flags)
{
	struct bpfprof_sample *s = &r->rec.sample;

	record_fill(&s->rec, BPFPROF_KIND_SAMPLE, 0);
	task_id_fill(&s->task, task);
	s->period_ns = period_ns;
	s->asid = 0;
	s->flags = flags;
	s->nr_kernel = 0;
	s->nr_user = 0;
	s->skip = 0;
	s->nr_python = 0;
	s->python_stop = PYTHON_STOP_NONE;
	s->python_flags = 0;
	s->title_words = 0;
	r->point = CALL_NONE;
	r->nr_returns = 0;
	s->runnable_ns = 0;
	s->holder_tid = 0;
	s->wait_nr = 0;
	s->gap_ns = 0;
	r->rec.at.nr_entries = 0;
	r->rec.at.next_entry = 0;
	r->next_va = 0;
	r->proof.inner_at = 0;
	r->proof.in_vain = 0;
	comm_copy(s->comm, task);
	comm_copy(s->leader_comm, task->group_leader);
	if ((*(__u64 *)s->leader_comm & RAY_NAME_MASK) == RAY_NAME)
		s->flags |= BPFPROF_SAMPLE_RAY;
}

#endif
