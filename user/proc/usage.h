/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROC_USAGE_H
#define BPFPROF_PROC_USAGE_H

/* What /proc tells of a process without asking for ptrace rights: stat and cmdline. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PROC_CMDLINE_MAX 4096

struct deadline_runner;

struct proc_usage {
	uint64_t cpu_ns; /* user and system, all threads, dead ones too */
	uint64_t rss_bytes;
	uint64_t start_ns; /* since boot, in clock ticks' resolution */
	uint32_t nr_threads;
	char state; /* R S D Z T ... */
	uint32_t flags; /* PF_* */
	pid_t parent;
	char comm[64];
};

#define PROC_PF_KTHREAD 0x00200000U

/* Neither a kernel thread nor a zombie. */
bool proc_usage_has_memory(const struct proc_usage *usage);
/* 0, -ESRCH, -EBADMSG or -errno. */
int proc_usage_read(struct proc_usage *ret, pid_t pid);

/*
 * A small file of /proc/PID in one read of at most cap - 1 bytes, with a NUL behind it.
 * Bytes, -ESRCH or -errno.
 */
ssize_t proc_file_read(char *dst, size_t cap, pid_t pid, const char *name);

/*
 * Arguments with a NUL after each, as far as they fit into cap - 1 and PROC_CMDLINE_MAX - 1; a NUL
 * behind them. They lie in the memory of the process, where reading may hang. Bytes, -ETIMEDOUT or
 * -errno.
 */
ssize_t proc_argv_read(struct deadline_runner *runner, char *dst, size_t cap, pid_t pid);

/*
 * Arguments with blanks between them, cut at cap - 1 and PROC_CMDLINE_MAX - 1; empty for kernel
 * threads. 0, -ETIMEDOUT or -errno.
 */
int proc_cmdline_read(struct deadline_runner *runner, char *dst, size_t cap, pid_t pid);

#endif
