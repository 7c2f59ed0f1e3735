/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_READER_BPF_H
#define BPFPROF_BPF_READER_BPF_H

/*
 * The state of one sample while BPF reads a user stack: the scratch of this CPU; in it the window,
 * a copy of the stack above sp that grows as the walk proceeds; and the readers of both walkers
 * over it.
 */
#include "maps.bpf.h"
#include "gpu_calls.h"

#define CACHE_SLOTS 2048
#define WINDOW_NEAR 32752 /* the end of the stack is this near: the window takes all of it */
#define WINDOW_FIRST 4096 /* first step of other windows */
#define WINDOW_NEXT 8192
#define WINDOW_MASK 16383 /* shows the verifier the maximum length of a copy */
#define WINDOW_MAX_STEP 16376
#define START_BYTES 64 /* argc, argv and more lie above start_stack */
#define MAX_THREAD_STACK_BYTES (1U << 30)
#define CODE_SLOTS 1024
#define THREAD_SLOTS 256
#define MAX_PENDING 64
#define MAX_TSTATES 4 /* a power of two */
#define CALLERS_BYTES 2048 /* of the data stack below a frame; most of its callers lie there */

#if defined(HOOKED_RETURNS) || defined(HOOKED_CALLS)
#define SPARE_SCRATCHES BPFPROF_SPARE_SCRATCHES
#define HAS_CALLS true /* stacks may be those of hooked calls, or have hooked returns */
/* These global functions differ from those without hooked returns. */
#define window_grow window_grow_hooked
#define window_reach window_reach_hooked
#define word_read word_read_hooked
#define step_other step_other_hooked
#define walk_frame walk_frame_hooked
#else
#define SPARE_SCRATCHES 0
#define HAS_CALLS false
#endif

struct unwind_reader;
static __always_inline int unwind_read(struct unwind_reader *r, __u64 va, void *dst, __u32 len);
static __always_inline int unwind_read_u64(struct unwind_reader *r, __u64 va, __u64 *dst);
static __always_inline const __u8 *python_frame_at(struct unwind_reader *r, __u64 va, __u32 len,
						   __u8 *room);
#define UNWIND_READ_TWO
static __always_inline int unwind_read_two(struct unwind_reader *r, __u64 va, __u64 *first,
					   __u64 *second);
static __always_inline int spans_read(struct unwind_reader *r, __u8 *dst, __u32 len, __u64 va);
#define PYTHON_FRAME_AT
#include "python_fingerprint.h"
#include "python_place.h"
#include "unwind_native.h"
#include "unwind_python.h"
#include "await_walk.h"

/* A code object that was sent completely. */
struct cached_code {
	__u64 fingerprint;
	__u64 id;
};

/* The last known thread state of a thread. */
struct cached_thread {
	__u64 tstate; /* 0: the thread had none; BPF searches again after recheck_ns */
	__u64 interpreter; /* the newest interpreter of the process at that time */
	__u64 head; /* first thread state of this interpreter */
	__u64 recheck_ns;
	__u64 walk_ns; /* the list is not walked again before this time */
	__u32 tid;
	__u32 python;
	__u32 is_cut; /* the list was too long to walk to its end */
	__u32 pad;
};

/* The Python part of one sample. */
struct python_scratch {
	struct bpfprof_python_layout layout;
	__u64 runtime;
	__u32 id;
	__u32 layout_nr;
	__u32 stop;
	__u32 budget; /* bytes of code objects that this sample may still send */
	__u32 nr_pending;
	__u32 slot; /* element of pythons: the first runtime */
	__u32 next; /* element of pythons: the runtime to walk next */
	__u32 nth; /* number of the present runtime in the process */
	__u32 entered; /* frames up to the last entry */
	__u32 nr_tstates;
	__u64 nr_codes; /* ids that this scratch has used */
	__u64 tstates[MAX_TSTATES]; /* thread states of this thread, leaf first */
	struct python_walk walk;
	__u64 tls_base;
	__u64 list_at; /* position in the lists of threads */
	__u64 list_interpreter;
	__u64 list_owner; /* the interpreter of the present list */
	__u64 list_head; /* first thread state of the newest interpreter */
	__u32 list_steps;
	__u32 list_torn;
	__u32 nr_interpreters;
	__u64 last_va; /* the last frame that was not on the C stack */
	struct bpfprof_code_key key;
	struct bpfprof_code_known fresh;
	__u8 tstate[BPFPROF_PYTHON_TSTATE_BYTES + 8];
	__u8 frame[2 * PYTHON_FRAME_ROOM];
	__u8 code[512];
	struct python_prints prints;
	struct bpfprof_code_key pending[MAX_PENDING]; /* code objects to send */
	__u64 pending_id[MAX_PENDING];
	struct cached_thread threads[THREAD_SLOTS];
	struct cached_code codes[CODE_SLOTS];
	struct bpfprof_python_code piece;
	__u64 slack;
};

/*
 * Proof of the frame that a C call of the eval loop up to 3.10 runs: CPython keeps the address of
 * the frame in a register or in a slot of the C frame. The place is the same in one build.
 */
#define PROOF_SLOTS 2
#define PROOF_BUILDS 4

/* An image has one eval loop from one compiler run. */
struct python_build {
	__u32 image;
	/* Distance below the CFA where frames were found, bytes; 0: none. */
	__u32 slot[PROOF_SLOTS];
	struct python_place at; /* its place is an index in python_proof.held + 1 */
};

struct python_proof {
	struct python_build builds[PROOF_BUILDS];
	/* The present call: */
	__u64 sp, cfa;
	__u64 held[2 +
		   /* Base register, frame pointer, contents of the slots; 0: not known. */
		   PROOF_SLOTS];
	__u64 base; /* value of base, or its address */
	__u32 valid; /* as in unwind_state, for the call's frame */
	__u32 image; /* image of its code */
	__u32 nth; /* the entry found for it */
	__u32 found;
	__u32 in_vain; /* calls of this stack that hold none of its frames */
	/* The innermost call, while no other call is marked: */
	__u64 inner_frame;
	__u32 inner_at; /* index in frames[]; 0: no such call */
};

/* A hooked return: the kernel has replaced the return address with its own. */
struct hooked_return {
	__u64 va; /* address of the return address */
	__u64 to;
};

/* State of unreadable pages above the end of the window. */
enum window_hole {
	HOLE_UNKNOWN = 0,
	HOLE_NEAR = 1, /* one of the next few pages is unreadable */
	HOLE_HERE = 2, /* the next page is unreadable */
};

enum call_point { CALL_NONE = 0, CALL_ENTRY = 1, CALL_RETURN = 2 };

/*
 * The scratch of one sample; the reader of unwind_native.h. Fields that each frame needs come
 * first, tables and copies last: one instruction reaches 32 KiB far; accesses beyond that take
 * three.
 */
struct unwind_reader {
	__u32 busy;
	__u32 index; /* its key in scratches */
	__u32 nr_runs;
	__u32 hole; /* enum window_hole */
	__u32 asid;
	__u32 first; /* first element of the process in mappings */
	__u32 nr;
	__u32 stop;
	__u32 noted; /* the last of the frames is the frame that state is in */
	__u64 start_stack; /* of the process */
	__u64 stack_end; /* the stack reaches at least up to here; 0 = unknown */
	__u64 miss_ms; /* when miss_bytes was last refilled */
	__u64 miss_bytes;
	__u64 miss_window; /* bytes of stack that this miss may send */
	__u64 word; /* result of word_read */
	__u64 next_va; /* address of the next Python entry, 0: none is left */
	__u64 last_row; /* result of look_up */
	__u64 last_frame;
	__u32 last_flags; /* BPFPROF_CACHED_* */
	__u32 pad;
	struct unwind_state state;
	__u32 point; /* enum call_point: position of the hooked call whose stack this is */
	__u32 nr_returns;
	/* The fields that each frame needs lie within 32 KiB, the reach of one instruction. */
	struct bpfprof_miss rec;
	struct python_proof proof;
	struct python_scratch py;
	struct bpfprof_python_entry entries[BPFPROF_MAX_PYTHON_ENTRIES]; /* of the miss */
	struct hooked_return returns[BPFPROF_GPU_MAX_OPEN];
	struct await_walk awaits; /* python/awaiters.bpf.h */
	struct bpfprof_gpu_call call;
	struct bpfprof_cached_pc cache[CACHE_SLOTS];
	__u8 stack[BPFPROF_STACK_BYTES]; /* of the miss */
	/* Lets the verifier accept a copy that begins at the very end of stack. */
	__u8 slack[WINDOW_MASK + 1];
};

/*
 * Key: CPU; the spare ones follow. An array, because per-CPU values may not be this large. Size set
 * at load: possible CPUs, and BPFPROF_SPARE_SCRATCHES more if calls are hooked; or
 * cfg.few_scratches, and any CPU uses any of them.
 */
ARRAY_MAP(scratches, 1, struct unwind_reader);

/*
 * The lowest end of the stack that sp can have: the main thread's stack begins at start_stack, with
 * its arguments above; another thread's ends at the thread control block, which the TLS base points
 * to. 0 if sp is below neither (a coroutine's stack, a signal stack).
 */
static __always_inline __u64 stack_end(struct unwind_reader *r, struct task_struct *task, __u64 sp)
{
	__u64 end = r->start_stack;

	if (end - sp < MAX_THREAD_STACK_BYTES)
		return end + START_BYTES;
	end = task->TASK_TLS_BASE;
	return end - sp < MAX_THREAD_STACK_BYTES ? end : 0;
}

/*
 * Begins a window at sp. In an epilogue the rules still read registers below sp that were just
 * popped, so the window begins lower, but in the same page.
 */
static __always_inline void window_begin(struct unwind_reader *r, struct task_struct *task,
					 __u64 sp)
{
	__u64 below = sp & (PAGE_BYTES - 1);

	r->rec.at.stack_va = sp - (below < RED_ZONE_BYTES ? below : RED_ZONE_BYTES);
	r->rec.at.stack_len = 0;
	r->rec.at.stack_holes = 0;
	r->hole = HOLE_UNKNOWN;
	r->stack_end = stack_end(r, task, sp);
}

/* The argument of the steps of bpf_loop. */
struct reader_ctx {
	struct unwind_reader *r;
};

/*
 * Restores the return addresses that hooks have replaced in the window. The kernel's own address
 * begins a page; any other value is left alone.
 */
static __always_inline void returns_restore(struct unwind_reader *r)
{
	__u64 off, *slot;
	__u32 i;

	for (i = 0; i < BPFPROF_GPU_MAX_OPEN && i < r->nr_returns; i++) {
		off = r->returns[i].va - r->rec.at.stack_va;
		if (off >= BPFPROF_STACK_BYTES || off + 8 > r->rec.at.stack_len)
			continue;
		slot = (__u64 *)(r->stack + (off & (BPFPROF_STACK_BYTES - 1)));
		if (!(*slot & (PAGE_BYTES - 1)))
			*slot = r->returns[i].to;
	}
}

/*
 * Grows the window at its end; 0 if it grew. A copy that runs into an unreadable page costs a fault
 * (a microsecond, as much as the whole sample). So a copy ends at the end of the stack, reaches it
 * at once if it is near, and a failed one is not repeated. A global function, so that the verifier
 * checks it once and not for each reader; that halves the time to load.
 */
__weak __noinline int window_grow(struct unwind_reader *r)
{
	__u64 len, va, left, step, in_page;
	__u8 *dst;

	if (!r || r->hole == HOLE_HERE)
		return -1;
	len = r->rec.at.stack_len;
	va = r->rec.at.stack_va + len;
	left = r->stack_end - va;
	if (len >= BPFPROF_STACK_BYTES)
		return -1;
	dst = r->stack + (len & (BPFPROF_STACK_BYTES - 1));
	in_page = PAGE_BYTES - (va & (PAGE_BYTES - 1));
	step = WINDOW_MAX_STEP;
	if (r->hole) {
		step = in_page;
	} else if (left && left <= WINDOW_NEAR) {
		if (left < step)
			step = left;
	} else if (len < WINDOW_NEXT) {
		step = len < WINDOW_FIRST ? WINDOW_FIRST : WINDOW_NEXT;
	}
	barrier_var(step); /* or the compiler drops the mask as without effect */
	step &= WINDOW_MASK;
	if (bpf_probe_read_user(dst, step, (void *)va)) {
		/* A part is unreadable: copy up to the end of this page. */
		r->hole = step <= in_page + PAGE_BYTES ? HOLE_HERE : HOLE_NEAR;
		if (step <= in_page || bpf_probe_read_user(dst, in_page, (void *)va)) {
			r->hole = HOLE_HERE;
			return -1;
		}
		step = in_page;
	}
	len += step;
	r->rec.at.stack_len = len < BPFPROF_STACK_BYTES ? len : BPFPROF_STACK_BYTES;
	if (HAS_CALLS)
		returns_restore(r);
	return 0;
}

/* Number of the page of off; the first page of the window is 0. */
static __always_inline __u64 window_page(struct unwind_reader *r, __u64 off)
{
	return (r->rec.at.stack_va + off) / PAGE_BYTES - r->rec.at.stack_va / PAGE_BYTES;
}

/*
 * Skips unreadable pages at the end of the window, up to the page before that of off: a large array
 * that was never written to has no memory. The walk reads upward only, and the function of the
 * array saved its registers just below off, so nothing needed is lost.
 */
static __always_inline int window_skip(struct unwind_reader *r, __u64 off)
{
	__u64 first = window_page(r, r->rec.at.stack_len), to = window_page(r, off);

	if (to <= first || to >= BPFPROF_STACK_PAGES)
		return -1;
	if (to > first + 1)
		to--;
	r->rec.at.stack_holes |= ((1ULL << ((to - first) & 63)) - 1) << (first & 63);
	r->rec.at.stack_len = to * PAGE_BYTES - (r->rec.at.stack_va & (PAGE_BYTES - 1));
	r->hole = HOLE_UNKNOWN;
	return 0;
}

/*
 * Grows the window up to end. 0, or -1: it stops at a hole, unless it may skip that. Global as
 * window_grow().
 */
__weak __noinline int window_reach(struct unwind_reader *r, __u64 end, bool skip)
{
	int i;

	if (!r || end > BPFPROF_STACK_BYTES)
		return -1;
	for (i = 0; i < 4; i++) {
		if (window_grow(r) && (!skip || window_skip(r, end - 8)))
			return -1;
		if (end <= r->rec.at.stack_len)
			return 0;
	}
	return -1;
}

static __always_inline bool window_hole(struct unwind_reader *r, __u64 off)
{
	return r->rec.at.stack_holes >> (window_page(r, off) & 63) & 1;
}

/* Is [va, va + len) in the window, or can the window grow there? len: less than a page. */
static __always_inline bool window_has(struct unwind_reader *r, __u64 va, __u32 len, bool skip)
{
	__u64 off = va - r->rec.at.stack_va;

	if (off + len > r->rec.at.stack_len || off >= BPFPROF_STACK_BYTES) {
		if (off >= BPFPROF_STACK_BYTES - 256 || window_reach(r, off + len, skip))
			return false;
	}
	return !r->rec.at.stack_holes || !(window_hole(r, off) || window_hole(r, off + len - 1));
}

/*
 * Reads a word outside of the window, or one in a window with holes, into r->word. Global as
 * window_grow().
 */
__weak __noinline int word_read(struct unwind_reader *r, __u64 va)
{
	if (!r)
		return -1;
	if (!window_has(r, va, 8, true))
		return bpf_probe_read_user(&r->word, 8, (void *)va);
	r->word = *(__u64 *)(r->stack + ((va - r->rec.at.stack_va) & (BPFPROF_STACK_BYTES - 1)));
	return 0;
}

static __always_inline int unwind_read_u64(struct unwind_reader *r, __u64 va, __u64 *dst)
{
	__u64 off = va - r->rec.at.stack_va;

	if (off < BPFPROF_STACK_BYTES && off + 8 <= r->rec.at.stack_len && !r->rec.at.stack_holes) {
		*dst = *(__u64 *)(r->stack + (off & (BPFPROF_STACK_BYTES - 1)));
		return 0;
	}
	if (word_read(r, va))
		return -1;
	*dst = r->word;
	return 0;
}

static __always_inline int unwind_read_two(struct unwind_reader *r, __u64 va, __u64 *first,
					   __u64 *second)
{
	__u8 *at;

	if (!window_has(r, va, 16, true))
		return bpf_probe_read_user(first, 8, (void *)va) ||
		       bpf_probe_read_user(second, 8, (void *)(va + 8));
	at = r->stack + ((va - r->rec.at.stack_va) & (BPFPROF_STACK_BYTES - 1));
	*first = *(__u64 *)at;
	*second = *(__u64 *)(at + 8); /* at most in slack */
	return 0;
}

static __always_inline int spans_read(struct unwind_reader *r, __u8 *dst, __u32 len, __u64 va)
{
	return bpf_probe_read_user(dst, len, (void *)va);
}

/* Longer reads are rare (signal frames, frame pointers); they read from the process directly. */
static __always_inline int unwind_read(struct unwind_reader *r, __u64 va, void *dst, __u32 len)
{
	return bpf_probe_read_user(dst, len, (void *)va);
}

/*
 * From 3.11 on frames lie one above another in the thread's data stack, each caller below its
 * callee, so one copy serves many; shims lie on the C stack. Other frames (generators, 3.8-3.10)
 * are in the heap.
 */
static __always_inline const __u8 *python_frame_at(struct unwind_reader *r, __u64 va, __u32 len,
						   __u8 *room)
{
	struct python_scratch *py = &r->py;
	__u64 off = va - r->rec.at.stack_va;
	__u32 below = 0;

	len &= BPFPROF_PYTHON_FRAME_BYTES - 1;
	/* Not over holes: the native walk comes later and may need the memory between. */
	if (off < BPFPROF_STACK_BYTES - PYTHON_FRAME_ROOM && window_has(r, va, len, false))
		return r->stack + (off & (BPFPROF_STACK_BYTES - 1));
	if (py->layout.chain != PYTHON_CHAIN_OBJECTS && py->last_va - va < 4 * PAGE_BYTES)
		below = CALLERS_BYTES;
	py->last_va = va;
	return spans_at(r, &py->prints.spans, va, len, below);
}

#endif
