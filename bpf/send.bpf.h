/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_SEND_BPF_H
#define BPFPROF_BPF_SEND_BPF_H

/*
 * Takes a sample through its scratch: begin, and after the walk (walk.bpf.h) send. A miss sends a
 * copy of the stack, too.
 */
#include "walk.bpf.h"
#include "vma.bpf.h"
#include "returns.bpf.h"

/* Bytes of stack that a miss sends if the end of the stack is not known. */
#define MISS_BLIND_BYTES 65536
#define MISS_STEPS 80 /* steps in which the window grows to its full size, mostly over holes */
#define MISS_MIN_BYTES 16384 /* a miss needs this allowance; most are smaller */
#define MISS_RING_SHARE 24 /* a miss may take this share of the room for misses: 256 KiB of 6 MiB */
#define MISS_SAVED_MS 1000 /* the virtual CPU of the reader may stand still this long */

static __always_inline bool is_miss(__u32 stop)
{
	return (stop >= BPFPROF_STOP_NO_PROCESS && stop <= BPFPROF_STOP_STALE) ||
	       stop == BPFPROF_STOP_REG_LOST;
}

static long vma_found(struct task_struct *task, struct vm_area_struct *vma, struct reader_ctx *ctx)
{
	if (vma->vm_flags & VM_EXEC) {
		vma_fill(&ctx->r->rec.at.leaf_vma, vma, vma->vm_file);
		ctx->r->rec.sample.flags |= BPFPROF_SAMPLE_VMA;
	}
	return 0;
}

static __always_inline __u64 at_most(__u64 n, __u64 limit)
{
	return n < limit ? n : limit;
}

/*
 * Copies the rest of the stack as far as it may help; a step of bpf_loop. A large array that was
 * never written to has no memory: its pages are noted as holes.
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
	if (!r->stack_end) /* the stack may have ended */
		return 1;
	r->rec.at.stack_holes |= 1ULL << page;
	r->rec.at.stack_len += PAGE_BYTES - (va & (PAGE_BYTES - 1));
	r->hole = HOLE_UNKNOWN;
	return r->rec.at.stack_len >= BPFPROF_STACK_BYTES;
}

/* The last quarter is for events of processes. */
static __always_inline bool ring_has_room(void)
{
	return bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) < cfg.ring_bytes / 4 * 3;
}

/* May this CPU send another miss? It has a steady allowance and can save up some of it. */
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
	/* When the reader is late, large stacks leave room for others. */
	r->miss_window = (room - in_ring) / MISS_RING_SHARE;
	return true;
}

/* Global, so that the verifier checks it once. */
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
	 * Rows need three registers only, but some rules need others. So user space repeats the
	 * walk from the leaf, where all registers are known, unless the walk has got so far up, or
	 * to another stack, that the copy would not reach it.
	 */
	if (off <= BPFPROF_STACK_BYTES / 4 || r->stop == BPFPROF_STOP_REG_LOST) {
		walk_begin(r, task);
		r->rec.sample.nr_user = 0;
		r->rec.at.next_entry = 0;
		sp = r->state.regs[UNWIND_SP];
	} else {
		unwind_settle(&r->state, r);
		r->rec.sample.nr_user -= r->noted; /* user space adds this frame again */
	}
	for (i = 0; i < BPFPROF_NR_REGS; i++)
		r->rec.at.regs[i] = r->state.regs[i];
	r->rec.at.regs_valid = r->state.valid;
	r->rec.at.pc_exact = r->state.exact;
	ns_context_fill(&r->rec.at.ns_context, task);
	miss_returns(r);
	if (sp - r->rec.at.stack_va > RED_ZONE_BYTES)
		window_begin(r, task, sp);
	bpf_loop(MISS_STEPS, window_fill, &ctx, 0);
	if (r->stop == BPFPROF_STOP_NO_PROCESS || r->stop == BPFPROF_STOP_NO_MAPPING)
		bpf_find_vma(task, unwind_lookup_pc(&r->state), vma_found, &ctx, 0);
}

/* Sends head bytes of the record and the used parts of the miss. 0, or nothing was sent. */
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
	bpf_ringbuf_submit_dynptr(&dst, BPF_RB_FORCE_WAKEUP); /* also after a failed reserve */
	return err;
}

/*
 * Reads the title of a Ray worker into the scratch with this index, behind all frames. A worker
 * overwrites its arguments with its present task, so each sample reads them, and shares per task
 * are exact. A global function: on Linux 6.1 the verifier would check everything after it for each
 * path through it.
 */
__weak __noinline int title_take(__u32 index)
{
	struct mm_struct *mm = bpf_get_current_task_btf()->mm;
	struct unwind_reader *r = bpf_map_lookup_elem(&scratches, &index);
	struct bpfprof_sample *s;
	void *title, *from;
	__u64 nr;
	long len;

	if (!r || !mm)
		return 0;
	s = &r->rec.sample;
	nr = s->nr_kernel + s->nr_python + s->nr_user + s->nr_awaiters;
	title = &r->rec.frames[at_most(nr, BPFPROF_MAX_FRAMES + BPFPROF_MAX_AWAITERS)];
	from = (void *)mm->arg_start;
	len = bpf_probe_read_user_str(title, BPFPROF_TITLE_SHORT, from);
	if (len == BPFPROF_TITLE_SHORT)
		len = bpf_probe_read_user_str(title, BPFPROF_TITLE_BYTES, from);
	if (len > 0)
		s->title_words = ((__u64)len + 7) / 8;
	return 0;
}

/* Call it after all frames are in place. */
static __always_inline void awaiters_append(struct unwind_reader *r)
{
	struct bpfprof_sample *s = &r->rec.sample;
	__u64 nr = s->nr_kernel + s->nr_python + s->nr_user;

	if (cfg.async && s->nr_awaiters)
		bpf_probe_read_kernel(&r->rec.frames[at_most(nr, BPFPROF_MAX_FRAMES)],
				      (s->nr_awaiters & BPFPROF_MAX_AWAITERS) * 8, r->awaits.words);
}

/* Call it after all frames are in place. */
static __always_inline void title_read(struct unwind_reader *r)
{
	if (r->rec.sample.flags & BPFPROF_SAMPLE_RAY)
		title_take(r->index);
}

/* Words after the sample: frames, awaiting tasks and title. */
static __always_inline __u64 sample_words(const struct bpfprof_sample *s)
{
	__u64 nr = s->nr_kernel + s->nr_python + s->nr_user + s->nr_awaiters + s->title_words;

	return at_most(nr, BPFPROF_MAX_FRAMES + BPFPROF_MAX_AWAITERS + BPFPROF_TITLE_BYTES / 8);
}

static __always_inline bool has_call(const struct bpfprof_sample *s)
{
	return HAS_CALLS && s->flags & BPFPROF_SAMPLE_CALL;
}

/* Bytes of the sample with its frames, awaiting tasks, title and call. */
static __always_inline __u64 sample_bytes(const struct bpfprof_sample *s)
{
	return sizeof(*s) + sample_words(s) * 8 + (has_call(s) ? BPFPROF_CALL_BYTES : 0);
}

/* Call it after all frames and the title are in place. */
static __always_inline void call_append(struct unwind_reader *r)
{
	__u64 nr = sample_words(&r->rec.sample);

	if (has_call(&r->rec.sample))
		*(struct bpfprof_gpu_call *)&r->rec.frames[nr] = r->call;
}

static __always_inline long miss_send(struct unwind_reader *r, struct task_struct *task)
{
	struct bpfprof_sample *s = &r->rec.sample;

	miss_prepare(r, task);
	awaiters_append(r);
	title_read(r);
	call_append(r);
	s->rec.kind = BPFPROF_KIND_MISS;
	count_add(BPFPROF_COUNT_MISSES, 1);
	return miss_output(r, sample_bytes(s),
			   at_most(r->rec.at.nr_entries, BPFPROF_MAX_PYTHON_ENTRIES) *
				   sizeof(r->entries[0]),
			   at_most(r->rec.at.stack_len, BPFPROF_STACK_BYTES));
}

/* Sends the sample; counts it as sent or lost. */
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
	/* The rest of the ring is for events. */
	if (avail + sizeof(r->rec.frames) > cfg.ring_bytes) {
		err = -1;
	} else if (miss) {
		err = miss_send(r, task);
	} else {
		awaiters_append(r);
		title_read(r);
		call_append(r);
		s->rec.size = sample_bytes(s);
		err = bpf_ringbuf_output(&ring, &r->rec, sample_bytes(s), flags);
	}
	count_add(err ? BPFPROF_COUNT_RING_FULL : BPFPROF_COUNT_SAMPLES, 1);
	return 0;
}

/*
 * The first scratch to try. With a few for all CPUs it is a random one, because CPUs with clocks in
 * step would always collide on the same one.
 */
static __always_inline __u32 scratch_choose(void)
{
	__u32 few = cfg.few_scratches;

	return few ? bpf_get_prandom_u32() % few : bpf_get_smp_processor_id();
}

/*
 * Takes a scratch for a walk and marks it busy: this CPU's, or a spare one; NULL: none is free. A
 * walk that interrupts another one needs its own scratch, and so does a thread that runs instead of
 * a walking one. That happens only where calls are hooked; without hooks there are no spare ones,
 * which saves the verifier this loop.
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

/* By words: a byte of a kernel object costs as much as a word. */
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
	struct task_struct *leader;

	record_fill(&s->rec, BPFPROF_KIND_SAMPLE, 0);
	leader = task_id_fill(&s->task, task);
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
	s->nr_awaiters = 0;
	s->await_at = 0;
	s->await_stop = AWAIT_STOP_NONE;
	s->await_flags = 0;
	r->rec.at.nr_entries = 0;
	r->rec.at.next_entry = 0;
	r->next_va = 0;
	r->proof.inner_at = 0;
	r->proof.in_vain = 0;
	comm_copy(s->comm, task);
	comm_copy(s->leader_comm, leader);
	if ((*(__u64 *)s->leader_comm & RAY_NAME_MASK) == RAY_NAME)
		s->flags |= BPFPROF_SAMPLE_RAY;
}

#endif
