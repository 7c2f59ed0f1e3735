/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_CORE_TYPES_H
#define BPFPROF_KERNEL_CORE_TYPES_H

/*
 * The kernel's types that BPF programs use, as a BTF of their own (Linux, Documentation/bpf/btf.rst).
 * libbpf looks for each type of our programs among all 126,000 of the kernel, which takes 2 ms each. Among
 * these few it takes nothing.
 */

#include <bpf/libbpf.h>
#include <stddef.h>

#define CORE_TYPES_KERNEL "/sys/kernel/btf/vmlinux"

struct core_types {
	int fd; /* in memory; or -1: libbpf reads those of the kernel */
	char path[32]; /* for bpf_object_open_opts.btf_custom_path */
};

/*
 * elf: the BPF object. All structs, unions and enums whose names it has are taken over, with what they
 * contain by value; a pointer points to void. -EINVAL: one of the two is malformed. 0 or -errno; after
 * an error, types has no file.
 */
int core_types_make(struct core_types *types, const void *elf, size_t bytes, const char *kernel);
/* The same for an object that is about to be opened. After an error, libbpf reads the kernel's types itself. */
void core_types_use(struct core_types *types, const void *elf, size_t bytes,
		    struct bpf_object_open_opts *options);
void core_types_free(struct core_types *types);

#endif
