/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_PROBES_UPROBE_PERF_H
#define BPFPROF_KERNEL_PROBES_UPROBE_PERF_H

/*
 * Links of a BPF program to places in a file by one perf event each, for kernels without
 * uprobe_multi (before Linux 6.6). A link is for all processes. Many kernels allow them only with
 * CAP_SYS_ADMIN (perf_event_paranoid).
 */

#include <stddef.h>

struct uprobe_multi;

/*
 * Can this program make such links? 0, -EACCES or -EPERM, -ENOENT (not in this kernel), or -errno.
 */
int uprobe_perf_probe(void);

/*
 * Fills fds with probes->nr descriptors, whose close detaches. 0; or -errno without any. May block.
 */
int uprobe_perf_attach(const struct uprobe_multi *probes, int *fds);

#endif
