/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_ELF_GO_TABLE_H
#define BPFPROF_ELF_GO_TABLE_H

/*
 * The function table of a Go program (.gopclntab). Every Go program has one, stripped or not: for each
 * function its name, its file, and tables of line numbers and of the stack pointer by pc. Read in small
 * pieces, by binary search; nothing in it is trusted. Tables of Go 1.2 and newer, as far as a
 * Go since 1.15 writes them.
 * Errors: -ENODATA there is no table, -EBADMSG malformed, and those of elf_image_read().
 * Reference: "Go 1.2 Runtime Symbol Information" (golang.org/s/go12symtab), and for later tables the comments
 * at pcHeader and _func in Go's src/runtime/symtab.go and runtime2.go.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf_image;

#define GO_TABLE_MAX_FUNCTIONS (4U << 20)
#define GO_NAME_MAX 4096 /* of a function or file; a longer one is cut */

enum go_version { GO_1_2 = 1, GO_1_16, GO_1_18, GO_1_20 };

struct go_table {
	struct elf_image *img;
	enum go_version version;
	uint64_t off, bytes; /* of the table in the file; it ends there or earlier */
	uint64_t text; /* image-relative address that functions are relative to; 0 before Go 1.18 */
	uint64_t start, end; /* image-relative addresses that functions cover */
	uint64_t nr_functions;
	/* Parts of the table, relative to off. */
	uint64_t functions, names, units, files, values;
};

struct go_function {
	uint64_t start, end; /* image-relative; padding behind the code belongs to it */
	uint32_t name, unit;
	uint32_t sp_values, file_values, line_values; /* 0: there is no such table */
	int32_t start_line; /* 0: not known */
	uint8_t id, flags;
};

/* Flags: since Go 1.17 */
#define GO_TOP_FRAME 1
#define GO_SP_WRITE 2
#define GO_ASM 4 /* since Go 1.18 */

/*
 * Finds the table by its section, or by its first bytes in programs without section headers or whose
 * linker put it into another section. Borrows img.
 */
int go_table_find(struct go_table *ret, struct elf_image *img);

/* The function that has rva, or -ENODATA. *ret_index is its number, see below. */
int go_table_function(const struct go_table *tab, uint64_t rva, struct go_function *ret,
		      uint64_t *ret_index);
int go_table_function_at(const struct go_table *tab, uint64_t index, struct go_function *ret);

/*
 * Some return addresses are the first byte of a function: those of the signal handler and of
 * systemstack_switch, which has not really called. A walker looks up the byte before a return address. So
 * the last byte of padding before a function counts as the function's: start - 1, or start if there is
 * no padding.
 */
uint64_t go_table_look_up_from(const struct go_table *tab, uint64_t start);

/* Length of the name, which is cut at cap - 1 bytes; -EBADMSG without one. */
int go_table_name(const struct go_table *tab, const struct go_function *fn, char *name, size_t cap);

/* Walks through one of a function's tables: [start, end) has value. */
struct go_values {
	const struct go_table *tab;
	uint64_t pos;
	uint64_t start, end, limit; /* image-relative */
	int32_t value;
	bool first;
};

void go_values_init(struct go_values *v, const struct go_table *tab, const struct go_function *fn,
		    uint32_t values);
/* 1, 0 at the end of the function or of its table, or -errno. Skips empty parts. */
int go_values_next(struct go_values *v);

/* The line of rva in fn and the file's name. -ENODATA if the compiler wrote none. */
int go_table_line(const struct go_table *tab, const struct go_function *fn, uint64_t rva,
		  int32_t *ret_line, char *file, size_t cap);

#endif
