/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_PAGE_CACHE_H
#define BPFPROF_KERNEL_PAGE_CACHE_H

/*
 * Reads a file from the kernel's page cache, by the tree of pages in its inode. Of a file on disk
 * some pages are there; of a file in tmpfs or ramfs all are, except swapped ones. A page that was
 * never filled reads as 0, as with read(2). Pages are checked again after the copy: a read returns
 * only bytes of this file, never of another one.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "kernel/direct_map.h"
#include "kernel/kernel_path.h"

struct kernel_view;

struct page_cache {
	const struct kernel_view *view; /* borrowed */
	struct direct_map direct_map; /* unused by page_cache_page() */
	struct kernel_inode inode; /* as of when the file was found */
};

/*
 * At most len bytes at off; holes read as 0. Returns the number of bytes: fewer than len at the end
 * of the file, before a swapped page, and after 64 KiB. -ENODATA (the page at off is swapped out),
 * -ESTALE (the inode belongs to another file), -EIO (the file changed in each try), -errno of
 * reading.
 */
ssize_t page_cache_read(const struct page_cache *cache, void *dst, size_t len, uint64_t off);

/* The struct page of the nth page. 0, -ENOENT (a hole), and as above. */
int page_cache_page(const struct page_cache *cache, uint64_t nth, uint64_t *ret);

#endif
