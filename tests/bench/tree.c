// SPDX-License-Identifier: Apache-2.0
/* Burns CPU at the end of one of 2^20 ways through two functions, each time another one. */
#include <stdint.h>

#define DEPTH 20
#define ROUNDS 10000 /* some 10 us: two samples are never of one way */

static volatile uint32_t sink;

static uint32_t right(uint32_t way, int depth);

static __attribute__((noinline, noclone)) uint32_t left(uint32_t way, int depth)
{
	uint32_t x = way;

	if (!depth) {
		for (int i = 0; i < ROUNDS; i++)
			x = x * 1103515245 + 12345;
		sink = x;
		return x;
	}
	x = way & 1 ? right(way >> 1, depth - 1) : left(way >> 1, depth - 1);
	sink = x;
	return x + 1;
}

static __attribute__((noinline, noclone)) uint32_t right(uint32_t way, int depth)
{
	uint32_t x = !depth    ? left(way, 0)
		     : way & 1 ? right(way >> 1, depth - 1)
			       : left(way >> 1, depth - 1);

	sink = x + 1;
	return x + 2;
}

int main(void)
{
	uint32_t way = 2463534242;

	for (;;) {
		way ^= way << 13;
		way ^= way >> 17;
		way ^= way << 5;
		left(way, DEPTH);
	}
}
