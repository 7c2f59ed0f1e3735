/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_UNWIND_READER_H
#define BPFPROF_UNWIND_READER_H

/*
 * Memory of a target for bpf/unwind_native.h in user space. A reader's own struct has struct
 * unwind_reader as its first member.
 */

#include <linux/types.h>

struct unwind_reader {
	/* Reads exactly len bytes at va: 0, or negative if any of them cannot be read. */
	int (*read)(struct unwind_reader *reader, __u64 va, void *dst, __u32 len);
	/* NULL, or notes that these bytes are read soon: the next read that has to wait brings them, too. */
	void (*want)(struct unwind_reader *reader, __u64 va, __u64 len);
};

static inline int unwind_read(struct unwind_reader *reader, __u64 va, void *dst, __u32 len)
{
	return reader->read(reader, va, dst, len);
}

static inline int unwind_read_u64(struct unwind_reader *reader, __u64 va, __u64 *dst)
{
	return reader->read(reader, va, dst, sizeof(*dst));
}

#endif
