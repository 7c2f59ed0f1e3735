/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_PROBES_UPROBE_LINKS_H
#define BPFPROF_KERNEL_PROBES_UPROBE_LINKS_H

/*
 * Makes links to places of a file in another thread, within a deadline: the kernel reads pages of the file
 * while no process of the machine can fork. Files on FUSE, whose server may never answer, get none, and no file gets
 * any while the lock of a process's memory is held (locked_memory.h).
 */

#include <stdbool.h>

#define UPROBE_LINKS_MAX 256 /* places in a file */

struct deadline_runner;
struct session;
struct uprobe_multi;

/*
 * Ignores probes->path. by_perf: with perf's uprobes (uprobe_perf.h), one descriptor per place; else one for all.
 * The number of descriptors in fds; -ENOTSUP: the file cannot be hooked; -EBUSY, -ETIMEDOUT and
 * -EDEADLK (that of session->locked_pid): may work later; or -errno.
 */
int uprobe_links_make(struct session *session, struct deadline_runner *runner,
		      const struct uprobe_multi *probes, int file_fd, bool by_perf, int *fds);

#endif
