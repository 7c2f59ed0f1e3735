/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_PRIVATE_FILE_H
#define BPFPROF_KERNEL_PRIVATE_FILE_H

/*
 * Files in a tmpfs or ramfs that only their process has mounted: nothing leads to them from our own
 * mounts, and its are not ours to enter. They lie in the kernel's memory, and are read there. The programs
 * for it are loaded when the first file is asked for. Files may be read in turn, from one thread.
 */

#include <stdint.h>

struct elf_source;
struct image_identity;
struct private_files;

int private_files_new(struct private_files **ret); /* 0 or -ENOMEM */
void private_files_free(struct private_files *files); /* after all that was opened; NULL is fine */
uint64_t private_files_map_bytes(const struct private_files *files); /* of BPF maps; NULL is fine */

/*
 * For images_set_private(). Reads give -ENODATA where a page is swapped out. 0, -ENOENT (there is no
 * such file), -EPERM and -EKEYEXPIRED as of owned files, -EPERM also of one that is mounted on a file, -EIO
 * (it changes all the time, or lies among too many others), -ESRCH (the process is gone), -ENOMEM,
 * -EXDEV (another file system, or a kernel that is not understood).
 */
int private_files_open(void *files, uint32_t pid, uint64_t start_ns, const char *path,
		       const struct image_identity *owned, struct elf_source *ret);

#endif
