/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_PROBES_UPROBE_MULTI_H
#define BPFPROF_KERNEL_PROBES_UPROBE_MULTI_H

/*
 * Links of one BPF program to many places in a file: BPF_TRACE_UPROBE_MULTI, Linux 6.6 (89ae89f53d20),
 * by the system call itself, as libbpf has it since 1.3 only. They hold in all processes that
 * map the file now or later, or in one of them, and need CAP_BPF and CAP_PERFMON alone.
 *
 * Session links (BPF_TRACE_UPROBE_SESSION, Linux 6.13), one program for both ends of a call, are not used:
 * they save 0.15 to 0.25 us of 1.4 at calls whose return is hooked, which are those that wait, allocate or belong
 * to NCCL: few, and long. Launches have no hook at their return. Kernels up to 6.12 would need both ways.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct bpf_program;

struct uprobe_multi {
	int prog_fd;
	const char *path; /* of a regular file; /proc/self/fd/N will do */
	const uint64_t *offsets; /* in the file */
	const uint64_t *cookies;
	const uint64_t *semaphores; /* numbers in the file that count who is there; or NULL */
	size_t nr;
	bool returns; /* where the functions there return */
	pid_t pid; /* only in this process, as we see it; 0: in all that map the file */
};

/* Does this kernel know them, and may we make them? */
bool uprobe_multi_probe(void);

/*
 * Do programs under a seccomp filter live on when the return of one of their functions is hooked?
 * Since Linux 6.11 that is a system call (ff474a78cef5), which filters do not know; since 6.14, and
 * in later stable versions, it is none of theirs (seccomp: passthrough uretprobe systemcall). Tried
 * on a child of ours. 1, 0, or -errno if it cannot be tried.
 */
int uprobe_multi_returns_are_safe(void);

/*
 * Does a link of one process hold in all its threads, and nowhere else? Kernels before 6.12 took the
 * process for its first thread (46ba0e49b642, 900f362e2062 and what was backported of them). Tried
 * on a child of ours. 1, 0, or -errno if it cannot be tried.
 */
int uprobe_multi_pids_work(void);

/* Before it is loaded: prog is to be attached so, or to be called by one that is. */
void uprobe_multi_prepare(struct bpf_program *prog);
/* A descriptor, closing which detaches; or -errno. -EINVAL of kernels that do not know it. May block. */
int uprobe_multi_attach(const struct uprobe_multi *probes);

#endif
