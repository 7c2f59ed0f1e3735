/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROC_IMAGE_FILE_H
#define BPFPROF_PROC_IMAGE_FILE_H

/*
 * Opening and reading one file of a target, never longer than a deadline. The file is
 * first opened with O_PATH, looked at, and only then for real if it is the regular
 * file that was mapped: a FIFO or a device in its place is never touched.
 */

#include <stdbool.h>
#include <stdint.h>

#include "proc/image_find.h"

struct deadline_runner;
struct elf_source;

#define IMAGE_FILE_DEADLINE_MS 200 /* while sampling goes on */
#define IMAGE_FILE_PATIENT_MS 2000 /* separate debug files, when names are looked up at the end */

/*
 * Source over the file at place, which must be the one identified, wherever that can be had.
 * 0, -ETIMEDOUT, -ESTALE (another file is there, and the inode cannot be had), -EBUSY, -errno of open.
 */
int image_file_open(struct elf_source *ret, struct deadline_runner *runner,
		    const struct image_place *place, const struct image_identity *identity,
		    unsigned int timeout_ms, enum image_way *ret_way);

/*
 * Is there a regular file of that name in that folder, of which place says where it is? 1, 0 (the folder
 * is seen, and has none), or -errno: it cannot be seen, or not in time.
 */
int image_file_check(struct deadline_runner *runner, const struct image_place *folder,
		     const char *name, unsigned int timeout_ms);

/* Did a read from this source miss its deadline? Parsers may have made another error of that. */
bool image_file_hung(const struct elf_source *source);

/* The open file that source reads from, borrowed; -1: it reads from elsewhere. */
int image_file_fd(const struct elf_source *source);

/* Is dev (the kernel's encoding) anything but a disk file system mounted here? Looks at mountinfo only. */
bool image_file_dev_may_block(uint32_t dev);

#endif
