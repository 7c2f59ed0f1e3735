// SPDX-License-Identifier: Apache-2.0
#include "kernel/direct_map.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "kernel/kernel_view.h"

#define MAX_PHYSICAL_BYTES (UINT64_C(1) << 46) /* 64 TiB */
#define FIRST_MIB (UINT64_C(1) << 20) /* the first MiB of physical memory also holds devices */

uint64_t direct_map_va(const struct direct_map *map, uint64_t page)
{
	return map->base + page * map->scale;
}

/* The nth candidate for a value with known low bits, nearest to near first: 0, +1, -1, +2 ... */
static uint64_t candidate(uint64_t near, uint64_t low, uint64_t nth)
{
	uint64_t middle = (near & ~(DIRECT_MAP_ALIGN - 1)) | low, steps = (nth + 1) / 2;

	return nth % 2 ? middle + steps * DIRECT_MAP_ALIGN : middle - steps * DIRECT_MAP_ALIGN;
}

/*
 * Finds the address of the page: each aligned piece of the direct map has one address that may hold
 * it.
 */
static int place_find(const struct kernel_view *view, uint64_t near, uint64_t physical_bytes,
		      const struct direct_map_proof *proof, uint64_t scale, uint64_t *ret)
{
	uint8_t found[BPFPROF_KERNEL_PIECES][DIRECT_MAP_NONCE];
	struct kernel_piece pieces[BPFPROF_KERNEL_PIECES];
	uint64_t low = proof->page * scale & (DIRECT_MAP_ALIGN - 1), nth, end;
	uint32_t i, nr;
	int err;

	if (low < FIRST_MIB) /* this page is not usable, but another one is */
		return -ENOENT;
	end = 2 * (physical_bytes / DIRECT_MAP_ALIGN + 1) + 1;
	for (nth = 0; nth < end; nth += nr) {
		nr = end - nth < BPFPROF_KERNEL_PIECES ? (uint32_t)(end - nth)
						       : BPFPROF_KERNEL_PIECES;
		for (i = 0; i < nr; i++)
			pieces[i] = (struct kernel_piece){ .va = candidate(near, low, nth + i),
							   .dst = found[i],
							   .len = DIRECT_MAP_NONCE };
		err = view->read(view->arg, pieces, nr);
		if (err)
			return err;
		for (i = 0; i < nr; i++) {
			if (!pieces[i].result &&
			    !memcmp(found[i], proof->nonce, DIRECT_MAP_NONCE)) {
				*ret = pieces[i].va;
				return 0;
			}
		}
	}
	return -ENOENT;
}

static int prove(const struct direct_map *map, const struct kernel_view *view,
		 const struct direct_map_proof *proofs, size_t nr)
{
	uint8_t found[DIRECT_MAP_NONCE];
	size_t i;
	int err;

	for (i = 0; i < nr; i++) {
		err = kernel_view_copy(view, direct_map_va(map, proofs[i].page), found,
				       sizeof(found));
		if (err)
			return err == -EFAULT ? -EILSEQ : err;
		if (memcmp(found, proofs[i].nonce, sizeof(found)))
			return -EILSEQ;
	}
	return 0;
}

int direct_map_find(struct direct_map *ret, const struct kernel_view *view, uint64_t near,
		    uint64_t physical_bytes, const struct direct_map_proof *proofs, size_t nr)
{
	uint32_t page_bytes = view->layout.page_bytes;
	uint64_t whole = (uint64_t)getpagesize(), va = 0;
	struct direct_map map = { 0 };
	int err = -ENOENT;
	size_t i;

	if (!page_bytes || whole % page_bytes || whole != BPFPROF_KERNEL_BYTES)
		return -EOPNOTSUPP;
	if (!physical_bytes || physical_bytes > MAX_PHYSICAL_BYTES)
		return -EOPNOTSUPP;
	map.scale = whole / page_bytes;
	for (i = 0; i < nr && err == -ENOENT; i++)
		err = place_find(view, near, physical_bytes, &proofs[i], map.scale, &va);
	if (err)
		return err;
	map.base = va - proofs[i - 1].page * map.scale;
	err = prove(&map, view, proofs, nr);
	if (!err)
		*ret = map;
	return err;
}

bool direct_map_all_accepted(const char *meminfo)
{
	__cleanup(close_file) FILE *file = fopen(meminfo, "re");
	bool read = false;
	uint64_t kb = 0;
	char line[256];

	while (file && fgets(line, sizeof(line), file)) {
		read = true;
		if (sscanf(line, "Unaccepted: %" SCNu64, &kb) == 1)
			return !kb;
	}
	return read; /* a kernel without such memory has no such line */
}

uint64_t direct_map_physical_bytes(const char *zoneinfo)
{
	__cleanup(close_file) FILE *file = fopen(zoneinfo, "re");
	uint64_t page = (uint64_t)getpagesize(), spanned = 0, value, end = 0;
	char line[256], *rest;

	while (file && fgets(line, sizeof(line), file)) {
		rest = line + strspn(line, " ");
		/* Each zone has "spanned" first, then "start_pfn". */
		if (sscanf(rest, "spanned %" SCNu64, &value) == 1)
			spanned = value;
		else if (sscanf(rest, "start_pfn: %" SCNu64, &value) == 1 && spanned) {
			end = value + spanned > end ? value + spanned : end;
			spanned = 0;
		}
	}
	return end * page;
}
