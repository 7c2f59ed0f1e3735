/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_PAGE_CACHE_H
#define BPFPROF_KERNEL_PAGE_CACHE_H

/*
 * The bytes of a file out of the kernel's page cache, found by the tree that its inode has of its
 * pages. Of a file on a disk some pages are there; of one in tmpfs or ramfs all are, but for those that
 * were swapped out. A page that was never filled is 0, as for read(2). The pages are proved again after
 * they were copied: a read gives what the file had or has, never what is another file's.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "kernel/direct_map.h"
#include "kernel/kernel_path.h"

struct kernel_view;

struct page_cache {
	const struct kernel_view *view; /* borrowed */
	struct direct_map direct_map; /* of no use for page_cache_page() */
	struct kernel_inode inode; /* as it was when the file was found */
};

/*
 * At most len bytes at off; what was never written is 0. Returns the number of bytes: fewer than len at
 * the end of the file, before a page that is swapped out, and behind 64 KiB. -ENODATA (the page at
 * off is swapped out), -ESTALE (the inode is another file's by now), -EIO (the file changed in each
 * try), -errno of reading.
 */
ssize_t page_cache_read(const struct page_cache *cache, void *dst, size_t len, uint64_t off);

/* The struct page of the nth page. 0, -ENOENT (never written), and as above. */
int page_cache_page(const struct page_cache *cache, uint64_t nth, uint64_t *ret);

#endif
