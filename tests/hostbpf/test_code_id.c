// SPDX-License-Identifier: Apache-2.0
/* code_id_make(): never the same id twice, and enough of them. */
#include <criterion/criterion.h>
#include <linux/types.h>

#include "code_id.h"

static const struct code_id_case {
	__u64 nr;
	__u32 giver, bits;
	__u64 id;
} cases[] = {
	{ 0, 0, 0, BPFPROF_CODE_ID_RAW | 1 },
	{ 0, 1, 1, BPFPROF_CODE_ID_RAW | 3 },
	{ 1, 0, 1, BPFPROF_CODE_ID_RAW | 4 },
	{ 0, 4095, 12, BPFPROF_CODE_ID_RAW | 0x1fff },
	/* A day of 100,000 new ones a second, of the one of two givers. */
	{ 8640000000, 1, 1, BPFPROF_CODE_ID_RAW | 0x405f7e003 },
	{ (1ULL << 38) - 2, 1, 1, 2 * BPFPROF_CODE_ID_RAW - 1 },
	{ (1ULL << 38) - 1, 1, 1, BPFPROF_CODE_ID_RAW },
	{ (1ULL << 27) - 2, 0, 12, BPFPROF_CODE_ID_RAW | 0x7ffffff000 },
	{ (1ULL << 27) - 1, 0, 12, BPFPROF_CODE_ID_RAW },
	{ ~0ULL - 1, 0, 0, BPFPROF_CODE_ID_RAW },
};

Test(code_id, all)
{
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cr_expect_eq(code_id_make(cases[i].nr, cases[i].giver, cases[i].bits), cases[i].id,
			     "%zu", i);
}
