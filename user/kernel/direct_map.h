/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_DIRECT_MAP_H
#define BPFPROF_KERNEL_DIRECT_MAP_H

/*
 * The address of a page's bytes, from the address of its struct page. Both lie in arrays over all
 * physical memory (the direct map and vmemmap), at random secret bases, multiples of
 * DIRECT_MAP_ALIGN. Pages of a file of our own with random contents show the distance between the
 * arrays: only the right one leads to these contents.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kernel_view;

#define DIRECT_MAP_ALIGN (UINT64_C(1) << 30)
#define DIRECT_MAP_NONCE 16 /* bytes */

struct direct_map {
	uint64_t base; /* address of a page = base + page * scale, modulo 2^64 */
	uint64_t scale; /* 0: not known */
};

/* A page with known contents. */
struct direct_map_proof {
	uint64_t page; /* struct page */
	uint8_t nonce[DIRECT_MAP_NONCE]; /* first bytes of the page */
};

uint64_t direct_map_va(const struct direct_map *map, uint64_t page);

/*
 * near: any address in the direct map (an object of the kernel); the whole map lies within
 * physical_bytes of it, and nothing outside is read. 0, -ENOENT (not found), -EILSEQ (the proofs
 * contradict each other), -EOPNOTSUPP (struct page of an odd size), -errno of reading.
 */
int direct_map_find(struct direct_map *ret, const struct kernel_view *view, uint64_t near,
		    uint64_t physical_bytes, const struct direct_map_proof *proofs, size_t nr);

/*
 * May memory be read at addresses that may be unused? Not in a confidential guest that accepts its
 * memory piece by piece (TDX, SEV-SNP): an access to mapped, unaccepted memory ends the guest.
 * Decided by meminfo (normally /proc/meminfo).
 */
bool direct_map_all_accepted(const char *meminfo);

/* The end of physical memory by zoneinfo (normally /proc/zoneinfo); 0: not known. */
uint64_t direct_map_physical_bytes(const char *zoneinfo);

#endif
