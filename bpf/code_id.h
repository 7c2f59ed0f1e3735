/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef BPFPROF_BPF_CODE_ID_H
#define BPFPROF_BPF_CODE_ID_H

/*
 * Ids of code objects. Each scratch (giver) numbers its own, so all ids differ. No id is used
 * twice: user space would give it the old name. An id has the number of the giver in its low bits
 * and a count in the others: with 16 givers each has 2^35 ids. Plain C; tests/hostbpf compiles it,
 * too.
 */

#include "bpfprof.h"

/*
 * The id after nr others of this giver, one of 1 << bits givers. The bare BPFPROF_CODE_ID_RAW: no
 * id is left.
 */
static __always_inline __u64 code_id_make(__u64 nr, __u32 giver, __u32 bits)
{
	if (nr + 1 >= BPFPROF_CODE_ID_RAW >> bits)
		return BPFPROF_CODE_ID_RAW;
	return BPFPROF_CODE_ID_RAW | (nr + 1) << bits | (giver & ((1U << bits) - 1));
}

#endif
