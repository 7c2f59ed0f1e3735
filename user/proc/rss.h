/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROC_RSS_H
#define BPFPROF_PROC_RSS_H

/* The memory of a process by kind, from /proc/PID/status, which needs no ptrace rights. */

#include <stdint.h>
#include <sys/types.h>

struct proc_rss {
	uint64_t anon_bytes; /* RssAnon */
	uint64_t file_bytes; /* RssFile: mapped pages of files */
	uint64_t shared_bytes; /* RssShmem: shared memory */
	uint64_t swap_bytes; /* VmSwap: anonymous memory that is not resident */
};

/* 0; -ESRCH: there is no such process, or it has no memory (any more); or -errno. */
int proc_rss_read(struct proc_rss *ret, pid_t pid);
/* The same from the text of the file. */
int proc_rss_parse(struct proc_rss *ret, const char *text);

#endif
