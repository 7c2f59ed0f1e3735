// SPDX-License-Identifier: Apache-2.0
#include "kernel/kernel_path.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "kernel/kernel_view.h"

#define MAX_NAME 255
#define MAX_DEPTH 32
#define MAX_TRIES 8

struct walker {
	const struct kernel_view *view;
	uint32_t steps; /* steps left */
};

/* A directory in one mount. */
struct place {
	uint64_t mount; /* struct mount */
	uint64_t dentry;
};

/* A dentry, read in one piece. */
struct name {
	uint64_t next, parent, inode, text, pprev;
	uint32_t len;
};

static int name_read(const struct kernel_view *view, uint64_t dentry, struct name *ret)
{
	const struct bpfprof_kernel_layout *at = &view->layout;
	struct name name;
	struct kernel_piece pieces[] = {
		{ dentry + at->dentry_next, &name.next, sizeof(name.next), 0 },
		{ dentry + at->dentry_parent, &name.parent, sizeof(name.parent), 0 },
		{ dentry + at->dentry_inode, &name.inode, sizeof(name.inode), 0 },
		{ dentry + at->dentry_name, &name.text, sizeof(name.text), 0 },
		{ dentry + at->dentry_hash_pprev, &name.pprev, sizeof(name.pprev), 0 },
		{ dentry + at->dentry_name_len, &name.len, sizeof(name.len), 0 },
	};
	int err = kernel_view_read(view, pieces, sizeof(pieces) / sizeof(pieces[0]));

	if (!err)
		*ret = name;
	return err;
}

/* Is the name in use, and equal? 1, 0 or -errno. */
static int name_is(const struct kernel_view *view, const struct name *name, const char *text,
		   size_t len)
{
	char found[MAX_NAME];
	int err;

	/* A negative or unlinked dentry has no file. */
	if (name->len != len || !name->inode || !name->pprev)
		return 0;
	err = kernel_view_copy(view, name->text, found, (uint32_t)len);
	return err ? err : !memcmp(found, text, len);
}

/*
 * Is the dentry a child of this directory with this name? 1, 0, -EAGAIN (it has left the directory)
 * or -errno.
 */
static int child_is(const struct kernel_view *view, uint64_t folder, uint64_t dentry,
		    const char *text, size_t len, uint64_t *ret_next)
{
	struct name name;
	int err = name_read(view, dentry, &name);

	if (err)
		return err;
	if (name.parent != folder)
		return -EAGAIN;
	*ret_next = name.next;
	return name_is(view, &name, text, len);
}

/*
 * Finds the child with this name. A list ends in NULL or in its head (struct dentry___6_1 in
 * kernel_memory.bpf.c).
 */
static int child_find(struct walker *walker, uint64_t folder, const char *text, size_t len,
		      uint64_t *ret)
{
	const struct bpfprof_kernel_layout *at = &walker->view->layout;
	uint64_t head = folder + at->dentry_children, next, dentry;
	int err = kernel_view_pointer(walker->view, head, &next);

	while (!err) {
		if (!next || next == head)
			return -ENOENT;
		if (!walker->steps)
			return -E2BIG;
		walker->steps--;
		dentry = next - at->dentry_next;
		err = child_is(walker->view, folder, dentry, text, len, &next);
		if (err > 0) {
			*ret = dentry;
			return 0;
		}
	}
	return err;
}

struct mount_entry {
	uint64_t next, parent, point, root;
};

static int mount_read(const struct kernel_view *view, uint64_t mount, struct mount_entry *ret)
{
	const struct bpfprof_kernel_layout *at = &view->layout;
	struct kernel_piece pieces[] = {
		{ mount + at->mount_child, &ret->next, sizeof(ret->next), 0 },
		{ mount + at->mount_parent, &ret->parent, sizeof(ret->parent), 0 },
		{ mount + at->mount_point, &ret->point, sizeof(ret->point), 0 },
		{ mount + at->mount_mnt + at->vfsmount_root, &ret->root, sizeof(ret->root), 0 },
	};

	return kernel_view_read(view, pieces, sizeof(pieces) / sizeof(pieces[0]));
}

/* Finds the mount on this directory. 1, 0 or -errno. */
static int mount_find(struct walker *walker, struct place *place)
{
	uint64_t head = place->mount + walker->view->layout.mount_mounts, next, mount;
	struct mount_entry entry;
	int err = kernel_view_pointer(walker->view, head, &next);

	while (!err) {
		if (next == head)
			return 0;
		if (!walker->steps)
			return -E2BIG;
		walker->steps--;
		mount = next - walker->view->layout.mount_child;
		err = mount_read(walker->view, mount, &entry);
		if (!err && entry.parent != place->mount)
			err = -EAGAIN;
		if (!err && entry.point == place->dentry) {
			*place = (struct place){ .mount = mount, .dentry = entry.root };
			return 1;
		}
		next = entry.next;
	}
	return err;
}

/* Follows mounts on this directory, and mounts on those, to the last one. */
static int mounts_cross(struct walker *walker, struct place *place)
{
	int err;

	do
		err = mount_find(walker, place);
	while (err > 0);
	return err;
}

int kernel_inode_read(const struct kernel_view *view, uint64_t va, struct kernel_inode *ret)
{
	const struct bpfprof_kernel_layout *at = &view->layout;
	struct kernel_inode inode = { .va = va };
	uint64_t host;
	uint16_t mode;
	struct kernel_piece pieces[] = {
		{ va + at->inode_sb, &inode.sb, sizeof(inode.sb), 0 },
		{ va + at->inode_mapping, &inode.mapping, sizeof(inode.mapping), 0 },
		{ va + at->inode_ino, &inode.ino, sizeof(inode.ino), 0 },
		{ va + at->inode_size, &inode.size, sizeof(inode.size), 0 },
		{ va + at->inode_mtime_sec, &inode.mtime_sec, sizeof(inode.mtime_sec), 0 },
		{ va + at->inode_generation, &inode.generation, sizeof(inode.generation), 0 },
		{ va + at->inode_mode, &mode, sizeof(mode), 0 },
		{ va + at->inode_uid, &inode.uid, sizeof(inode.uid), 0 },
		{ va + at->inode_nlink, &inode.nr_links, sizeof(inode.nr_links), 0 },
	};
	struct kernel_piece behind[] = {
		{ 0, &inode.magic, sizeof(inode.magic), 0 },
		{ 0, &host, sizeof(host), 0 },
	};
	int err = kernel_view_read(view, pieces, sizeof(pieces) / sizeof(pieces[0]));

	if (err)
		return err;
	inode.mode = mode;
	behind[0].va = inode.sb + at->super_magic;
	behind[1].va = inode.mapping + at->mapping_host;
	err = kernel_view_read(view, behind, sizeof(behind) / sizeof(behind[0]));
	if (err)
		return err;
	/*
	 * A file of a layered file system has the pages of another inode; tmpfs has no such files.
	 */
	if (host != va)
		return -EAGAIN;
	*ret = inode;
	return 0;
}

static int mode_read(const struct kernel_view *view, uint64_t dentry, uint16_t *ret)
{
	uint64_t inode;
	int err = kernel_view_pointer(view, dentry + view->layout.dentry_inode, &inode);

	if (err)
		return err;
	return inode ? kernel_view_copy(view, inode + view->layout.inode_mode, ret, sizeof(*ret))
		     : -EAGAIN;
}

/* Goes to the child with this name. */
static int step_down(struct walker *walker, uint64_t folder, const char *text, size_t len,
		     uint64_t *ret)
{
	uint16_t mode;
	int err = mode_read(walker->view, folder, &mode);

	if (err)
		return err;
	if (S_ISLNK(mode))
		return -ELOOP;
	if (!S_ISDIR(mode))
		return -ENOTDIR;
	if (len > MAX_NAME || (len == 2 && !memcmp(text, "..", 2)))
		return -EINVAL;
	return child_find(walker, folder, text, len, ret);
}

/* The memory of an inode may be reused: it is valid if the name still leads to it. */
static int inode_of(const struct kernel_view *view, uint64_t dentry, struct kernel_inode *ret)
{
	uint64_t before, after;
	int err = kernel_view_pointer(view, dentry + view->layout.dentry_inode, &before);

	if (!err)
		err = before ? kernel_inode_read(view, before, ret) : -EAGAIN;
	if (!err)
		err = kernel_view_pointer(view, dentry + view->layout.dentry_inode, &after);
	return err ? err : before == after ? 0 : -EAGAIN;
}

/*
 * Follows the path. Mounts on the root directory itself do not count, as in the kernel's
 * path_init().
 */
static int walk(struct walker *walker, struct place place, const char *path,
		struct kernel_inode *ret)
{
	const struct kernel_view *view = walker->view;
	uint64_t folder = 0, child = 0, next;
	const char *text = path;
	size_t len = 0;
	int err = 0, depth;

	for (depth = 0; !err; depth++) {
		path += strspn(path, "/");
		if (!*path)
			break;
		if (depth == MAX_DEPTH)
			return -EINVAL;
		text = path;
		len = strcspn(text, "/");
		path += len;
		folder = place.dentry;
		err = step_down(walker, folder, text, len, &child);
		if (err == -ENOENT && inode_of(view, folder, ret))
			err = -EAGAIN;
		if (err)
			break;
		place.dentry = child;
		err = mounts_cross(walker, &place);
	}
	/* A process with rights in its own user namespace may mount another file there. */
	if (!err && child && place.dentry != child)
		return -EPERM;
	if (!err)
		err = inode_of(view, place.dentry, ret);
	if (err || !child)
		return err;
	err = child_is(view, folder, child, text, len, &next);
	return err < 0 ? err : err ? 0 : -EAGAIN;
}

/* Finds the inode of the path. Memory that is freed during the walk may be unmapped, too. */
int kernel_path_find(const struct kernel_view *view, uint64_t mount, uint64_t dentry,
		     const char *path, uint32_t *steps, struct kernel_inode *ret)
{
	struct place root = { .mount = mount - view->layout.mount_mnt, .dentry = dentry };
	struct walker walker = { .view = view, .steps = *steps };
	struct kernel_inode inode;
	int err = -EAGAIN, i;

	if (path[0] != '/')
		return -EINVAL;
	for (i = 0; i < MAX_TRIES && (err == -EAGAIN || err == -EFAULT); i++)
		err = walk(&walker, root, path, &inode);
	*steps = walker.steps;
	if (!err || err == -ENOENT)
		*ret = inode;
	return err;
}
