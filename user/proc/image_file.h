/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROC_IMAGE_FILE_H
#define BPFPROF_PROC_IMAGE_FILE_H

/*
 * Opens and reads one file of a target under a deadline. The file is first opened with O_PATH and
 * checked, and opened for reading only if it is the regular file that was mapped: a FIFO or a device in
 * its place is never opened.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proc/image_find.h"

struct deadline_runner;
struct elf_image;
struct elf_source;

#define IMAGE_FILE_DEADLINE_MS 200 /* while sampling goes on */
#define IMAGE_FILE_PATIENT_MS 2000 /* separate debug files, when names are resolved at the end */

/*
 * Makes a source over the file with that identity, at place or wherever else it can be opened (*ret_way).
 * 0, -ETIMEDOUT, -ESTALE (another file is there, and the inode cannot be opened), -EBUSY, -errno of open.
 */
int image_file_open(struct elf_source *ret, struct deadline_runner *runner,
		    const struct image_place *place, const struct image_identity *identity,
		    unsigned int timeout_ms, enum image_way *ret_way);

/*
 * Does the folder hold a regular file of that name? 1; 0: the folder can be read and has none; -errno:
 * it cannot be read, or not in time.
 */
int image_file_check(struct deadline_runner *runner, const struct image_place *folder,
		     const char *name, unsigned int timeout_ms);

/* Did a read from this source miss its deadline? Parsers may report that as another error. */
bool image_file_hung(const struct elf_source *source);

/* The descriptor that source reads from, borrowed; -1: it reads no file. */
int image_file_fd(const struct elf_source *source);

/* Opens the file of an O_PATH descriptor for reading: a descriptor, or -1 and errno. */
int image_file_reopen(int path_fd);

/* The vDSO, in our own memory. 0 or -errno. */
int image_file_vdso(struct elf_image **ret);

/* Is dev (the kernel's encoding) anything but a disk file system mounted here? Reads mountinfo only. */
bool image_file_dev_may_block(uint32_t dev);

#endif
