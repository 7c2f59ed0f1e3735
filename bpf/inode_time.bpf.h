/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_INODE_TIME_BPF_H
#define BPFPROF_BPF_INODE_TIME_BPF_H

#include "vmlinux.h"

/* Modification time: i_mtime until 6.6 (13bc24457850), __i_mtime until 6.11 (3aa63a569c64). */
struct inode___6_1 {
	struct timespec64 i_mtime;
} __attribute__((preserve_access_index));

struct inode___6_6 {
	struct timespec64 __i_mtime;
} __attribute__((preserve_access_index));

struct inode___6_11 {
	__s64 i_mtime_sec;
} __attribute__((preserve_access_index));

#endif
