/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROC_USAGE_H
#define BPFPROF_PROC_USAGE_H

/* The files of /proc/PID that need no ptrace rights: stat and cmdline. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PROC_CMDLINE_MAX 4096

struct deadline_runner;

struct proc_usage {
	uint64_t cpu_ns; /* user and system, all threads, exited ones too */
	uint64_t rss_bytes;
	uint64_t start_ns; /* since boot, to the resolution of clock ticks */
	uint32_t nr_threads;
	char state; /* R S D Z T ... */
	uint32_t flags; /* PF_* */
	pid_t parent;
	char comm[64];
};

#define PROC_PF_EXITING 0x00000004U
#define PROC_PF_KTHREAD 0x00200000U

/* Neither a kernel thread nor a zombie. */
bool proc_usage_has_memory(const struct proc_usage *usage);
/* start_ns in clock ticks, as the stat file has it. */
uint64_t proc_usage_start_ticks(const struct proc_usage *usage);
/* 0, -ESRCH, -EBADMSG or -errno. */
int proc_usage_read(struct proc_usage *ret, pid_t pid);

/*
 * Reads a small file of /proc/PID in one read of at most cap - 1 bytes and ends it with a NUL. The number
 * of bytes, -ESRCH or -errno.
 */
ssize_t proc_file_read(char *dst, size_t cap, pid_t pid, const char *name);

/*
 * Reads the arguments, a NUL after each, cut at cap - 1 and PROC_CMDLINE_MAX - 1 bytes, with one more
 * NUL. They lie in the memory of the process, where reading may hang. The number of bytes, -ETIMEDOUT
 * or -errno.
 */
ssize_t proc_argv_read(struct deadline_runner *runner, char *dst, size_t cap, pid_t pid);

/*
 * Reads the arguments with blanks between them, cut at cap - 1 and PROC_CMDLINE_MAX - 1 bytes; kernel
 * threads have none. 0, -ETIMEDOUT or -errno.
 */
int proc_cmdline_read(struct deadline_runner *runner, char *dst, size_t cap, pid_t pid);

#endif
