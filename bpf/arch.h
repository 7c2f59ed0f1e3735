/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef BPFPROF_BPF_ARCH_H
#define BPFPROF_BPF_ARCH_H

/*
 * The CPU that the program is built for. Its header has all that the walkers and the BPF programs know of
 * it; one for another CPU defines the same names. Code that makes unwind rules out of instructions is in
 * user/unwind/, in a folder for each CPU.
 */

#ifdef __bpf__
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#else
#include <linux/types.h>
#endif

#if defined(__TARGET_ARCH_x86) || defined(__x86_64__)
#include "arch_x86_64.h"
#else
#error "there is no header for this CPU"
#endif

#endif
