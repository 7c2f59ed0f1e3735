/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef BPFPROF_BPF_CODE_ID_H
#define BPFPROF_BPF_CODE_ID_H

/*
 * Ids of code objects: each CPU counts its own, so that no two give the same one, and none is given
 * twice: what has it already would lend its name. What bits the number of the CPU leaves count, so that a
 * machine of 16 CPUs has 2^35 ids on each. Plain C: tests/hostbpf compiles it, too.
 */

#include "bpfprof.h"

/* Of the one that follows nr others on this CPU, of 1 << cpu_bits at most; the mere BPFPROF_CODE_ID_RAW: none is left. */
static __always_inline __u64 code_id_make(__u64 nr, __u32 cpu, __u32 cpu_bits)
{
	if (nr + 1 >= BPFPROF_CODE_ID_RAW >> cpu_bits)
		return BPFPROF_CODE_ID_RAW;
	return BPFPROF_CODE_ID_RAW | (nr + 1) << cpu_bits | (cpu & ((1U << cpu_bits) - 1));
}

#endif
