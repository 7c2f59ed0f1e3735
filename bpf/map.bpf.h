/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_MAP_BPF_H
#define BPFPROF_BPF_MAP_BPF_H

/*
 * Macros that define maps. All maps are weak, so that objects that include the same map share it
 * when they are linked.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#define MAP(name, kind, nr, key_type, value_type, flags)                                           \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_##kind);                                                 \
		__uint(max_entries, nr);                                                           \
		__uint(map_flags, flags);                                                          \
		__type(key, key_type);                                                             \
		__type(value, value_type);                                                         \
	} name __weak SEC(".maps")

/* Elements are allocated when they are added. */
#define HASH_MAP(name, nr, key_type, value_type)                                                   \
	MAP(name, HASH, nr, key_type, value_type, BPF_F_NO_PREALLOC)
#define ARRAY_MAP(name, nr, value_type) MAP(name, ARRAY, nr, __u32, value_type, 0)
/* An array that user space maps into its memory. */
#define MMAPABLE_MAP(name, nr, value_type) MAP(name, ARRAY, nr, __u32, value_type, BPF_F_MMAPABLE)
/* One element per CPU, with key 0. */
#define PERCPU_MAP(name, value_type) MAP(name, PERCPU_ARRAY, 1, __u32, value_type, 0)

#endif
