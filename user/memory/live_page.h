/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_MEMORY_LIVE_PAGE_H
#define BPFPROF_MEMORY_LIVE_PAGE_H

/* The live screen of memory: resident memory, its limit and its growth, and the functions that hold it. */

#include <stdbool.h>
#include <stddef.h>

struct live_holders;
struct page;

/*
 * Makes the page for a screen of that size. what: the watched processes, for the first line. by_change: the
 * functions that grew or shrank most come first, else those that hold most. 0, then page_fini() is due, or -ENOMEM.
 */
int live_page(const struct live_holders *live, const char *what, bool by_change, size_t columns,
	      size_t rows, struct page *ret);

#endif
