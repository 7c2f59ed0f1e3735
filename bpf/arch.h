/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef BPFPROF_BPF_ARCH_H
#define BPFPROF_BPF_ARCH_H

/*
 * The CPU of the build. Its header has everything that the walkers and the BPF programs know about
 * it; a header for another CPU defines the same names. Code that makes unwind rules from
 * instructions is in user/unwind/, in a folder per CPU.
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
