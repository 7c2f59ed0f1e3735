// SPDX-License-Identifier: Apache-2.0
#include "kernel/direct_map.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "made_kernel.h"

#define PHYSICAL ((UINT64_C(5) << 30) + (2 << 20))
#define NR 3

static struct made_kernel k;
static struct direct_map_proof proofs[NR];
static uint64_t near;

static void setup(void)
{
	static const uint64_t pfns[NR] = { 300, (MADE_HIGH >> 12) + 400, 500 };
	size_t i;

	made_kernel_init(&k, true);
	near = made_kernel_alloc(&k, 64);
	for (i = 0; i < NR; i++) {
		proofs[i].page = MADE_PAGES + pfns[i] * MADE_PAGE_BYTES;
		memset(proofs[i].nonce, 'a' + (int)i, DIRECT_MAP_NONCE);
		memcpy(made_at(&k, MADE_DIRECT + pfns[i] * 4096, DIRECT_MAP_NONCE), proofs[i].nonce,
		       DIRECT_MAP_NONCE);
	}
}

static void teardown(void)
{
	made_kernel_fini(&k);
}

TestSuite(direct_map, .init = setup, .fini = teardown, .timeout = 30);

Test(direct_map, find)
{
	struct direct_map map = { 0 }, right = made_direct_map();

	cr_assert_eq(direct_map_find(&map, &k.view, near, PHYSICAL, proofs, NR), 0);
	cr_expect_eq(map.base, right.base);
	cr_expect_eq(map.scale, right.scale);
	cr_expect_eq(direct_map_va(&map, proofs[1].page), MADE_DIRECT + MADE_HIGH + 400 * 4096);
	/* The other piece is further away than all of memory. */
	cr_expect_eq(direct_map_find(&map, &k.view, near, UINT64_C(2) << 30, proofs, 1), -ENOENT);
}

Test(direct_map, contradiction)
{
	struct direct_map map = { 0 };

	proofs[2].nonce[3] ^= 1;
	cr_expect_eq(direct_map_find(&map, &k.view, near, PHYSICAL, proofs, NR), -EILSEQ);
	proofs[2].page = MADE_PAGES + (UINT64_C(1) << 40);
	cr_expect_eq(direct_map_find(&map, &k.view, near, PHYSICAL, proofs, NR), -EILSEQ);
	cr_expect_eq(map.scale, 0);
}

/* Below the first MiB lies what reads may disturb: it is not looked at. */
Test(direct_map, first_mib)
{
	struct direct_map map = { 0 };
	struct direct_map_proof two[2];

	two[0].page = MADE_PAGES + 100 * MADE_PAGE_BYTES;
	memset(two[0].nonce, 'x', DIRECT_MAP_NONCE);
	memcpy(made_at(&k, MADE_DIRECT + 100 * 4096, DIRECT_MAP_NONCE), two[0].nonce,
	       DIRECT_MAP_NONCE);
	two[1] = proofs[0];
	cr_expect_eq(direct_map_find(&map, &k.view, near, PHYSICAL, two, 1), -ENOENT);
	cr_expect_eq(k.nr_reads, 0);
	cr_expect_eq(direct_map_find(&map, &k.view, near, PHYSICAL, two, 2), 0);
}

Test(direct_map, not_understood)
{
	struct direct_map map;

	k.view.layout.page_bytes = 56;
	cr_expect_eq(direct_map_find(&map, &k.view, near, PHYSICAL, proofs, NR), -EOPNOTSUPP);
	k.view.layout.page_bytes = 0;
	cr_expect_eq(direct_map_find(&map, &k.view, near, PHYSICAL, proofs, NR), -EOPNOTSUPP);
	k.view.layout.page_bytes = 128;
	cr_expect_eq(direct_map_find(&map, &k.view, near, PHYSICAL, proofs, NR), -ENOENT);
	k.view.layout.page_bytes = 64;
	cr_expect_eq(direct_map_find(&map, &k.view, near, 0, proofs, NR), -EOPNOTSUPP);
	cr_expect_eq(direct_map_find(&map, &k.view, near, PHYSICAL, proofs, 0), -ENOENT);
}

#define WRITTEN "/tmp/bpfprof-direct-map-XXXXXX"

/* Into path, which is WRITTEN. */
static const char *written(char *path, const char *text)
{
	int fd = mkstemp(path);

	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	return path;
}

static uint64_t physical_of(const char *text)
{
	char path[] = WRITTEN;
	uint64_t bytes = direct_map_physical_bytes(written(path, text));

	unlink(path);
	return bytes;
}

static bool all_accepted(const char *text)
{
	char path[] = WRITTEN;
	bool all = direct_map_all_accepted(written(path, text));

	unlink(path);
	return all;
}

Test(direct_map, unaccepted_memory)
{
	cr_expect(all_accepted("MemTotal: 9 kB\nMemFree: 8 kB\n"));
	cr_expect(all_accepted("MemTotal: 9 kB\nUnaccepted:        0 kB\n"));
	cr_expect(!all_accepted("MemTotal: 9 kB\nUnaccepted:  4194304 kB\n"));
	cr_expect(!direct_map_all_accepted("/nonexistent"));
	cr_expect(direct_map_all_accepted("/proc/meminfo"));
}

Test(direct_map, physical_bytes)
{
	cr_expect_eq(
		physical_of(
			"Node 0, zone      DMA\n        spanned  4095\n  start_pfn:           1\n"
			"Node 0, zone   Normal\n        spanned  1000\n        present 9\n"
			"  start_pfn:           4096\nNode 0, zone  Movable\n"
			"        spanned  0\n  start_pfn:           9999\n"),
		UINT64_C(5096) * 4096);
	cr_expect_eq(physical_of("nothing\n"), 0);
	cr_expect_eq(direct_map_physical_bytes("/nonexistent"), 0);
	cr_expect_gt(direct_map_physical_bytes("/proc/zoneinfo"), UINT64_C(1) << 26);
}
