// SPDX-License-Identifier: Apache-2.0
/* fuzz: max_len=1024 */
/* Kernel memory in which anything may stand: searches end, and reads stay within their buffers. */
#include "../unit/made_kernel.c" /* a fuzzer is one file */

#include <stdbool.h>

#include "kernel/page_cache.h"

#define MAX_STEPS 5000
#define MAX_PASSES 40000
#define ROOM (20 * 4096)
#define NR_PATCHES 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *data;
	size_t size;
	struct made_kernel k;
	bool wild; /* there is memory everywhere */
	uint64_t root, mount, folder, file;
	int (*read)(void *arg, struct kernel_piece *pieces, size_t nr);
};

/* A read of the made-up kernel gets what is there, and elsewhere bytes of the input. */
static int wild_read(void *arg, struct kernel_piece *pieces, size_t nr)
{
	struct input *input = arg;
	size_t i, n;

	if (input->k.nr_reads > MAX_PASSES)
		abort();
	input->read(&input->k, pieces, nr);
	for (i = 0; i < nr && input->wild; i++) {
		if (!pieces[i].result)
			continue;
		for (n = 0; n < pieces[i].len; n++)
			((uint8_t *)pieces[i].dst)[n] =
				input->data[(pieces[i].va + n) % input->size];
		pieces[i].result = 0;
	}
	return 0;
}

static void scene_make(struct input *input)
{
	struct made_kernel *k = &input->k;
	uint64_t super, tmp, top, node, inode, first;

	made_kernel_init(k, input->data[0] & 1);
	super = made_super(k, MADE_TMPFS);
	input->root = made_folder(k, super, 0, "/");
	tmp = made_folder(k, super, input->root, "tmp");
	input->mount = made_mount(k, 0, 0, input->root);
	input->folder = made_folder(k, super, 0, "/");
	made_mount(k, made_mount(k, input->mount, tmp, tmp), tmp, input->folder);
	input->file = inode = made_inode(k, super, 0100644, 1U << 20);
	made_dentry(k, input->folder, "m", inode);
	made_dentry(k, input->folder, "other", inode);
	top = made_node(k, 6);
	node = made_node(k, 0);
	first = made_folio(k, inode, 0, 1, 1);
	made_slot(k, node, 0, first);
	made_slot(k, node, 1, MADE_SWAPPED);
	made_slot(k, node, 4, made_folio(k, inode, 4, 2, 2));
	made_slot(k, node, 5, MADE_SIBLING(4));
	made_slot(k, top, 0, MADE_NODE(node));
	made_slot(k, top, 1, made_folio(k, inode, 64, 64, 3));
	made_tree(k, inode, MADE_NODE(top));
}

/* Five bytes each: a word of an object or of a struct page becomes another word, or a small number. */
static void scene_patch(struct input *input)
{
	struct made_kernel *k = &input->k;
	uint64_t objects = MADE_DIRECT + MADE_HIGH, at, value;
	size_t i, from;
	const uint8_t *p;

	for (i = 0, from = 1; i < NR_PATCHES && input->size - from >= 5; i++, from += 5) {
		p = input->data + from;
		at = objects + (p[1] | (uint64_t)p[2] << 8) % (k->used / 8) * 8;
		value = objects + (p[3] | (uint64_t)p[4] << 8) % (k->used / 8) * 8;
		if (p[0] & 1)
			at = MADE_PAGES + (256 + p[1]) * MADE_PAGE_BYTES + 24 + (p[2] & 8);
		if (p[0] & 2)
			value = made_get(k, value);
		if (p[0] & 4)
			value = (p[3] | (uint64_t)p[4] << 8) + (p[0] >> 3);
		else
			value |= p[0] >> 6;
		made_put(k, at, value);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t room[ROOM + 2];
	struct input input = { .data = data, .size = size };
	struct kernel_view view;
	struct kernel_inode inode;
	struct page_cache cache;
	uint32_t steps = MAX_STEPS;
	uint64_t off;
	ssize_t n;

	if (size < 1)
		return 0;
	input.wild = data[0] & 2;
	scene_make(&input);
	scene_patch(&input);
	input.read = input.k.view.read;
	view = input.k.view;
	view.read = wild_read;
	view.arg = &input;
	if (!kernel_path_find(&view, made_vfsmount(&input.k, input.mount), input.root, "/tmp/m",
			      &steps, &inode) ||
	    !kernel_inode_read(&view, input.file, &inode)) {
		cache = (struct page_cache){ .view = &view,
					     .direct_map = made_direct_map(),
					     .inode = inode };
		for (off = 0; off < 130 * 4096; off += 50001) {
			room[0] = room[ROOM + 1] = 0x5a;
			n = page_cache_read(&cache, room + 1, ROOM, off);
			if (n > ROOM || room[0] != 0x5a || room[ROOM + 1] != 0x5a)
				abort();
		}
	}
	made_kernel_fini(&input.k);
	return 0;
}
