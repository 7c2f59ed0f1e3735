/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_DIRECT_MAP_H
#define BPFPROF_KERNEL_DIRECT_MAP_H

/*
 * Where the kernel has the bytes of a page, by the address of its struct page. Both lie in arrays over
 * all of physical memory (the direct map and vmemmap), at bases that are random from boot to boot,
 * multiples of DIRECT_MAP_ALIGN, and told to nobody. Pages of a file of our own with random
 * contents show the distance between the arrays: only at the right one lies what was written.
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

/* A page whose contents are known. */
struct direct_map_proof {
	uint64_t page; /* struct page */
	uint8_t nonce[DIRECT_MAP_NONCE]; /* it begins with these */
};

uint64_t direct_map_va(const struct direct_map *map, uint64_t page);

/*
 * near: any address in the direct map (an object of the kernel's own); all of it lies within physical_bytes
 * of that. Nothing else is looked at. 0, -ENOENT (nowhere), -EILSEQ (the proofs contradict each
 * other), -EOPNOTSUPP (struct page of an odd size), -errno of reading.
 */
int direct_map_find(struct direct_map *ret, const struct kernel_view *view, uint64_t near,
		    uint64_t physical_bytes, const struct direct_map_proof *proofs, size_t nr);

/*
 * May addresses be looked at of which nothing is known but that they are memory? Not in a confidential
 * guest that accepts its memory bit by bit (TDX, SEV-SNP): touching what is mapped and not accepted ends it.
 * As meminfo (normally /proc/meminfo) tells.
 */
bool direct_map_all_accepted(const char *meminfo);

/* The end of physical memory, as zoneinfo (normally /proc/zoneinfo) tells it; 0: it does not. */
uint64_t direct_map_physical_bytes(const char *zoneinfo);

#endif
