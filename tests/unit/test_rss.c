// SPDX-License-Identifier: Apache-2.0
#include "proc/rss.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(rss, .timeout = 60);

Test(rss, parse)
{
	const char text[] = "Name:\tRssAnon: 7\nVmRSS:\t  205196 kB\nRssAnon:\t  205120 kB\n"
			    "RssFile:\t      76 kB\nRssShmem:\t      12 kB\nVmData: 1 kB\n";
	struct proc_rss rss;

	cr_assert_eq(proc_rss_parse(&rss, text), 0);
	cr_expect_eq(rss.anon_bytes, 205120ULL << 10);
	cr_expect_eq(rss.file_bytes, 76 << 10);
	cr_expect_eq(rss.shared_bytes, 12 << 10);
	cr_expect_eq(rss.swap_bytes, 0);
	cr_assert_eq(
		proc_rss_parse(&rss,
			       "\nRssAnon: 1 kB\nRssFile: 1 kB\nRssShmem: 1 kB\nVmSwap:\t 40 kB\n"),
		0);
	cr_expect_eq(rss.swap_bytes, 40 << 10);
}

/* Zombies and kernel threads have no such lines. */
Test(rss, without_memory)
{
	struct proc_rss rss = { .anon_bytes = 1 };

	cr_expect_eq(proc_rss_parse(&rss, ""), -ESRCH);
	cr_expect_eq(proc_rss_parse(&rss, "Name:\tkthreadd\nThreads:\t1\n"), -ESRCH);
	cr_expect_eq(proc_rss_parse(&rss, "\nRssAnon:\t1 kB\nRssFile:\nRssShmem:\t1 kB\n"), -ESRCH);
	cr_expect_eq(rss.anon_bytes, 1);
	cr_expect_eq(proc_rss_read(&rss, 0x7fffffff), -ESRCH);
}

Test(rss, read_own)
{
	struct proc_rss before, after;
	char *memory;

	cr_assert_eq(proc_rss_read(&before, getpid()), 0);
	memory = malloc(32 << 20);
	cr_assert(memory);
	memset(memory, 1, 32 << 20);
	cr_assert_eq(proc_rss_read(&after, getpid()), 0);
	cr_expect_geq(after.anon_bytes, before.anon_bytes + (31 << 20));
	free(memory);
}
