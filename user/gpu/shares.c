// SPDX-License-Identifier: Apache-2.0
#include "gpu/shares.h"

uint64_t share_take(uint64_t *total, uint64_t *all, uint64_t share)
{
	uint64_t part;

	if (share >= *all) {
		part = *total;
		*all = 0;
	} else {
		part = (uint64_t)((unsigned __int128)*total * share / *all);
		*all -= share;
	}
	*total -= part;
	return part;
}
