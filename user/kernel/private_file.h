/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_PRIVATE_FILE_H
#define BPFPROF_KERNEL_PRIVATE_FILE_H

/*
 * Files in a tmpfs or ramfs that only their process has mounted: no path of ours leads to them, and
 * we may not enter its mount namespace. They lie in the kernel's memory and are read there. The
 * programs for it are loaded for the first file. One thread at a time may read files.
 */

#include <stdint.h>

struct elf_source;
struct image_identity;
struct private_files;

int private_files_new(struct private_files **ret); /* 0 or -ENOMEM */
void private_files_free(struct private_files *files); /* after all files are closed; NULL is fine */
uint64_t private_files_map_bytes(const struct private_files *files); /* of BPF maps; NULL is fine */

/*
 * For images_set_private(). Reads give -ENODATA for a swapped page. 0, -ENOENT (no such file),
 * -EPERM and -EKEYEXPIRED as for owned files, -EPERM also for a file that is mounted on a file,
 * -EIO (it changes all the time, or lies among too many others), -ESRCH (the process has ended),
 * -ENOMEM, -EXDEV (another file system, or an unknown kernel).
 */
int private_files_open(void *files, uint32_t pid, uint64_t start_ns, const char *path,
		       const struct image_identity *owned, struct elf_source *ret);

#endif
