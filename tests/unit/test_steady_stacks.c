// SPDX-License-Identifier: Apache-2.0
#include "memory/steady_stacks.h"

#include <criterion/criterion.h>

#include "memory/answer.h"

TestSuite(steady_stacks, .timeout = 60);

static struct steady_stacks stacks;

/* A look that finds so many bytes by stack 1. */
static void look(uint64_t bytes, uint64_t sample_bytes)
{
	struct held_row row = { .at = { .stack = 1 }, .bytes = bytes };
	const struct memory_answer answer = { .rows = &row, .nr_rows = bytes ? 1 : 0 };

	steady_stacks_look(&stacks, &answer, sample_bytes);
}

static bool is_steady(void)
{
	const struct held_row row = { .at = { .stack = 1 } };

	return steady_stacks_has(&stacks, &row);
}

/* A tenth less is steady, more is not, and stays so; another estimate is no fall. */
Test(steady_stacks, falls)
{
	steady_stacks_init(&stacks);
	cr_expect(!is_steady());
	look(1000, 1);
	look(900, 1);
	cr_expect(is_steady());
	look(400, 2); /* other bytes per sample */
	cr_expect(is_steady());
	look(359, 2);
	cr_expect(!is_steady());
	look(5000, 2);
	cr_expect(!is_steady());
	steady_stacks_fini(&stacks);
	steady_stacks_init(&stacks);
	look(1000, 1);
	look(0, 1); /* all is freed */
	look(1000, 1);
	cr_expect(!is_steady());
	steady_stacks_fini(&stacks);
}
