// SPDX-License-Identifier: Apache-2.0
#include "base/tenant.h"

#include "base/hash_seed.h"

#define GOLDEN_RATIO 0x9e3779b97f4a7c15ULL

uint32_t tenant_slot(uint32_t tenant, uint32_t nr)
{
	static uint64_t seed;

	if (!seed)
		seed = hash_seed() | 1;
	return (uint32_t)((tenant * GOLDEN_RATIO ^ seed) * GOLDEN_RATIO >> 32) % nr;
}
