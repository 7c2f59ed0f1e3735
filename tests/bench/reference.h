/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TESTS_BENCH_REFERENCE_H
#define BPFPROF_TESTS_BENCH_REFERENCE_H

/* What reference.bpf.c sends to reference.c for one sample. */

#define REFERENCE_MAX_FRAMES 127

struct reference_record {
	__u64 ts_ns;
	__u32 pid;
	__u32 tid;
	__u32 cpu;
	__u32 kernel_bytes; /* of frames[]: the kernel's first, then the user's */
	__u32 user_bytes;
	__u32 pad;
	char comm[16];
	__u64 frames[2 * REFERENCE_MAX_FRAMES];
};

#endif
