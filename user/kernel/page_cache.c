// SPDX-License-Identifier: Apache-2.0
/*
 * The tree (struct xarray, Documentation/core-api/xarray.rst and include/linux/xarray.h of the
 * kernel): its head, and each slot of a node, is
 *   0               nothing
 *   ...1            a value: the page is swapped out
 *   ...10 > 4096    a node, at this address minus 2; its shift is the number of bits of a page number
 *                   below it
 *   ...10           in a slot, and at most SIBLING_MAX: see the slot with the number in the upper bits;
 *                   otherwise an entry that is changing
 *   ...00           a folio: consecutive pages, from a multiple of their count on
 * A folio of several pages stands in each of their slots, or in the first one and its siblings, or in
 * a slot of a higher node.
 */
#include "kernel/page_cache.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "kernel/kernel_view.h"

#define MIN_SLOTS 16
#define MAX_SLOTS 64
#define FOLIO_BYTES 48 /* bytes read of one folio */
#define MAX_LEVELS 11 /* levels of 6 bits each */
#define MAX_TRIES 8
#define MAX_PAGES BPFPROF_KERNEL_PIECES /* per call */
#define MAX_FOLIO_PAGES (1U << 18) /* 1 GiB */
#define NODE_MIN 4096
#define ENTRY_RETRY 1026
#define ENTRY_ZERO 1030 /* marks a reserved page */

/* The last node read; the next page is probably in it, too. */
struct tree_node {
	uint64_t va; /* 0: none */
	uint64_t slots[MAX_SLOTS];
	uint32_t shift;
};

struct tree {
	const struct kernel_view *view;
	uint64_t head;
	struct tree_node nodes[MAX_LEVELS];
};

/* The state of a page. */
struct found {
	uint64_t entry; /* its entry in the tree */
	uint64_t page; /* struct page; 0: none */
};

static bool entry_is_node(uint64_t entry)
{
	return (entry & 3) == 2 && entry > NODE_MIN;
}

static int node_read(struct tree *tree, uint32_t level, uint64_t va)
{
	const struct bpfprof_kernel_layout *at = &tree->view->layout;
	struct tree_node *node = &tree->nodes[level];
	uint8_t shift = 0;
	struct kernel_piece pieces[] = {
		{ va + at->node_shift, &shift, sizeof(shift), 0 },
		{ va + at->node_slots, node->slots, at->node_nr_slots * 8, 0 },
	};
	int err;

	if (node->va == va)
		return 0;
	node->va = 0;
	err = kernel_view_read(tree->view, pieces, sizeof(pieces) / sizeof(pieces[0]));
	if (err)
		return err;
	node->va = va;
	node->shift = shift;
	return 0;
}

/* Finds the entry of page nth. 0, -EAGAIN or -errno. */
static int tree_find(struct tree *tree, uint64_t nth, uint64_t *ret)
{
	uint64_t nr_slots = tree->view->layout.node_nr_slots, entry = tree->head, slot;
	uint32_t level, shift = 64;
	const struct tree_node *node;
	int err;

	for (level = 0; entry_is_node(entry); level++) {
		if (level == MAX_LEVELS)
			return -EAGAIN;
		err = node_read(tree, level, entry - 2);
		if (err)
			return err;
		node = &tree->nodes[level];
		if (node->shift >= shift) /* deeper nodes must be smaller */
			return -EAGAIN;
		shift = node->shift;
		slot = nth >> shift;
		if (!level && slot >= nr_slots) /* past the end of the tree */
			entry = 0;
		else
			entry = node->slots[slot % nr_slots];
		if ((entry & 3) == 2 && entry < nr_slots * 4)
			entry = node->slots[entry >> 2];
	}
	if (!level && nth) /* a single entry can only be page 0 */
		entry = 0;
	if ((entry & 3) == 2 && entry != ENTRY_ZERO)
		return -EAGAIN;
	*ret = entry == ENTRY_ZERO ? 0 : entry;
	return 0;
}

struct folio {
	uint64_t flags, mapping, index;
};

static uint32_t min3(uint32_t a, uint32_t b, uint32_t c)
{
	uint32_t low = a < b ? a : b;

	return c < low ? c : low;
}

/* Reads the folios of all entries in one pass; two pieces per folio would need two passes. */
static int folios_read(struct tree *tree, const struct found *found, size_t nr,
		       struct folio *folios)
{
	const struct bpfprof_kernel_layout *at = &tree->view->layout;
	uint32_t low = min3(at->folio_flags, at->folio_mapping, at->folio_index);
	struct kernel_piece pieces[MAX_PAGES];
	uint8_t text[MAX_PAGES][FOLIO_BYTES];
	const size_t last = FOLIO_BYTES - sizeof(uint64_t);
	size_t i, nr_pieces = 0;
	int err;

	if (at->folio_flags - low > last || at->folio_mapping - low > last ||
	    at->folio_index - low > last)
		return -EOPNOTSUPP;
	for (i = 0; i < nr; i++)
		if (found[i].entry && !(found[i].entry & 3))
			pieces[nr_pieces++] = (struct kernel_piece){ .va = found[i].entry + low,
								     .dst = text[i],
								     .len = FOLIO_BYTES };
	err = nr_pieces ? kernel_view_read(tree->view, pieces, nr_pieces) : 0;
	for (i = 0; i < nr && !err; i++) {
		memcpy(&folios[i].flags, text[i] + (at->folio_flags - low), sizeof(uint64_t));
		memcpy(&folios[i].mapping, text[i] + (at->folio_mapping - low), sizeof(uint64_t));
		memcpy(&folios[i].index, text[i] + (at->folio_index - low), sizeof(uint64_t));
	}
	return err;
}

/* Does the folio belong to this file, and does it have this page? 0, -EAGAIN or -errno. */
static int page_of(struct tree *tree, const struct page_cache *cache, const struct folio *folio,
		   uint64_t nth, struct found *found)
{
	uint64_t first;
	int err;

	if (folio->mapping != cache->inode.mapping || folio->index > nth ||
	    nth - folio->index >= MAX_FOLIO_PAGES)
		return -EAGAIN;
	if (folio->index != nth) { /* a folio has consecutive pages from its first one on */
		err = tree_find(tree, folio->index, &first);
		if (err)
			return err;
		if (first != found->entry)
			return -EAGAIN;
	}
	/*
	 * A page that is not up to date (as after fallocate()) still has old bytes of another
	 * owner. read(2) would return 0.
	 */
	if (folio->flags >> (tree->view->layout.folio_uptodate & 63) & 1)
		found->page = found->entry + (nth - folio->index) * tree->view->layout.page_bytes;
	return 0;
}

static int pages_find(const struct page_cache *cache, uint64_t first, size_t nr,
		      struct found *found)
{
	const struct bpfprof_kernel_layout *at = &cache->view->layout;
	struct tree tree = { .view = cache->view };
	struct folio folios[MAX_PAGES] = { 0 };
	size_t i;
	int err;

	if (at->node_nr_slots < MIN_SLOTS || at->node_nr_slots > MAX_SLOTS)
		return -EOPNOTSUPP;
	err = kernel_view_pointer(cache->view, cache->inode.mapping + at->mapping_head, &tree.head);
	for (i = 0; i < nr && !err; i++)
		err = tree_find(&tree, first + i, &found[i].entry);
	if (!err)
		err = folios_read(&tree, found, nr, folios);
	for (i = 0; i < nr && !err; i++) {
		found[i].page = 0;
		if (found[i].entry && !(found[i].entry & 3))
			err = page_of(&tree, cache, &folios[i], first + i, &found[i]);
	}
	return err;
}

/* Reads the inode again: does it still belong to the file? */
static int inode_check(const struct page_cache *cache, struct kernel_inode *ret)
{
	const struct kernel_inode *was = &cache->inode;
	int err = kernel_inode_read(cache->view, was->va, ret);

	if (err)
		return err == -EAGAIN ? -ESTALE : err;
	return ret->sb == was->sb && ret->mapping == was->mapping && ret->ino == was->ino &&
			       ret->generation == was->generation && ret->mode == was->mode &&
			       ret->uid == was->uid
		       ? 0
		       : -ESTALE;
}

/* Tries once to copy whole pages from `first` on to dst, without the first skip bytes. */
static int pages_copy(const struct page_cache *cache, uint64_t first, size_t nr, size_t skip,
		      uint8_t *dst, size_t len, size_t *ret_nr)
{
	struct found before[MAX_PAGES] = { 0 }, after[MAX_PAGES] = { 0 };
	struct kernel_piece pieces[MAX_PAGES];
	size_t page_bytes = BPFPROF_KERNEL_BYTES, i, nr_pieces = 0, at, from, n;
	int err = pages_find(cache, first, nr, before);

	if (err)
		return err;
	for (i = 0, at = 0; i < nr && !(before[i].entry & 1); i++, at += n) {
		from = i ? 0 : skip;
		n = page_bytes - from < len - at ? page_bytes - from : len - at;
		if (before[i].page)
			pieces[nr_pieces++] = (struct kernel_piece){
				.va = direct_map_va(&cache->direct_map, before[i].page) + from,
				.dst = dst + at,
				.len = (uint32_t)n,
			};
		else
			memset(dst + at, 0, n);
	}
	*ret_nr = i;
	err = kernel_view_read(cache->view, pieces, nr_pieces);
	if (!err)
		err = pages_find(cache, first, nr, after);
	return err ? err : memcmp(before, after, nr * sizeof(before[0])) ? -EAGAIN : 0;
}

ssize_t page_cache_read(const struct page_cache *cache, void *dst, size_t len, uint64_t off)
{
	size_t page_bytes = BPFPROF_KERNEL_BYTES, skip = off % page_bytes, nr, whole = 0;
	struct kernel_inode now;
	int err = -EAGAIN, i;

	err = inode_check(cache, &now);
	if (err)
		return err;
	if (off >= now.size)
		return 0;
	len = len < now.size - off ? len : now.size - off;
	len = len < MAX_PAGES * page_bytes - skip ? len : MAX_PAGES * page_bytes - skip;
	nr = (skip + len + page_bytes - 1) / page_bytes;
	err = -EAGAIN;
	for (i = 0; i < MAX_TRIES && (err == -EAGAIN || err == -EFAULT); i++)
		err = len ? pages_copy(cache, off / page_bytes, nr, skip, dst, len, &whole) : 0;
	if (!err)
		err = inode_check(cache, &now);
	if (err)
		return err == -EAGAIN || err == -EFAULT ? -EIO : err;
	if (len && !whole)
		return -ENODATA;
	return whole < nr ? (ssize_t)(whole * page_bytes - skip) : (ssize_t)len;
}

int page_cache_page(const struct page_cache *cache, uint64_t nth, uint64_t *ret)
{
	struct found found = { 0 };
	int err = pages_find(cache, nth, 1, &found);

	if (err)
		return err;
	if (found.entry & 1)
		return -ENODATA;
	if (!found.page)
		return -ENOENT;
	*ret = found.page;
	return 0;
}
