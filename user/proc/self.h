/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROC_SELF_H
#define BPFPROF_PROC_SELF_H

/* The memory and CPU time that bpfprof itself takes. */

#include <stdint.h>

struct self_usage {
	uint64_t rss_bytes, peak_rss_bytes;
	/* Anonymous, shared and private file memory, without memory-mapped BPF maps. */
	uint64_t own_bytes;
	double cpu_seconds;
	double age_seconds; /* since exec, to the resolution of clock ticks */
};

/* Memory that no other process shares, not even the parent. 0: not known. */
uint64_t self_private_bytes(void);

/* The part of own_bytes that grows; cheap to read. 0: not known. */
uint64_t self_anonymous_bytes(void);

int self_usage_read(struct self_usage *ret); /* 0 or -errno */

#endif
