/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef BPFPROF_BPF_BPFPROF_H
#define BPFPROF_BPF_BPFPROF_H

/*
 * The wire contract between the BPF programs and user space: ring buffer
 * records, the values of the shared maps, limits and counters. Fixed-width
 * types only, explicit padding, append-only enums with 0 invalid. User space
 * decodes these in user/kernel/ and nowhere else.
 */

#include "config.h"
#include "counters.h"
#include "cpython.h"
#include "frame.h"
#include "mappings.h"
#include "reads.h"
#include "record.h"

#define BPFPROF_STACK_BYTES 262144 /* room for the copy of the stack of a miss, a power of two */
#define BPFPROF_STACK_PAGES 64 /* of 4 KiB, of which it may touch so many */
#define BPFPROF_CALL_BYTES 104 /* struct bpfprof_gpu_call */
#define BPFPROF_TITLE_BYTES 1032 /* read of a Ray worker's title: 1023, and whether there is more */
#define BPFPROF_TITLE_SHORT 128 /* nearly all are shorter, NUL included: read first */

#define BPFPROF_SAMPLE_USER_MODE 1U /* the tick interrupted user code */
#define BPFPROF_SAMPLE_KTHREAD 2U
#define BPFPROF_SAMPLE_TIMER 4U /* taken by the timer clock */
#define BPFPROF_SAMPLE_VMA 8U /* leaf_vma of the miss is filled in */
#define BPFPROF_SAMPLE_KSOFTIRQD 16U /* timer tick misplaced into ksoftirqd */
#define BPFPROF_SAMPLE_RAY 32U /* of a Ray worker: its title was read, or tried to */
#define BPFPROF_SAMPLE_CALL 64U /* of a hooked call, not of the clock: it follows the title */
#define BPFPROF_SAMPLE_WAIT 128U /* of a thread that was off the CPU, at the end of that */
#define BPFPROF_SAMPLE_UNINTERRUPTIBLE 256U /* and could not be woken by signals */
#define BPFPROF_SAMPLE_GIL_WAIT 512U /* it waited for Python's GIL */
#define BPFPROF_SAMPLE_WAKER 1024U /* of a thread while it wakes another one; no time */
#define BPFPROF_SAMPLE_INTERRUPT                                                                   \
	2048U /* WAKER: an interrupt does that; the thread has no part in it */
#define BPFPROF_SAMPLE_GAP 4096U /* of the clock: the device of its process has nothing to do */

struct bpfprof_sample {
	struct bpfprof_record rec;
	struct bpfprof_task_id task;
	__u64 period_ns; /* time that this sample stands for */
	__u32 asid; /* address space id used for the walk, 0 = process unknown */
	__u32 flags;
	__u16 nr_kernel; /* frames[] starts with this many raw kernel addresses */
	__u16 nr_user; /* and ends with this many native frames */
	__u16 stop; /* enum bpfprof_stop */
	__u16 skip; /* of nr_kernel: the sampler's own interrupt, to be left out */
	__u16 nr_python; /* frames between the kernel's and the native ones */
	__u16 python_stop; /* enum bpfprof_python_stop */
	__u16 python_flags; /* BPFPROF_PYTHON_* */
	__u16 title_words; /* after the frames so many times 8 bytes of the title follow */
	char comm[BPFPROF_COMM_LEN]; /* of the thread */
	char leader_comm[BPFPROF_COMM_LEN];
	__u64 runnable_ns; /* WAIT: of period_ns, what it had only a CPU to wait for */
	__u32 holder_tid; /* GIL_WAIT: who held it last when the wait was over, 0: not known;
			   * WAKER: who is woken */
	__u32 wait_nr; /* WAIT, WAKER: of one thread, the same wait has the same; 0: it was not asleep */
	char holder_comm[BPFPROF_COMM_LEN];
	__u64 gap_ns; /* GAP: since when, as idle_ns of struct bpfprof_gpu_waits; else 0 */
	/*
	 * __u64 frames[] follow: kernel, Python, native, each leaf first; then the title; then, with
	 * BPFPROF_SAMPLE_CALL, struct bpfprof_gpu_call (gpu_calls.h).
	 */
};

/* Where a walk stopped, and what is needed to go on from there. */
struct bpfprof_miss_point {
	__u64 regs[BPFPROF_NR_REGS];
	__u32 regs_valid; /* bit n: regs[n] is known */
	__u32 pc_exact; /* 1: pc is the interrupted instruction, not a return address */
	__u64 stack_va; /* address of stack[0] */
	__u32 stack_len; /* bytes of stack */
	__u32 nr_returns;
	__u64 stack_holes; /* bit n: nothing is there of the n-th memory page that stack touches */
	struct bpfprof_vma leaf_vma; /* with BPFPROF_SAMPLE_VMA: mapping of the missed pc */
	__u32 nr_entries; /* C calls of the eval loop, leaf first; those up to next_entry are done */
	__u32 next_entry;
	struct bpfprof_place place; /* of the sample's process */
	struct bpfprof_return returns[BPFPROF_MAX_RETURNS];
};

/*
 * A miss as it is gathered. It is sent without what is not used of it: the sample with its
 * frames as always, then at, entries[nr_entries] and stack[stack_len], without gaps.
 */
struct bpfprof_miss {
	struct bpfprof_sample sample;
	/* And the title, and the call. */
	__u64 frames[BPFPROF_MAX_FRAMES + (BPFPROF_TITLE_BYTES + BPFPROF_CALL_BYTES) / 8];
	struct bpfprof_miss_point at;
	/* And struct bpfprof_python_entry entries[]; and __u8 stack[BPFPROF_STACK_BYTES]. */
};

struct bpfprof_process_event { /* EXEC, EXIT, RENAME, MMAP */
	struct bpfprof_record rec;
	struct bpfprof_task_id task;
	char comm[BPFPROF_COMM_LEN];
	__u64 va; /* MMAP: range handed out; EXIT: exit code */
	__u64 len;
	__u64 cpu_ns; /* EXIT of the last thread: CPU time of the thread group */
	__u32 flags; /* EXIT: 1 = last thread of its group; MMAP: 1 = overlaps a known mapping */
	__u32 pad;
	struct bpfprof_place place; /* EXEC: afterwards; else 0 */
};

struct bpfprof_fork_event {
	struct bpfprof_record rec;
	struct bpfprof_task_id parent;
	struct bpfprof_task_id child;
	char comm[BPFPROF_COMM_LEN];
	struct bpfprof_place place; /* of the child */
};

/* TITLE: a thread of a Ray worker has written a title, and taken its beginning for its name. */
struct bpfprof_title_event {
	struct bpfprof_record rec; /* its time is that of the change */
	struct bpfprof_task_id task;
	struct bpfprof_place place;
	__u32 lost; /* so many changes of this process since the last event were not told */
	__u32 verdict; /* enum bpfprof_title_verdict, that it had then */
	char old_comm[BPFPROF_COMM_LEN]; /* of the thread, until now */
	/* In the ring so many words of it as there are; user space fills it up with zeros. */
	char title[BPFPROF_TITLE_BYTES];
};

/* What user space says of a title, in the maps title_verdicts and long_title_verdicts. */
enum bpfprof_title_verdict {
	BPFPROF_TITLE_UNKNOWN = 0,
	BPFPROF_TITLE_UNWANTED = 1, /* told only where it ends a wanted one */
	BPFPROF_TITLE_WANTED = 2,
};

/* Value of the map titled; key __u32 pid: a process that has sent TITLE. */
struct bpfprof_titled {
	__u64 start_ns; /* of the process */
	__u64 refill_ms; /* when tokens were counted */
	__u64 sent[2]; /* hashes of titles without verdict */
	__u32 tokens; /* what it may send */
	__u32 lost; /* changes that were not told since the last event */
	__u32 open; /* 1: the next change is to be told, whatever it is */
	__u32 done; /* 1: user space wants no more */
};

_Static_assert(sizeof(struct bpfprof_sample) == 152, "wire");
_Static_assert(sizeof(struct bpfprof_title_event) == 88 + BPFPROF_TITLE_BYTES, "wire");
_Static_assert(sizeof(struct bpfprof_titled) == 48, "wire");
_Static_assert(sizeof(struct bpfprof_miss_point) % 8 == 0, "wire");

#endif
