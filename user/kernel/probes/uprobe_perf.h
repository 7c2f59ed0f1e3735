/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_PROBES_UPROBE_PERF_H
#define BPFPROF_KERNEL_PROBES_UPROBE_PERF_H

/*
 * Links of a BPF program to places in a file by perf events, one each: where the kernel has no
 * uprobe_multi (before Linux 6.6). They hold in all processes. Many kernels allow them with CAP_SYS_ADMIN
 * only, by the law on perf events (perf_event_paranoid).
 */

#include <stddef.h>

struct uprobe_multi;

/* Can we make them? 0, -EACCES or -EPERM, -ENOENT (the kernel has none), or other -errno. */
int uprobe_perf_probe(void);

/* probes->nr descriptors into fds, closing which detaches. 0 or -errno, and none is made. May block. */
int uprobe_perf_attach(const struct uprobe_multi *probes, int *fds);

#endif
