/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_WALK_BPF_H
#define BPFPROF_BPF_WALK_BPF_H

/*
 * Walks the user stack of the current task, for samples and hooked calls.
 *
 * The cost is in helper calls that read user memory (60 ns and more each), not in arithmetic. So
 * the stack above sp is copied once, in growing pieces as the walk proceeds, and a direct-mapped
 * cache of this CPU has the rules: a known pc costs a few ns. A miss sends this copy to user space,
 * which finishes the walk with the same code.
 */
#include "lookup.bpf.h"
#include "python/frames.bpf.h"

#define FRAMES_A_STEP 32 /* divides BPFPROF_MAX_USER_FRAMES */

/*
 * Marks frames[at] if the frame just stepped over (which began at sp) is a C call of the eval loop.
 */
static __always_inline void eval_mark(struct unwind_reader *r, __u64 at, __u64 sp)
{
	if (r->state.regs[UNWIND_SP] < sp) /* the caller is on another stack */
		return;
	if (r->next_va - sp < r->state.regs[UNWIND_SP] - sp)
		entry_mark(r, at, r->rec.at.next_entry);
}

/* A step for the other kinds of rows. Global as look_up_slow(). */
__weak __noinline int step_other(struct unwind_reader *r)
{
	return r ? unwind_step_other(&r->state, r->last_row, r) : BPFPROF_STOP_RARE_RULE;
}

/*
 * Walks one frame: looks up its rule, adds it to frames[], steps to its caller. 1 = the walk has
 * ended. Global, so that the verifier checks it once and not for each frame of a step.
 */
__weak __noinline int walk_frame(struct unwind_reader *r)
{
	bool goes_on = false;
	__u64 at, sp;
	int stop;

	if (!r)
		return 1;
	at = r->rec.sample.nr_kernel + r->rec.sample.nr_python + r->rec.sample.nr_user;
	sp = r->state.regs[UNWIND_SP];
	stop = look_up(r, unwind_lookup_pc(&r->state));
	if (!stop && unwind_row_kind(r->last_row) == ROW_RARE)
		stop = BPFPROF_STOP_RARE_RULE;
	if (stop) {
		r->stop = stop;
		return 1;
	}
	if (r->last_flags & BPFPROF_CACHED_SIGNAL)
		r->last_frame += unwind_signal_entry(&r->state, r->last_row, r->last_frame);
	barrier_var(at); /* Linux 6.1 loses the bound of a spilled variable */
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
		/* User space may find a rule in the instructions. */
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
 * A step of bpf_loop. It walks several frames, because a call and its return cost a third of a
 * frame.
 */
static long walk_frames(__u32 i, struct reader_ctx *ctx)
{
	__u32 nr;

#pragma clang loop unroll(disable)
	for (nr = 0; nr < FRAMES_A_STEP; nr++)
		if (walk_frame(ctx->r))
			return 1;
	return 0;
}

static __always_inline bool in_syscall(struct task_struct *task)
{
	return regs_syscall(task_regs(task)) >= 0;
}

/*
 * Sets the start of the walk. At an entry, a hooked call stands at its first instruction, which may
 * have no unwind rule (trampolines), so the walk begins at its return address. At a return it has
 * just returned.
 */
static __always_inline void walk_begin(struct unwind_reader *r, struct task_struct *task)
{
	struct pt_regs *regs = task_regs(task);

	regs_copy(r->state.regs, regs);
	r->state.valid = UNWIND_ALL_REGS;
	r->state.exact = regs_are_exact(regs);
	r->noted = 0;
	if (!HAS_CALLS || r->point == CALL_NONE)
		return;
	r->state.exact = 0;
	if (r->point != CALL_ENTRY)
		return;
	regs_return_read(regs, &r->state.regs[UNWIND_PC]);
	r->state.regs[UNWIND_SP] += CALL_PUSHES;
}

/*
 * Is this a thread of a process that never leaves the kernel (io_uring, vhost)? copy_thread() gives
 * it user registers with neither pc nor stack.
 */
static __always_inline bool is_kernel_worker(const struct pt_regs *regs)
{
	return !regs_pc(regs) && !regs_sp(regs);
}

/*
 * Walks the user stack of the current task; sets r->stop. mm: of the task. It is loaded once, before
 * all branches: for each path to a load of a pointer, the verifier looks four times through all
 * types of the kernel.
 */
static __always_inline void user_walk(struct unwind_reader *r, struct task_struct *task,
				      struct mm_struct *mm)
{
	struct pt_regs *regs = task_regs(task);
	struct bpfprof_sample *s = &r->rec.sample;
	struct reader_ctx ctx = { .r = r };
	struct bpfprof_mapping *header;
	struct bpfprof_proc *proc;
	bool worker = is_kernel_worker(regs);
	__u32 pid = s->task.pid;

	r->start_stack = mm->start_stack;
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
	if (worker) { /* a process that is not known still needs a miss */
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

/* As user_walk(), for a thread that may have no user stack (any more). */
static __always_inline void stack_walk(struct unwind_reader *r, struct task_struct *task)
{
	struct mm_struct *mm = task->mm;

	if (task->flags & PF_KTHREAD || !mm) {
		r->rec.sample.flags |= BPFPROF_SAMPLE_KTHREAD;
		r->stop = BPFPROF_STOP_NO_USER;
		return;
	}
	user_walk(r, task, mm);
	/* During exec the old stack has ended and the new one does not exist yet. */
	if (r->stop != BPFPROF_STOP_COMPLETE && !(r->rec.sample.flags & BPFPROF_SAMPLE_USER_MODE) &&
	    BPF_CORE_READ_BITFIELD(task, in_execve)) {
		r->rec.sample.nr_user = 0;
		r->rec.sample.nr_python = 0;
		r->rec.sample.nr_awaiters = 0;
		r->stop = BPFPROF_STOP_NO_USER;
	}
}

#endif
