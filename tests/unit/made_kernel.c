// SPDX-License-Identifier: Apache-2.0
#include "made_kernel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PAGE 4096
#define FIRST_PAGE 256

static const struct bpfprof_kernel_layout layout = {
	.mount_mnt = 32,
	.mount_parent = 8,
	.mount_point = 16,
	.mount_mounts = 80,
	.mount_child = 96,
	.vfsmount_root = 8,
	.dentry_parent = 24,
	.dentry_inode = 48,
	.dentry_name = 40,
	.dentry_name_len = 36,
	.dentry_hash_pprev = 16,
	.dentry_children = 160,
	.dentry_next = 144,
	.inode_mode = 0,
	.inode_uid = 4,
	.inode_sb = 40,
	.inode_mapping = 48,
	.inode_ino = 64,
	.inode_nlink = 72,
	.inode_size = 80,
	.inode_generation = 96,
	.inode_mtime_sec = 104,
	.super_magic = 88,
	.mapping_host = 0,
	.mapping_head = 16,
	.node_shift = 0,
	.node_slots = 40,
	.node_nr_slots = 64,
	.folio_flags = 8,
	.folio_uptodate = 5,
	.folio_mapping = 24,
	.folio_index = 32,
	.page_bytes = MADE_PAGE_BYTES,
};

/* The byte of data at address va, data being the bytes from start on; NULL: va lies outside. */
static void *inside(uint8_t *data, uint64_t start, uint64_t bytes, uint64_t va, size_t len)
{
	return va - start < bytes && len <= bytes - (va - start) ? data + (va - start) : NULL;
}

void *made_at(struct made_kernel *k, uint64_t va, size_t len)
{
	const uint64_t whole = (uint64_t)MADE_NR_PAGES * PAGE,
		       pages = (uint64_t)MADE_NR_PAGES * MADE_PAGE_BYTES;
	void *at = inside(k->low, MADE_DIRECT, whole, va, len);

	if (!at)
		at = inside(k->high, MADE_DIRECT + MADE_HIGH, whole, va, len);
	if (!at)
		at = inside(k->low_pages, MADE_PAGES, pages, va, len);
	if (!at)
		at = inside(k->high_pages, MADE_PAGES + MADE_HIGH / PAGE * MADE_PAGE_BYTES, pages,
			    va, len);
	return at;
}

static int made_read(void *arg, struct kernel_piece *pieces, size_t nr)
{
	struct made_kernel *k = arg;
	const void *at;
	size_t i;

	if (nr > BPFPROF_KERNEL_PIECES)
		abort();
	if (++k->nr_reads == k->change_at && k->change)
		k->change(k);
	for (i = 0; i < nr; i++) {
		if (pieces[i].len > BPFPROF_KERNEL_BYTES)
			abort();
		at = made_at(k, pieces[i].va, pieces[i].len);
		pieces[i].result = at ? 0 : -EFAULT;
		if (at)
			memcpy(pieces[i].dst, at, pieces[i].len);
		else
			memset(pieces[i].dst, 0, pieces[i].len);
	}
	return 0;
}

void made_kernel_init(struct made_kernel *k, bool hlists)
{
	*k = (struct made_kernel){ .hlists = hlists, .nr_pages = FIRST_PAGE, .used = 64 };
	k->view.read = made_read;
	k->view.arg = k;
	k->view.layout = layout;
	k->low = calloc(MADE_NR_PAGES, PAGE);
	k->high = calloc(MADE_NR_PAGES, PAGE);
	k->low_pages = calloc(MADE_NR_PAGES, MADE_PAGE_BYTES);
	k->high_pages = calloc(MADE_NR_PAGES, MADE_PAGE_BYTES);
	if (!k->low || !k->high || !k->low_pages || !k->high_pages)
		abort();
}

void made_kernel_fini(struct made_kernel *k)
{
	free(k->low);
	free(k->high);
	free(k->low_pages);
	free(k->high_pages);
}

struct direct_map made_direct_map(void)
{
	uint64_t scale = PAGE / MADE_PAGE_BYTES;

	return (struct direct_map){ .base = MADE_DIRECT - MADE_PAGES * scale, .scale = scale };
}

uint64_t made_get(struct made_kernel *k, uint64_t va)
{
	const void *at = made_at(k, va, sizeof(uint64_t));
	uint64_t value;

	if (!at)
		abort();
	memcpy(&value, at, sizeof(value));
	return value;
}

static void put(struct made_kernel *k, uint64_t va, const void *value, size_t len)
{
	void *at = made_at(k, va, len);

	if (!at)
		abort();
	memcpy(at, value, len);
}

void made_put(struct made_kernel *k, uint64_t va, uint64_t value)
{
	put(k, va, &value, sizeof(value));
}

uint64_t made_kernel_alloc(struct made_kernel *k, size_t bytes)
{
	uint64_t va = MADE_DIRECT + MADE_HIGH + k->used;

	k->used += (bytes + 63) / 64 * 64;
	if (!made_at(k, va, bytes))
		abort();
	return va;
}

uint64_t made_super(struct made_kernel *k, uint64_t magic)
{
	uint64_t super = made_kernel_alloc(k, 128);

	made_put(k, super + layout.super_magic, magic);
	return super;
}

uint64_t made_inode(struct made_kernel *k, uint64_t super, uint16_t mode, uint64_t size)
{
	uint64_t inode = made_kernel_alloc(k, 256), mapping = inode + 160;
	uint32_t links = 1;

	put(k, inode + layout.inode_mode, &mode, sizeof(mode));
	put(k, inode + layout.inode_nlink, &links, sizeof(links));
	made_put(k, inode + layout.inode_sb, super);
	made_put(k, inode + layout.inode_mapping, mapping);
	made_put(k, inode + layout.inode_ino, inode >> 8 & 0xffff);
	made_put(k, inode + layout.inode_size, size);
	made_put(k, mapping + layout.mapping_host, inode);
	return inode;
}

/* Lists of both kinds begin with the pointer to the next one. */
static void list_add(struct made_kernel *k, uint64_t head, uint64_t node)
{
	made_put(k, node, made_get(k, head));
	made_put(k, head, node);
}

uint64_t made_dentry(struct made_kernel *k, uint64_t parent, const char *name, uint64_t inode)
{
	uint64_t dentry = made_kernel_alloc(k, 256), text = made_kernel_alloc(k, strlen(name) + 1);
	uint32_t len = (uint32_t)strlen(name);

	put(k, text, name, len);
	put(k, dentry + layout.dentry_name_len, &len, sizeof(len));
	made_put(k, dentry + layout.dentry_name, text);
	made_put(k, dentry + layout.dentry_inode, inode);
	made_put(k, dentry + layout.dentry_hash_pprev, dentry);
	made_put(k, dentry + layout.dentry_children,
		 k->hlists ? 0 : dentry + layout.dentry_children);
	made_put(k, dentry + layout.dentry_parent, parent ? parent : dentry);
	if (parent)
		list_add(k, parent + layout.dentry_children, dentry + layout.dentry_next);
	return dentry;
}

uint64_t made_folder(struct made_kernel *k, uint64_t super, uint64_t parent, const char *name)
{
	return made_dentry(k, parent, name, made_inode(k, super, S_IFDIR | 0755, 0));
}

uint64_t made_mount(struct made_kernel *k, uint64_t parent, uint64_t point, uint64_t root)
{
	uint64_t mount = made_kernel_alloc(k, 128);

	made_put(k, mount + layout.mount_mounts, mount + layout.mount_mounts);
	made_put(k, mount + layout.mount_mnt + layout.vfsmount_root, root);
	made_put(k, mount + layout.mount_parent, parent ? parent : mount);
	made_put(k, mount + layout.mount_point, point);
	if (parent)
		list_add(k, parent + layout.mount_mounts, mount + layout.mount_child);
	return mount;
}

uint64_t made_vfsmount(const struct made_kernel *k, uint64_t mount)
{
	(void)k;
	return mount + layout.mount_mnt;
}

uint64_t made_folio(struct made_kernel *k, uint64_t inode, uint64_t index, size_t nr, uint8_t fill)
{
	uint64_t folio = MADE_PAGES + k->nr_pages * MADE_PAGE_BYTES;
	size_t i;

	for (i = 0; i < nr; i++)
		memset(made_at(k, MADE_DIRECT + (k->nr_pages + i) * PAGE, PAGE), fill + (int)i,
		       PAGE);
	made_put(k, folio + layout.folio_mapping, made_get(k, inode + layout.inode_mapping));
	made_put(k, folio + layout.folio_index, index);
	made_put(k, folio + layout.folio_flags, UINT64_C(1) << layout.folio_uptodate);
	k->nr_pages += nr;
	return folio;
}

void made_tree(struct made_kernel *k, uint64_t inode, uint64_t head)
{
	made_put(k, made_get(k, inode + layout.inode_mapping) + layout.mapping_head, head);
}

uint64_t made_node(struct made_kernel *k, uint8_t shift)
{
	uint64_t node = made_kernel_alloc(k, 576);

	put(k, node + layout.node_shift, &shift, sizeof(shift));
	return node;
}

void made_slot(struct made_kernel *k, uint64_t node, unsigned int slot, uint64_t entry)
{
	made_put(k, node + layout.node_slots + slot * 8, entry);
}
