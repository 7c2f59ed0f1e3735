/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CAPTURE_BPF_FEATURES_H
#define BPFPROF_CAPTURE_BPF_FEATURES_H

/*
 * The kernel features that our BPF programs need, each found by loading a tiny
 * program or making a tiny map, never by the kernel's version.
 */

#include <stdbool.h>
#include <stddef.h>

struct bpf_feature {
	const char *name; /* as --help texts call it */
	bool present;
};

#define BPF_FEATURES_MAX 20

struct bpf_features {
	struct bpf_feature items[BPF_FEATURES_MAX];
	size_t nr;
};

/* May we call bpf(2) at all? 0 or -errno. */
int bpf_syscall_probe(void);

/* Maps and helpers: well under a millisecond. Means nothing where bpf_syscall_probe() fails. */
void bpf_features_probe(struct bpf_features *ret);

/* Adds the features in the kernel's BTF, which takes about 10 ms. 0, or -errno without BTF. */
int bpf_features_probe_btf(struct bpf_features *features);

/* Is there such a tracepoint, by its name without the group, and may it be used? It is, for a moment. */
bool bpf_has_raw_tracepoint(const char *name);

/* Does lockdown (confidentiality) keep BPF programs from reading memory? */
bool bpf_reads_refused(void);

#endif
