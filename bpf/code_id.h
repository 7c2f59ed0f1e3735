/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef BPFPROF_BPF_CODE_ID_H
#define BPFPROF_BPF_CODE_ID_H

/*
 * Ids of code objects: each scratch counts its own, so that no two give the same one, and none is given
 * twice: what has it already would lend its name. What bits the number of the giver leaves count, so that
 * with 16 of them each has 2^35 ids. Plain C: tests/hostbpf compiles it, too.
 */

#include "bpfprof.h"

/* Of the one that follows nr others of this giver, of 1 << bits at most; the mere BPFPROF_CODE_ID_RAW: none is left. */
static __always_inline __u64 code_id_make(__u64 nr, __u32 giver, __u32 bits)
{
	if (nr + 1 >= BPFPROF_CODE_ID_RAW >> bits)
		return BPFPROF_CODE_ID_RAW;
	return BPFPROF_CODE_ID_RAW | (nr + 1) << bits | (giver & ((1U << bits) - 1));
}

#endif
