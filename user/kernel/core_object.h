/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_CORE_OBJECT_H
#define BPFPROF_KERNEL_CORE_OBJECT_H

/*
 * Opens and loads BPF objects with few types. libbpf reads and lists all types of the kernel for each object
 * with an iterator or a tracepoint, which takes 12 MiB and 10 ms, only to find their ids.
 */

#include <bpf/libbpf.h>
#include <stddef.h>

#include "kernel/core_types.h"

/*
 * Before an object is opened: makes its types, and finds what its programs attach to, until
 * core_object_loaded(). After an error, libbpf reads the kernel's types itself. One object at a time.
 */
void core_object_opens(struct core_types *types, const void *elf, size_t bytes,
		       struct bpf_object_open_opts *options);
void core_object_loaded(struct core_types *types);

#endif
