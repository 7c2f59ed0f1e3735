// SPDX-License-Identifier: Apache-2.0
/* Steps by the complete rules of a file, which get a share of the time only. */
#include "kernel/walk_rows.h"

#include <criterion/criterion.h>
#include <string.h>

#include "base/deadline.h"
#include "base/time.h"
#include "elf/image.h"
#include "kernel/walk.h"
#include "proc/images.h"
#include "unwind/cfi.h"
#include "unwind/reader.h"
#include "made_go.h"
#include "test_elf_fixture.h"
#include "unwind_native.h"

static int read_word(struct unwind_reader *reader, __u64 va, void *dst, __u32 len)
{
	(void)reader;
	memset(dst, 0, len);
	memcpy(dst, &va, len < 8 ? len : 8);
	return 0;
}

Test(walk_rows, rules_have_a_budget)
{
	struct unwind_reader reader = { .read = read_word };
	struct unwind_state state = { .valid = UNWIND_ALL_REGS, .exact = 1 }, before;
	struct deadline_runner *runner;
	struct image image = { .state = IMAGE_OPEN };
	struct walker walker = { 0 };
	uint64_t off, now_ns = time_monotonic_ns(), spent_ns;

	made_go("go", 20, "");
	image.elf = made_go_open("go");
	cr_assert_eq(cfi_new(&image.cfi, image.elf), 0);
	cr_assert_eq(deadline_runner_new(&runner), 0);
	cr_assert_eq(images_new(&walker.images, runner, NULL, 4), 0);
	off = 0x1000 - made_go_label("go", "_start") + made_go_label("go", "pushes_2");
	state.regs[UNWIND_RSP] = 0x7000;

	cr_assert_eq(rules_step(&walker, &image, off, &state, &reader, now_ns), 0);
	cr_assert_eq(state.regs[UNWIND_RSP], 0x7000 + 48);
	cr_assert_gt(walker.stepping.loop.spent_ns, 0);
	/* A file whose steps took so long that nothing is left, of a minute. */
	budget_spend(&walker.stepping.loop, 60 * NS_PER_SECOND);
	spent_ns = walker.stepping.loop.spent_ns;
	before = state;
	cr_assert_not(rules_allowed(&walker));
	cr_assert_eq(rules_step(&walker, &image, off, &state, &reader, now_ns),
		     BPFPROF_STOP_MISS_RATE);
	cr_assert_eq(memcmp(&state, &before, sizeof(state)), 0);
	cr_assert_leq(walker.stepping.loop.spent_ns, spent_ns);
	/* It is earned again. */
	walker.stepping.loop.earned_ns -= 240 * NS_PER_SECOND;
	cr_assert_eq(rules_step(&walker, &image, off, &state, &reader, now_ns), 0);

	images_free(walker.images);
	deadline_runner_free(runner);
	cfi_free(image.cfi);
	elf_image_free(image.elf);
}
