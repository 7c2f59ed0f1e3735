/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROC_IMAGE_FIND_H
#define BPFPROF_PROC_IMAGE_FIND_H

/*
 * Where the file that a process maps can be had, without ptrace: the path may be one of
 * another mount namespace, and another file may lie under it here. What is found is opened with
 * O_PATH only, so that a FIFO or a device in its place is never touched, and is a
 * regular file with the number, the size and the time of the one that is mapped. File systems
 * may block: callers run this under a deadline.
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
	bool folder; /* a folder is wanted, any */
	/*
	 * With owned, and for any file: it must belong to uid or root, be no link and have no second name,
	 * and have been written since that second (CLOCK_REALTIME): else it was planted, or is another's.
	 */
	bool owned;
	uint32_t uid;
	int64_t since_sec;
};

enum image_way { /* in the order in which they are tried */
		 IMAGE_WAY_NONE = 0,
		 IMAGE_WAY_PATH, /* the path leads to it here too */
		 IMAGE_WAY_INODE, /* by its number (open_by_handle_at): neither btrfs nor tmpfs, as a rule */
		 IMAGE_WAY_LAYER, /* in a layer of an overlay that is mounted here */
		 IMAGE_WAY_MOUNT, /* the file system that it has there is mounted here: rootfs, volumes */
		 IMAGE_WAY_TARGET_LAYER, /* in a layer of the overlay that only its process has mounted */
		 IMAGE_WAY_MEMORY, /* a copy from its process's memory (not found here) */
		 IMAGE_NR_WAYS,
};

struct image_place {
	const char *root; /* folder that node paths are resolved in, "": none */
	uint64_t root_ino; /* which that folder must have, 0: any */
	uint32_t root_dev; /* with root_ino, kernel's encoding */
	/* An unprivileged process mounts overlays, too, of whatever folders of the node it names. */
	bool trusts_layers; /* the mounts of pid are the node's own work: see origin_mounts_are_trusted() */
	const char *path; /* as its process sees it; not absolute: not known */
	uint32_t pid; /* a process that has it there, 0: none known, or of no use */
};

/*
 * If any file will do, it is the one of that process, or without one that of the node.
 * A descriptor (O_PATH), or -ESTALE (another file is there, or another root), -EXDEV (it lies in a file system that
 * is mounted for that process only, or in layers that are not trusted), -errno of what the path led
 * to. Of any file -ESRCH: its process has exited. Of an owned one -EPERM
 * (another user's, or no plain file) and -EKEYEXPIRED (older than that).
 */
int image_find(const struct image_place *place, const struct image_identity *identity,
	       struct stat *ret_st, enum image_way *ret_way);

/* Of a file that is to be an owned one: 0, or what is wrong with it: -EPERM or -EKEYEXPIRED, as above. */
int image_owner_check(const struct stat *st, const struct image_identity *id);

/* The kernel's dev_t (12 bits major, 20 bits minor) as stat shows it. */
dev_t image_dev(uint32_t kernel_dev);

const char *image_way_name(enum image_way way);

#endif
