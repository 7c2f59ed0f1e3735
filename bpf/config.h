/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef BPFPROF_BPF_CONFIG_H
#define BPFPROF_BPF_CONFIG_H

/*
 * Part of the wire contract (bpfprof.h): the configuration of the BPF programs, and the map values
 * for targets and processes.
 */

#include "arch.h"

#define BPFPROF_TARGET_BITS 65536 /* a power of two */
/* Bit of a value of the map targets: the process counts after its next exec. */
#define BPFPROF_TARGET_AT_EXEC (1U << 31)

/* Value of the map procs; key __u32 pid. Written by user space. */
struct bpfprof_proc {
	__u64 start_ns;
	__u64 exec_id;
	/* Id of this state of the mappings: each change makes a new one; never reused. */
	__u32 asid;
	__u32 first; /* index of the slice header in the map mappings */
	__u32 nr; /* mappings after the header, sorted by start */
	__u32 python; /* first element in the map pythons, 0 = not Python */
	__u32 flags; /* BPFPROF_PROC_* */
	__u32 pad;
};

/* It was a Ray worker once, so it has a title, whatever its name is now. */
#define BPFPROF_PROC_RAY 1U

/* Scratches of the node for a walk that interrupts another one on the same CPU. */
#define BPFPROF_SPARE_SCRATCHES 2

/* Read-only configuration of the BPF programs, fixed when they are loaded. */
struct bpfprof_cfg {
	__u64 period_ns; /* nominal */
	__u64 ring_bytes;
	__u64 miss_bytes_per_ms; /* per scratch */
	__u64 irq_start, irq_end; /* timer clock: text of the interrupt entries */
	__u64 softirq_start, softirq_end; /* timer clock: do_softirq */
	__u64 fred_user_start, fred_user_end; /* the same on processors with FRED, else 0 */
	__u64 fred_kernel_start, fred_kernel_end;
	__u64 irq_exit_start, irq_exit_end; /* text of irqentry_exit */
	__u64 irq_exit_user_start, irq_exit_user_end; /* text of irqentry_exit_to_user_mode */
	__u64 wake_start, wake_end; /* text of try_to_wake_up */
	__u32 filter; /* 1: only processes in the map targets */
	__u32 follow; /* 1: children of targets are targets */
	__u32 period_is_ns; /* 1: the event's period is in nanoseconds */
	__u32 jitter; /* timer clock: +- this many 1/1024 of the period */
	__u32 mmap_nr; /* system call number of mmap */
	__u32 code_giver_bits; /* bits of a code object's id that hold the number of the scratch */
	__u32 nr_cpus; /* possible CPUs */
	__u32 pid_ns; /* pid namespace of user space, 0: the outermost one */
	__u64 hash_seed; /* seed of fingerprints, because targets choose what is hashed */
	__u64 call_token_ns; /* hooked calls: a thread earns one stack per this time */
	__u64 call_long_ns; /* hooked calls: each one that takes this long sends a stack */
	__u32 call_tokens; /* stacks that a thread may save up */
	__u32 gpu_trace; /* 1: each hooked call is sent when it returns */
	/* 1: BPF sends when collectives complete, and marks samples in gaps of the device. */
	__u32 gpu_waits;
	__u32 call_keys; /* keys of the map gpu_counts that one process may use */
	__u32 wall; /* 1: --wall; a sample of the clock stands for the time that its thread ran */
	__u32 fork_wakes; /* 1: a fork of a target wakes user space */
	/* 0: each CPU has its own scratch; else the number of scratches for all CPUs. */
	__u32 few_scratches;
	__u32 gaps_alone; /* 1: the clock samples only processes with an idle device (SAMPLE_GAP) */
	__u32 async; /* 1: samples have the tasks of asyncio that await the running one */
	__u32 deaths; /* 1: KILL events of all deadly signals, not only of SIGKILL */
};

/* Entry of the per-CPU pc cache. */
struct bpfprof_cached_pc {
	__u64 pc; /* address looked up */
	__u64 row;
	__u64 frame;
	__u32 asid;
	__u32 flags;
};

_Static_assert(sizeof(struct bpfprof_proc) == 40, "wire");
_Static_assert(sizeof(struct bpfprof_cached_pc) == 32, "wire");

#endif
