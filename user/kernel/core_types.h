/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_CORE_TYPES_H
#define BPFPROF_KERNEL_CORE_TYPES_H

/*
 * The kernel's types that BPF programs use, as a BTF of their own (Linux, Documentation/bpf/btf.rst), and
 * the ids of those that programs attach to. libbpf looks for each type of our programs among all 126,000
 * of the kernel, which takes 2 ms each. Among these few it takes nothing.
 */

#include <stddef.h>
#include <stdint.h>

#define CORE_TYPES_KERNEL "/sys/kernel/btf/vmlinux"
#define CORE_ITERATOR "bpf_iter_" /* functions of iterators begin with it */
#define CORE_TRACEPOINT "btf_trace_" /* types of tracepoints begin with it */
#define CORE_TARGETS 32
#define CORE_TARGET_NAME 64

/* What programs attach to: an iterator or a tracepoint. */
struct core_target {
	char name[CORE_TARGET_NAME]; /* of the kernel's function or type */
	uint32_t id; /* 0: this kernel does not have it */
};

struct core_types {
	int fd; /* in memory; or -1: libbpf reads those of the kernel */
	char path[32]; /* for bpf_object_open_opts.btf_custom_path */
	struct core_target targets[CORE_TARGETS];
	size_t nr_targets;
};

/*
 * elf: the BPF object. All structs, unions and enums whose names it has are taken over, with what they
 * contain by value; a pointer points to void. -EINVAL: one of the two is malformed. 0 or -errno; after
 * an error, types has no file.
 */
int core_types_make(struct core_types *types, const void *elf, size_t bytes, const char *kernel);
void core_types_free(struct core_types *types);

/* The name of what programs of that section attach to. -ENOENT: not by a type; -E2BIG: it is too long. */
int core_target_name(char name[CORE_TARGET_NAME], const char *section);
/* The id of that type, or 0. */
uint32_t core_target_find(const struct core_types *types, const char *name);

#endif
