/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_KERNEL_VIEW_H
#define BPFPROF_KERNEL_KERNEL_VIEW_H

/*
 * The interface to the kernel's memory: bytes at addresses, and offsets of members of structs.
 * Nothing is locked, so all data may be stale or half written: readers bound every loop, and check
 * at the end that their start is still valid.
 */

#include <stddef.h>
#include <stdint.h>

#include "bpfprof.h"

struct kernel_piece {
	uint64_t va;
	void *dst;
	uint32_t len; /* at most BPFPROF_KERNEL_BYTES */
	int result; /* 0 or -errno: then dst is zero or undefined */
};

struct kernel_view {
	/*
	 * Reads all pieces, at most BPFPROF_KERNEL_PIECES, in one pass. 0, or -errno: the pass
	 * itself failed.
	 */
	int (*read)(void *arg, struct kernel_piece *pieces, size_t nr);
	void *arg;
	struct bpfprof_kernel_layout layout;
};

/* Reads all nr pieces, or returns -errno of the first that failed. */
int kernel_view_read(const struct kernel_view *view, struct kernel_piece *pieces, size_t nr);
int kernel_view_copy(const struct kernel_view *view, uint64_t va, void *dst, uint32_t len);
int kernel_view_pointer(const struct kernel_view *view, uint64_t va, uint64_t *ret);

#endif
