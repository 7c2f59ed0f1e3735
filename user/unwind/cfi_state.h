/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_UNWIND_CFI_STATE_H
#define BPFPROF_UNWIND_CFI_STATE_H

/* Shared by the files behind cfi.h: cfi.c (tables), cfi_code.c and cfi_learn.c (code without tables). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/function_starts.h"
#include "elf/go_table.h"
#include "elf/image.h"
#include "unwind/eh_frame.h"

struct insn_rule;

/* Go's .debug_frame has less than its own table: no frame pointer, no changes of stacks and no ends of stacks. */
enum { TABLE_EH_FRAME, TABLE_GO, TABLE_DEBUG_FRAME, NR_TABLES };

struct cfi {
	struct elf_image *img;
	struct eh_frame
		frames[NR_TABLES]; /* the next one is used for code that one does not cover */
	struct go_table go; /* for TABLE_GO */
	int errors[NR_TABLES]; /* of finding and of indexing a table: neither is tried again */
	size_t nr_code;
	struct elf_segment code[ELF_IMAGE_MAX_SEGMENTS]; /* executable, by file offset */
	struct insn_rule *learned; /* by offset */
	size_t nr_learned, cap_learned;
	struct function_starts starts; /* of symbols; empty until code is read */
};

/* The same among the tables that have FDEs. */
int cfi_frame_after(struct cfi *cfi, int table);
/* Working memory for one call; the caller frees it. Fails if the FDEs of .eh_frame cannot be read. */
int cfi_pass_new(struct cfi *cfi, struct eh_pass **ret);
/* The executable segment of a file offset, or NULL. */
const struct elf_segment *cfi_segment_of(const struct cfi *cfi, uint64_t off);
/* The first learned rule that ends after off. */
size_t cfi_learned_after(const struct cfi *cfi, uint64_t off);

/* Do symbols name all functions around off? */
bool cfi_starts_complete(struct cfi *cfi, uint64_t off);

#define CFI_ENTRY_BYTES 128 /* of the first code of a program */

/* Reads at most len bytes of the code at off: their number, or -errno. */
int cfi_code_read(struct cfi *cfi, uint64_t off, uint8_t *code, size_t len);
/* Reads the first code of a program: the number of bytes, 0 if no process begins in it, or -errno. */
int cfi_entry_read(struct cfi *cfi, uint64_t *ret_off, uint8_t code[CFI_ENTRY_BYTES]);

#endif
