// SPDX-License-Identifier: Apache-2.0
#include "cuda/comm_layout.h"

uint32_t comm_layout_rank(uint32_t rank, uint32_t count, uint32_t device)
{
	/* The hash before the rank has 8 bytes, and so a multiple of 8 as its offset. */
	if (!rank || rank % 8 || rank >= COMM_LAYOUT_MAX_OFFSET || count != rank + 4 ||
	    device != rank + 8)
		return 0;
	return rank;
}
