// SPDX-License-Identifier: Apache-2.0
/* fuzz: max_len=2048 */
#include <linux/types.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct unwind_reader {
	const uint8_t *memory;
	__u64 va;
	__u32 len;
};

static int unwind_read(struct unwind_reader *reader, __u64 va, void *dst, __u32 len)
{
	__u64 off = va - reader->va;

	if (off >= reader->len || len > reader->len - off)
		return -1;
	memcpy(dst, reader->memory + off, len);
	return 0;
}

static int unwind_read_u64(struct unwind_reader *reader, __u64 va, __u64 *dst)
{
	return unwind_read(reader, va, dst, sizeof(*dst));
}

#include "unwind_native.h"

#define OTHER_STACK (1U << ROW_SIGNAL | 1U << ROW_FAR | 1U << ROW_GO_C)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Registers, rows and memory, all of them anything. rsp may only rise, but where a row leads to another stack. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct unwind_state s = { 0 };
	struct unwind_reader reader;
	__u64 rows[16], sp;
	int stop = 0;

	if (size < sizeof(s.regs) + sizeof(rows) + 16)
		return 0;
	memcpy(s.regs, data, sizeof(s.regs));
	data += sizeof(s.regs);
	memcpy(rows, data, sizeof(rows));
	data += sizeof(rows);
	memcpy(&s.valid, data, 4);
	memcpy(&s.exact, data + 4, 4);
	memcpy(&reader.va, data + 8, 8);
	reader.memory = data + 16;
	reader.len = (__u32)(size - sizeof(s.regs) - sizeof(rows) - 16);
	for (__u32 i = 0; i < BPFPROF_MAX_USER_FRAMES && !stop; i++) {
		__u64 row = rows[unwind_lookup_pc(&s) % 16];

		sp = s.regs[UNWIND_RSP];
		stop = unwind_step(&s, row, &reader);
		if (stop < 0 || stop >= BPFPROF_NR_STOPS)
			abort();
		if (!stop && !(OTHER_STACK & 1U << unwind_row_kind(row)) &&
		    s.regs[UNWIND_RSP] <= sp)
			abort();
		unwind_settle(&s, &reader);
	}
	return 0;
}
