// SPDX-License-Identifier: Apache-2.0
#include "memory/live_page.h"

#include <criterion/criterion.h>
#include <string.h>

#include "base/strtab.h"
#include "base/time.h"
#include "memory/live_holders.h"
#include "tui/page.h"
#include "tui/width.h"

TestSuite(live_page, .timeout = 60);

#define MIB (1ULL << 20)

static struct live_holders live;

static void setup(void)
{
	width_init();
	cr_assert_eq(live_holders_init(&live, NULL), 0);
}

static void teardown(void)
{
	live_holders_fini(&live);
}

static struct live_holder *hold(const char *name, int64_t mib, int64_t before_mib)
{
	uint32_t id = strtab_add(live.names, name);
	struct live_holder *holder = &live.list[id];

	holder->name = id;
	holder->bytes = mib * (int64_t)MIB;
	holder->past[0] = before_mib * (int64_t)MIB;
	live.nr = id + 1 > live.nr ? id + 1 : live.nr;
	return holder;
}

/* So many MiB more than seconds ago. */
static void grow(int64_t mib, uint64_t seconds)
{
	live.past_ns[0] = 100 * NS_PER_SECOND;
	live.ns = live.past_ns[0] + seconds * NS_PER_SECOND;
	live.past_total[0] = 500 * MIB;
	live.total_bytes = (uint64_t)(500 + mib) * MIB;
	live.nr_past = 1;
}

static void expect(bool by_change, size_t columns, size_t rows, const char *text)
{
	struct buf got = { .max = 4096 };
	struct page page;
	size_t i;

	cr_assert_eq(live_page(&live, "pid 7, 'a\033[2Jb'", by_change, columns, rows, &page), 0);
	cr_expect_eq(page.nr, rows);
	for (i = 0; i < page.nr; i++)
		buf_printf(&got, "%s\n", page_text(&page, i));
	cr_expect_str_eq(got.data, text);
	buf_fini(&got);
	page_fini(&page);
}

/* One line of the page. */
static void expect_line(size_t line, const char *text)
{
	struct page page;

	cr_assert_eq(live_page(&live, "x", false, 80, 24, &page), 0);
	cr_expect_str_eq(page_text(&page, line), text);
	page_fini(&page);
}

Test(live_page, rows, .init = setup, .fini = teardown)
{
	grow(60, 60);
	live.nr_processes = 2;
	live.file_bytes = 3 * MIB / 2;
	live.nr_groups = 1;
	live.one_group = true;
	live.limit_bytes = 4096 * MIB;
	live.used_bytes = 1024 * MIB;
	hold("keep (leak.py:12)", 360, 260);
	hold("[before bpfprof]", 140, 220);
	hold("gone", 0, 30);
	hold("never", 0, 0);
	hold("big", 60, 60);
	expect(false, 60, 12,
	       "bpfprof memory: pid 7, 'a?[2Jb'\n"
	       "560.0 MiB anonymous, 1.5 MiB of files, 0 B shared; 2 proces\xe2\x80\xa6\n"
	       "Limit of the cgroup 4.00 GiB, used 1.00 GiB (25%)\n"
	       "Growth +60.0 MiB per minute, over 60 s\n"
	       "At this slope the limit is reached in 51 minutes.\n"
	       "     Held  Share      Change  Function\n"
	       "  360.0 MiB  64.3%  +100.0 MiB  keep (leak.py:12)\n"
	       "  140.0 MiB  25.0%   -80.0 MiB  [before bpfprof]\n"
	       "   60.0 MiB  10.7%       0 B    big\n"
	       "      0 B     0.0%   -30.0 MiB  gone\n"
	       "\n"
	       "q quits, g sorts by change\n");
	expect(true, 60, 9,
	       "bpfprof memory: pid 7, 'a?[2Jb'\n"
	       "560.0 MiB anonymous, 1.5 MiB of files, 0 B shared; 2 proces\xe2\x80\xa6\n"
	       "Limit of the cgroup 4.00 GiB, used 1.00 GiB (25%)\n"
	       "Growth +60.0 MiB per minute, over 60 s\n"
	       "At this slope the limit is reached in 51 minutes.\n"
	       "     Held  Share      Change  Function\n"
	       "  360.0 MiB  64.3%  +100.0 MiB  keep (leak.py:12)\n"
	       "  140.0 MiB  25.0%   -80.0 MiB  [before bpfprof]\n"
	       "q quits, h sorts by what is held\n");
	live.swap_bytes = 440 * MIB;
	expect_line(1, "560.0 MiB anonymous, 1.5 MiB of files, 0 B shared, 440.0 MiB in swap; 2 "
		       "process\xe2\x80\xa6");
	expect_line(4, "At this slope the limit is reached in 51 minutes.");
	expect_line(6, "  360.0 MiB  36.0%  +100.0 MiB  keep (leak.py:12)");
	live.swap_bytes = 0;
	expect(true, 20, 2, "bpfprof memory: pid\xe2\x80\xa6\n560.0 MiB anonymous\xe2\x80\xa6\n");
}

/* The sentence: only for one limit, and a slope that lasts. */
Test(live_page, slopes, .init = setup, .fini = teardown)
{
	expect_line(2, "No limit of a cgroup");
	expect_line(3, "Growth not known yet");
	grow(120, 60);
	expect_line(4, "");
	live.nr_groups = 1;
	live.one_group = true;
	live.limit_bytes = 1000 * MIB;
	live.used_bytes = 900 * MIB;
	expect_line(4, "At this slope the limit is reached in 50 s.");
	live.nr_groups = 2;
	live.one_group = false;
	expect_line(2, "Nearest limit of a cgroup 1000.0 MiB, used 900.0 MiB (90%)");
	expect_line(4, "");
	live.nr_groups = 1;
	live.one_group = true;
	live.limit_bytes = 50000 * MIB;
	expect_line(4, "At this slope the limit is reached in 7 hours.");
	grow(1, 60);
	expect_line(4, ""); /* in weeks */
	grow(-30, 30);
	expect_line(3, "Growth -60.0 MiB per minute, over 30 s");
	expect_line(4, "");
	grow(100, 9);
	expect_line(4, "");
}
