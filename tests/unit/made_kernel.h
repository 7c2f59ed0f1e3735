/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TESTS_MADE_KERNEL_H
#define BPFPROF_TESTS_MADE_KERNEL_H

/*
 * A made-up kernel: memory of two pieces far from each other, their struct pages, and in it mounts,
 * folders and files. Offsets in structs are no real kernel's.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernel/direct_map.h"
#include "kernel/kernel_path.h"
#include "kernel/kernel_view.h"

#define MADE_DIRECT UINT64_C(0xffff8cc000000000)
#define MADE_PAGES UINT64_C(0xffffea8000000000) /* struct pages */
#define MADE_PAGE_BYTES 64
#define MADE_HIGH (UINT64_C(5) << 30) /* where in physical memory the second piece begins */
#define MADE_NR_PAGES 512 /* of each piece */
#define MADE_SWAPPED UINT64_C(0x123)
#define MADE_TMPFS 0x01021994

struct made_kernel {
	struct kernel_view view;
	uint8_t *low, *high; /* memory */
	uint8_t *low_pages, *high_pages; /* struct pages */
	uint64_t used; /* of the second piece, by objects from its beginning */
	uint64_t nr_pages; /* of the first one, given out from behind its first MiB */
	bool hlists; /* children of folders end in NULL */
	uint64_t nr_reads; /* passes */
	/* Called before the pass of that number, from 1 on. */
	void (*change)(struct made_kernel *k);
	uint64_t change_at;
	uint64_t change_va, change_to; /* for it */
};

void made_kernel_init(struct made_kernel *k, bool hlists);
void made_kernel_fini(struct made_kernel *k);
struct direct_map made_direct_map(void);

/* The memory at va; NULL: nothing is there. */
void *made_at(struct made_kernel *k, uint64_t va, size_t len);
uint64_t made_get(struct made_kernel *k, uint64_t va);
void made_put(struct made_kernel *k, uint64_t va, uint64_t value);
uint64_t made_kernel_alloc(struct made_kernel *k, size_t bytes);

uint64_t made_super(struct made_kernel *k, uint64_t magic);
uint64_t made_inode(struct made_kernel *k, uint64_t super, uint16_t mode, uint64_t size);
/*
 * Makes a dentry, the first child of parent (0: it has no parent); inode 0: a negative dentry.
 */
uint64_t made_dentry(struct made_kernel *k, uint64_t parent, const char *name, uint64_t inode);
/* Both in one. */
uint64_t made_folder(struct made_kernel *k, uint64_t super, uint64_t parent, const char *name);
/* The struct mount: of the folder root, on point of the mount parent (0: nowhere). */
uint64_t made_mount(struct made_kernel *k, uint64_t parent, uint64_t point, uint64_t root);
uint64_t made_vfsmount(const struct made_kernel *k, uint64_t mount);

/* nr struct pages that follow each other: the folio; their bytes are all `fill`, + 1 in each further one. */
uint64_t made_folio(struct made_kernel *k, uint64_t inode, uint64_t index, size_t nr, uint8_t fill);
/* Makes the root of the inode's tree. */
void made_tree(struct made_kernel *k, uint64_t inode, uint64_t head);
/* Makes a node of the tree; its address goes into slots as MADE_NODE(va). */
uint64_t made_node(struct made_kernel *k, uint8_t shift);
void made_slot(struct made_kernel *k, uint64_t node, unsigned int slot, uint64_t entry);
#define MADE_NODE(va) ((va) | 2)
#define MADE_SIBLING(slot) ((uint64_t)(slot) << 2 | 2)

#endif
