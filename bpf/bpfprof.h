/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef BPFPROF_BPF_BPFPROF_H
#define BPFPROF_BPF_BPFPROF_H

/*
 * The wire contract between the BPF programs and user space: records of the ring buffer, map
 * values, limits, counters. Types have a fixed width, padding is explicit, enums only grow and have
 * 0 as invalid. Only user/kernel/ decodes these structs.
 */

#include "asyncio.h"
#include "config.h"
#include "counters.h"
#include "cpython.h"
#include "frame.h"
#include "mappings.h"
#include "reads.h"
#include "record.h"

#define BPFPROF_STACK_BYTES 262144 /* copy of the stack of a miss, at most; a power of two */
#define BPFPROF_STACK_PAGES 64 /* 4 KiB pages that this copy may touch */
#define BPFPROF_CALL_BYTES 104 /* sizeof(struct bpfprof_gpu_call) */
/* Read of a Ray worker's title: 1023 bytes, and whether there are more. */
#define BPFPROF_TITLE_BYTES 1032
#define BPFPROF_TITLE_SHORT 128 /* first try: nearly all titles are shorter, NUL included */

#define BPFPROF_SAMPLE_USER_MODE 1U /* the tick interrupted user code */
#define BPFPROF_SAMPLE_KTHREAD 2U
#define BPFPROF_SAMPLE_TIMER 4U /* a tick of the timer clock */
#define BPFPROF_SAMPLE_VMA 8U /* miss: leaf_vma is filled in */
#define BPFPROF_SAMPLE_KSOFTIRQD 16U /* the kernel ran the timer tick in ksoftirqd */
#define BPFPROF_SAMPLE_RAY 32U /* of a Ray worker: BPF tried to read its title */
/* Sample of a hooked call, not of the clock; the call follows the title. */
#define BPFPROF_SAMPLE_CALL 64U
#define BPFPROF_SAMPLE_WAIT 128U /* taken at the end of a wait of the thread */
#define BPFPROF_SAMPLE_UNINTERRUPTIBLE 256U /* WAIT: signals could not wake the thread */
#define BPFPROF_SAMPLE_GIL_WAIT 512U /* WAIT: the thread waited for Python's GIL */
#define BPFPROF_SAMPLE_WAKER 1024U /* the thread wakes another one; the sample has no time */
/* WAKER: an interrupt wakes the other thread; the stack is not the cause */
#define BPFPROF_SAMPLE_INTERRUPT 2048U
#define BPFPROF_SAMPLE_GAP 4096U /* tick while the device of the process is idle */
#define BPFPROF_SAMPLE_PAGE 8192U /* not of the clock: the thread allocates a page */
#define BPFPROF_SAMPLE_BLOCK 16384U /* not of the clock: the thread has allocated a block */
#define BPFPROF_SAMPLE_SIGNAL 32768U /* not of the clock: the thread takes a deadly signal */
#define BPFPROF_SAMPLE_HANDLED 65536U /* SIGNAL: the program has a handler for it */

struct bpfprof_sample {
	struct bpfprof_record rec;
	struct bpfprof_task_id task;
	__u64 period_ns; /* time that this sample stands for; BLOCK: bytes */
	__u32 asid; /* address space id of the walk, 0 = process unknown */
	__u32 flags;
	__u16 nr_kernel; /* frames[] starts with this many kernel addresses */
	__u16 nr_user; /* native frames, last in frames[] */
	__u16 stop; /* enum bpfprof_stop */
	__u16 skip; /* leading kernel frames of the sampler's own interrupt, to be left out */
	__u16 nr_python; /* Python frames, between the kernel's and the native ones */
	__u16 python_stop; /* enum bpfprof_python_stop */
	__u16 python_flags; /* BPFPROF_PYTHON_* */
	__u16 title_words; /* 8-byte words of the title, after the frames */
	char comm[BPFPROF_COMM_LEN]; /* of the thread */
	char leader_comm[BPFPROF_COMM_LEN];
	union {
		__u64 runnable_ns; /* WAIT: the part of period_ns in which only a CPU was missing */
		__u64 block_bytes; /* BLOCK: its size */
		struct {
			__u32 number;
			__s32 code; /* si_code: more than 0: the kernel sent it */
		} signal; /* SIGNAL */
	};
	/* GIL_WAIT: last holder when the wait ended, 0: not known; WAKER: the woken thread */
	__u32 holder_tid;
	/* WAIT, WAKER: number of the wait in its thread; 0: the thread was not asleep */
	__u32 wait_nr;
	char holder_comm[BPFPROF_COMM_LEN];
	union {
		/* GAP: when the device became idle (idle_ns of struct bpfprof_gpu_waits); else 0 */
		__u64 gap_ns;
		__u64 page; /* PAGE: its key in the map held_pages (page_sample.h) */
		__u64 block; /* BLOCK: its id in the map held_blocks (allocations.h) */
		__u64 fault_va; /* SIGNAL: si_addr, if the thread caused it by its own access */
	};
	__u16 nr_awaiters; /* words of the awaiting tasks, behind all frames */
	__u16 await_at; /* Python frames up to that of the running task's coroutine; 0: none */
	__u16 await_stop; /* enum bpfprof_await_stop */
	__u16 await_flags; /* BPFPROF_AWAIT_* */
	/*
	 * Then follow __u64 frames[] (kernel, Python, native, each leaf first), the words of the
	 * awaiting tasks (nearest task first, its outermost frame first), the title, and with
	 * BPFPROF_SAMPLE_CALL struct bpfprof_gpu_call (gpu_calls.h).
	 */
};

/* The kernel stops a walk here; user space goes on with this state. */
struct bpfprof_miss_point {
	__u64 regs[BPFPROF_NR_REGS];
	__u32 regs_valid; /* bit n: regs[n] is known */
	__u32 pc_exact; /* 1: pc is the interrupted instruction, not a return address */
	__u64 stack_va; /* address of stack[0] */
	__u32 stack_len; /* bytes of stack */
	__u32 nr_returns;
	__u64 stack_holes; /* bit n: the n-th page that stack touches has no memory */
	struct bpfprof_vma leaf_vma; /* with BPFPROF_SAMPLE_VMA: mapping of the missed pc */
	/* C calls of the eval loop, leaf first; those before next_entry are marked */
	__u32 nr_entries;
	__u32 next_entry;
	struct bpfprof_ns_context ns_context; /* of the sample's process */
	struct bpfprof_return returns[BPFPROF_MAX_RETURNS];
};

/*
 * A miss in its scratch. The record has only the used parts, without gaps: the sample with its
 * frames, title and call, then at, entries[nr_entries] and stack[stack_len].
 */
struct bpfprof_miss {
	struct bpfprof_sample sample;
	/* Frames, awaiting tasks, the title, and the call. */
	__u64 frames[BPFPROF_MAX_FRAMES + BPFPROF_MAX_AWAITERS +
		     (BPFPROF_TITLE_BYTES + BPFPROF_CALL_BYTES) / 8];
	struct bpfprof_miss_point at;
	/*
	 * The scratch has struct bpfprof_python_entry entries[] and __u8 stack[BPFPROF_STACK_BYTES]
	 * elsewhere.
	 */
};

struct bpfprof_process_event { /* EXEC, EXIT, RENAME, MMAP */
	struct bpfprof_record rec;
	struct bpfprof_task_id task;
	char comm[BPFPROF_COMM_LEN];
	__u64 va; /* MMAP: start of the range; EXIT of the last thread: the status for wait(2) */
	__u64 len;
	__u64 cpu_ns; /* EXIT of the last thread: CPU time of the thread group */
	__u32 flags; /* EXIT: 1 = last thread of its group; MMAP: 1 = overlaps a known mapping */
	__u32 parent; /* EXIT: pid of the parent; else 0 */
	struct bpfprof_ns_context ns_context; /* EXEC: as after the exec; else 0 */
};

struct bpfprof_fork_event {
	struct bpfprof_record rec;
	struct bpfprof_task_id parent;
	struct bpfprof_task_id child;
	char comm[BPFPROF_COMM_LEN];
	struct bpfprof_ns_context ns_context; /* of the child */
};

/* KILL: a process was sent SIGKILL. With cfg.deaths also: another process has sent another deadly signal. */
struct bpfprof_kill_event {
	struct bpfprof_record rec;
	__u32 pid; /* of the process */
	__u32 sender; /* pid of the process that ran: with KILL_KERNEL it may be any */
	char comm[BPFPROF_COMM_LEN]; /* of that */
	__u32 flags; /* BPFPROF_KILL_* */
	__u32 cgroup_above; /* levels from the process's own cgroup to that of the next two: 0 is its own */
	/* The cgroup, of that of the process and those above it, with the least left; 0: no limit is known. */
	__u64 cgroup_max_bytes;
	__u64 cgroup_used_bytes; /* then */
	__u32 signal; /* its number */
	__u32 parent; /* pid of the parent of the process */
	__u64 start_ns; /* of the process; 0: not known */
};

#define BPFPROF_KILL_KERNEL 1U /* the kernel sent it */
#define BPFPROF_KILL_OOM 2U /* the OOM killer; a second event, after that of the signal */
#define BPFPROF_KILL_OUTSIDE 4U /* the sender lives in another pid namespace: it runs containers */
/* The first process of the pid namespace has ended, and the kernel ends all others. */
#define BPFPROF_KILL_NAMESPACE 8U
/*
 * The sender is an ancestor of the process, or leads its process group or session; or the parent ends, and the
 * process has asked for a signal then (PR_SET_PDEATHSIG).
 */
#define BPFPROF_KILL_ABOVE 16U

/* TITLE: a thread of a Ray worker has written a title and taken its beginning as its name. */
struct bpfprof_title_event {
	struct bpfprof_record rec; /* its time is the time of the change */
	struct bpfprof_task_id task;
	struct bpfprof_ns_context ns_context;
	__u32 lost; /* changes of this process since the last event that were not sent */
	__u32 verdict; /* enum bpfprof_title_verdict at that time */
	char old_comm[BPFPROF_COMM_LEN]; /* old name of the thread */
	/* Stack pointer of the thread in user space. A call begins and ends in the same stack. */
	__u64 sp;
	/* The record has only the used words; user space fills the rest with zeros. */
	char title[BPFPROF_TITLE_BYTES];
};

/* Verdict of user space on a title, in the maps title_verdicts and long_title_verdicts. */
enum bpfprof_title_verdict {
	BPFPROF_TITLE_UNKNOWN = 0,
	BPFPROF_TITLE_UNWANTED = 1, /* sent only where it ends a wanted title */
	BPFPROF_TITLE_WANTED = 2,
};

#define BPFPROF_OPEN_MAIN 1U /* the next change of the main thread */
/* Every change: the process has wanted titles in other threads, where calls overlap. */
#define BPFPROF_OPEN_ALL 2U

/* Value of the map titled; key __u32 pid: a process that has sent a TITLE event. */
struct bpfprof_titled {
	__u64 start_ns; /* of the process */
	__u64 refill_ms; /* last time that tokens were added */
	__u64 sent[2]; /* hashes of titles without verdict */
	__u32 tokens; /* events that it may send */
	__u32 lost; /* changes since the last event that were not sent */
	__u32 open; /* BPFPROF_OPEN_*: changes that are sent, whatever their title is */
	__u32 done; /* 1: user space wants no more events */
};

_Static_assert(sizeof(struct bpfprof_sample) == 160, "wire");
_Static_assert(sizeof(struct bpfprof_title_event) == 96 + BPFPROF_TITLE_BYTES, "wire");
_Static_assert(sizeof(struct bpfprof_titled) == 48, "wire");
_Static_assert(sizeof(struct bpfprof_miss_point) % 8 == 0, "wire");

#endif
