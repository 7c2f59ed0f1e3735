// SPDX-License-Identifier: Apache-2.0
#include "kernel/page_cache.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "made_kernel.h"

#define PAGE 4096
#define ROOM (64 * PAGE)

static struct made_kernel k;
static struct page_cache cache;
static uint64_t super, file;
static uint8_t data[ROOM];

static void file_make(uint64_t size)
{
	file = made_inode(&k, super, S_IFREG | 0600, size);
	cache.view = &k.view;
	cache.direct_map = made_direct_map();
	cr_assert_eq(kernel_inode_read(&k.view, file, &cache.inode), 0);
	memset(data, 0xee, sizeof(data));
}

static void setup(void)
{
	made_kernel_init(&k, true);
	super = made_super(&k, MADE_TMPFS);
	file_make(ROOM);
}

static void teardown(void)
{
	made_kernel_fini(&k);
}

TestSuite(page_cache, .init = setup, .fini = teardown, .timeout = 60);

static uint64_t page(uint64_t index, uint8_t fill)
{
	return made_folio(&k, file, index, 1, fill);
}

static void expect(uint64_t off, size_t len, int value)
{
	size_t i;

	for (i = 0; i < len && data[off + i] == value; i++)
		;
	cr_expect_eq(i, len, "at %lu is %d, not %d", off + i, data[off + i], value);
}

/* The first page alone is the head itself. */
Test(page_cache, no_node)
{
	made_tree(&k, file, page(0, 7));
	cr_assert_eq(page_cache_read(&cache, data, 3 * PAGE, 0), 3 * PAGE);
	expect(0, PAGE, 7);
	expect(PAGE, 2 * PAGE, 0);
	made_tree(&k, file, 0);
	cr_assert_eq(page_cache_read(&cache, data, PAGE, 0), PAGE);
	expect(0, PAGE, 0);
}

Test(page_cache, one_level)
{
	uint64_t node = made_node(&k, 0);

	made_slot(&k, node, 0, page(0, 1));
	made_slot(&k, node, 1, page(1, 2));
	made_slot(&k, node, 63, page(63, 3));
	made_tree(&k, file, MADE_NODE(node));
	cr_assert_eq(page_cache_read(&cache, data, 2 * PAGE, 100), 2 * PAGE);
	expect(0, PAGE - 100, 1);
	expect(PAGE - 100, PAGE, 2);
	expect(2 * PAGE - 100, 100, 0);
	expect(2 * PAGE, 100, 0xee);
	cr_assert_eq(page_cache_read(&cache, data, PAGE, 63 * PAGE), PAGE);
	expect(0, PAGE, 3);
	/* In one go no more than there are pieces. */
	cr_expect_eq(page_cache_read(&cache, data, ROOM, 5), BPFPROF_KERNEL_PIECES * PAGE - 5);
}

Test(page_cache, end_of_file)
{
	uint64_t node = made_node(&k, 0);

	file_make(PAGE + 10);
	made_slot(&k, node, 0, page(0, 1));
	made_slot(&k, node, 1, page(1, 2));
	made_tree(&k, file, MADE_NODE(node));
	cr_expect_eq(page_cache_read(&cache, data, ROOM, PAGE - 5), 15);
	expect(0, 5, 1);
	expect(5, 10, 2);
	expect(15, 100, 0xee);
	cr_expect_eq(page_cache_read(&cache, data, ROOM, PAGE + 10), 0);
	cr_expect_eq(page_cache_read(&cache, data, 0, 0), 0);
	cr_expect_eq(page_cache_read(&cache, data, ROOM, UINT64_MAX), 0);
	/* It has grown, or was cut, since it was found. */
	made_put(&k, file + k.view.layout.inode_size, 2 * PAGE);
	cr_expect_eq(page_cache_read(&cache, data, ROOM, PAGE), PAGE);
	made_put(&k, file + k.view.layout.inode_size, 3);
	cr_expect_eq(page_cache_read(&cache, data, ROOM, 0), 3);
}

Test(page_cache, two_levels)
{
	uint64_t top = made_node(&k, 6), first = made_node(&k, 0), fourth = made_node(&k, 0);

	file_make(UINT64_C(1) << 30);
	made_slot(&k, top, 0, MADE_NODE(first));
	made_slot(&k, top, 4, MADE_NODE(fourth));
	made_slot(&k, first, 63, page(63, 5));
	made_slot(&k, fourth, 1, page(4 * 64 + 1, 6));
	made_tree(&k, file, MADE_NODE(top));
	cr_assert_eq(page_cache_read(&cache, data, 2 * PAGE, 63 * PAGE), 2 * PAGE);
	expect(0, PAGE, 5);
	expect(PAGE, PAGE, 0);
	cr_assert_eq(page_cache_read(&cache, data, PAGE, (4 * 64 + 1) * PAGE), PAGE);
	expect(0, PAGE, 6);
	/* Behind all that the tree has, where the lower bits alone would lead to a page. */
	cr_assert_eq(page_cache_read(&cache, data, PAGE, (64 * 64 + 63) * PAGE), PAGE);
	expect(0, PAGE, 0);
}

/* A folio of several pages: with siblings, in all slots, and in a slot further up. */
Test(page_cache, large_folios)
{
	uint64_t top = made_node(&k, 6), node = made_node(&k, 0), four, two, many;
	unsigned int i;

	file_make(ROOM * 64);
	four = made_folio(&k, file, 4, 4, 10);
	two = made_folio(&k, file, 8, 2, 20);
	many = made_folio(&k, file, 128, 128, 100);
	made_slot(&k, node, 4, four);
	for (i = 5; i < 8; i++)
		made_slot(&k, node, i, MADE_SIBLING(4));
	made_slot(&k, node, 8, two);
	made_slot(&k, node, 9, two);
	made_slot(&k, top, 0, MADE_NODE(node));
	made_slot(&k, top, 2, many);
	made_slot(&k, top, 3, MADE_SIBLING(2));
	made_tree(&k, file, MADE_NODE(top));
	cr_assert_eq(page_cache_read(&cache, data, 10 * PAGE, 0), 10 * PAGE);
	expect(0, 4 * PAGE, 0);
	for (i = 0; i < 4; i++)
		expect((4 + i) * PAGE, PAGE, 10 + (int)i);
	expect(8 * PAGE, PAGE, 20);
	expect(9 * PAGE, PAGE, 21);
	cr_assert_eq(page_cache_read(&cache, data, 2 * PAGE, (128 + 63) * PAGE), 2 * PAGE);
	expect(0, PAGE, 163);
	expect(PAGE, PAGE, 164);
}

Test(page_cache, swapped_out)
{
	uint64_t node = made_node(&k, 0), nth;

	made_slot(&k, node, 0, page(0, 1));
	made_slot(&k, node, 1, MADE_SWAPPED);
	made_slot(&k, node, 2, page(2, 3));
	made_tree(&k, file, MADE_NODE(node));
	cr_expect_eq(page_cache_read(&cache, data, 3 * PAGE, 10), PAGE - 10, "up to it");
	expect(0, PAGE - 10, 1);
	cr_expect_eq(page_cache_read(&cache, data, PAGE, PAGE), -ENODATA);
	cr_expect_eq(page_cache_read(&cache, data, 5, 2 * PAGE - 5), -ENODATA);
	cr_expect_eq(page_cache_read(&cache, data, PAGE, 2 * PAGE), PAGE);
	expect(0, PAGE, 3);
	cr_expect_eq(page_cache_page(&cache, 1, &nth), -ENODATA);
	cr_expect_eq(page_cache_page(&cache, 3, &nth), -ENOENT);
	cr_expect_eq(page_cache_page(&cache, 2, &nth), 0);
}

/* Pages of another file, or of no tree, are never read as pages of this file. */
Test(page_cache, stale)
{
	uint64_t other = made_inode(&k, super, S_IFREG, PAGE), node = made_node(&k, 0);
	uint64_t deeper = made_node(&k, 0), theirs = made_folio(&k, other, 1, 1, 9);
	static const uint64_t entries[] = { 1026, MADE_SIBLING(2), 0x7ff2, 0x7ff0, 254 + 4 };
	size_t i;

	made_slot(&k, node, 0, page(0, 1));
	made_tree(&k, file, MADE_NODE(node));
	made_slot(&k, node, 1, theirs);
	cr_expect_eq(page_cache_read(&cache, data, PAGE, PAGE), -EIO, "another file's");
	made_slot(&k, node, 1, page(2, 1));
	cr_expect_eq(page_cache_read(&cache, data, PAGE, PAGE), -EIO, "begins behind");
	made_slot(&k, node, 1, page(0, 1));
	cr_expect_eq(page_cache_read(&cache, data, PAGE, PAGE), -EIO, "not the one that is there");
	made_slot(&k, node, 1, MADE_NODE(deeper));
	cr_expect_eq(page_cache_read(&cache, data, PAGE, PAGE), -EIO, "no lower level");
	made_slot(&k, node, 2, MADE_NODE(deeper));
	for (i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		made_slot(&k, node, 1, entries[i]);
		cr_expect_lt(page_cache_read(&cache, data, PAGE, PAGE), 0, "%zu", i);
	}
	made_slot(&k, node, 1, 1030);
	cr_expect_eq(page_cache_read(&cache, data, PAGE, PAGE), PAGE, "kept free");
	cr_expect_lt(k.nr_reads, 2000);
	k.view.layout.node_nr_slots = 128;
	cr_expect_eq(page_cache_read(&cache, data, PAGE, 0), -EOPNOTSUPP);
}

/* A page that fallocate() took holds what its last owner left in it. */
Test(page_cache, never_filled)
{
	uint64_t node = made_node(&k, 0), folio = page(1, 0x55);

	made_put(&k, folio + k.view.layout.folio_flags,
		 ~(UINT64_C(1) << k.view.layout.folio_uptodate));
	made_tree(&k, file, MADE_NODE(node));
	made_slot(&k, node, 0, page(0, 7));
	made_slot(&k, node, 1, folio);
	cr_assert_eq(page_cache_read(&cache, data, 2 * PAGE, 0), 2 * PAGE);
	expect(0, PAGE, 7);
	expect(PAGE, PAGE, 0);
}

Test(page_cache, another_inode)
{
	made_tree(&k, file, page(0, 7));
	made_put(&k, file + k.view.layout.inode_ino, 12);
	cr_expect_eq(page_cache_read(&cache, data, PAGE, 0), -ESTALE);
	made_put(&k, file + k.view.layout.inode_ino, cache.inode.ino);
	cr_expect_eq(page_cache_read(&cache, data, PAGE, 0), PAGE);
	made_put(&k, cache.inode.mapping + k.view.layout.mapping_host, 0);
	cr_expect_eq(page_cache_read(&cache, data, PAGE, 0), -ESTALE);
}

static uint64_t theirs, slot_va;

/* The page is given to another file; a new page replaces it. */
static void page_is_given_away(struct made_kernel *kernel)
{
	uint64_t folio = made_get(kernel, slot_va);
	uint64_t va = MADE_DIRECT + (folio - MADE_PAGES) / MADE_PAGE_BYTES * PAGE;

	made_put(kernel, folio + kernel->view.layout.folio_mapping, theirs);
	memset(made_at(kernel, va, PAGE), 0x55, PAGE);
	made_put(kernel, slot_va, page(1, 8));
}

/* At any moment of that, the read returns bytes of this file: the old or the new ones. */
Test(page_cache, page_given_away)
{
	uint64_t node = made_node(&k, 0), at, last;

	theirs = made_get(&k, made_inode(&k, super, S_IFREG, PAGE) + k.view.layout.inode_mapping);
	slot_va = node + k.view.layout.node_slots + 8;
	made_tree(&k, file, MADE_NODE(node));
	made_slot(&k, node, 1, page(1, 4));
	cr_assert_eq(page_cache_read(&cache, data, PAGE, PAGE), PAGE);
	last = k.nr_reads;
	k.change = page_is_given_away;
	for (at = 1; at <= last; at++) {
		made_put(&k, slot_va, page(1, 4));
		k.nr_reads = 0;
		k.change_at = at;
		cr_assert_eq(page_cache_read(&cache, data, PAGE, PAGE), PAGE, "%lu of %lu", at,
			     last);
		expect(0, PAGE, data[0] == 4 ? 4 : 8);
	}
}
