/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROC_IMAGE_FIND_H
#define BPFPROF_PROC_IMAGE_FIND_H

/*
 * Finds the file that a process maps, without ptrace: the path may belong to another mount namespace,
 * and another file may lie there here. The file is opened with O_PATH only, so that a FIFO or a device
 * in its place is never touched; it is a regular file with the number, the size and the time of the one
 * that is mapped. File systems may block: the caller runs this under a deadline.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

struct image_identity {
	uint64_t ino; /* 0: any regular file will do */
	uint64_t size;
	int64_t mtime_sec;
	uint32_t dev; /* kernel's encoding */
	uint32_t ino_gen;
	bool folder; /* any folder is wanted, not a file */
	/*
	 * With ino 0: the file must belong to uid or root, be no link, have no second name, and have been
	 * written since since_sec (CLOCK_REALTIME). Otherwise another process may have planted it.
	 */
	bool owned;
	uint32_t uid;
	int64_t since_sec;
};

enum image_way { /* in the order in which they are tried */
		 IMAGE_WAY_NONE = 0,
		 IMAGE_WAY_PATH, /* the path leads to it here too */
		 IMAGE_WAY_INODE, /* by its number (open_by_handle_at); mostly not on btrfs and tmpfs */
		 IMAGE_WAY_LAYER, /* in a layer of an overlay that is mounted here */
		 IMAGE_WAY_MOUNT, /* its file system is mounted here too: rootfs, volumes */
		 IMAGE_WAY_TARGET_LAYER, /* in a layer of an overlay that only its process has mounted */
		 IMAGE_WAY_MEMORY, /* a copy from the memory of its process (image_copy.h) */
		 IMAGE_NR_WAYS,
};

struct image_place {
	const char *root; /* paths of the node are resolved in this folder, "": none */
	uint64_t root_ino; /* the inode that root must have, 0: any */
	uint32_t root_dev; /* with root_ino, kernel's encoding */
	/* An unprivileged process can mount an overlay of any folders of the node. */
	bool trusts_layers; /* the node made the mounts of pid: origin_mounts_are_trusted() */
	const char *path; /* as the process sees it; not absolute: not known */
	uint32_t pid; /* a process that has the file there, 0: none is known */
};

/*
 * A descriptor (O_PATH) of the file. With ino 0 it is the file of that process, or without a process
 * that of the node. -ESTALE: another file or another root is there. -EXDEV: the file system is mounted
 * for that process only, or the layers are not trusted. -ESRCH (ino 0): the process has exited. -EPERM
 * (owned): another user's, or no plain file. -EKEYEXPIRED (owned): too old. Or -errno of the path.
 */
int image_find(const struct image_place *place, const struct image_identity *identity,
	       struct stat *ret_st, enum image_way *ret_way);

/* Checks a file that must be owned: 0, -EPERM or -EKEYEXPIRED as above. */
int image_owner_check(const struct stat *st, const struct image_identity *id);

/* The kernel's dev_t (12 bits major, 20 bits minor) as stat shows it. */
dev_t image_dev(uint32_t kernel_dev);

const char *image_way_name(enum image_way way);

#endif
