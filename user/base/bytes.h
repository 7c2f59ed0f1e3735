/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_BYTES_H
#define BPFPROF_BASE_BYTES_H

/* Numbers at any place in memory, in the byte order of this machine. The caller checks the bounds. */

#include <stdint.h>
#include <string.h>

static inline uint32_t bytes_u32(const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static inline uint64_t bytes_u64(const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

#endif
