// SPDX-License-Identifier: Apache-2.0
#include "unwind/code_look.h"

#include <criterion/criterion.h>

TestSuite(code_look, .timeout = 120);

/* Jumps are found at any byte, also those that lie over one another. */
Test(code_look, jumps)
{
	static const uint8_t code[] = {
		0x90, 0xe9, 0x10, 0,	0,    0, /* jmp */
		0x0f, 0x8f, 0xf0, 0xff, 0xff, 0xff, /* jg */
		0x8f, 0x0f, 0xe9, 0x84, 0,    0,    0, 0, 0xe9, 0, 0, 0, /* no room for the last */
	};
	static const uint64_t places[] = { 1, 7, 14 };
	static const uint64_t targets[] = { 0x1000 + 6 + 0x10, 0x1000 + 12 - 0x10,
					    0x1000 + 19 + 0x84 };
	uint64_t to;
	size_t pos = 0, nr = 0;

	while (!code_jump_next(code, sizeof(code), 0x1000, &pos, &to)) {
		cr_assert_lt(nr, 3);
		cr_assert_eq(pos - 1, places[nr], "%zu", pos - 1);
		cr_assert_eq(to, targets[nr], "%#lx", to);
		nr++;
	}
	cr_assert_eq(nr, 3);
}
