/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_ELF_SYMBOLS_H
#define BPFPROF_ELF_SYMBOLS_H

/*
 * Names for many addresses of one image in one pass over its symbol tables: memory follows the number
 * of addresses and not the size of the file. Reads .symtab, .dynsym, .gnu_debugdata (xz;
 * MiniDebugInfo), Go's function table, then a separate debug file by build id or .gnu_debuglink; each
 * table is read only for addresses without a name so far. The symbol that covers the address wins; among
 * several of one table the innermost, then functions before others, global before weak before local,
 * then the shorter name. A function that merely precedes the address is never taken: symtab.c has the
 * rules for symbols without a size. PLT code is `name@plt` if the relocations have the name, else it
 * has no name.
 */

#include <stddef.h>
#include <stdint.h>

struct elf_image;
struct strtab;

struct elf_symbol {
	uint64_t rva; /* the address, ascending */
	uint32_t name; /* id in names, mangled as in the file; 0 = no symbol covers rva */
	uint64_t value; /* start of the symbol */
	uint64_t bytes; /* 0: the symbol has no size and is known to cover rva only */
	uint64_t function; /* start of the function by the unwind table (elf_starts_fn); 0: none */
	/*
	 * All addresses in [same_start, same_end) have the same answer. The caller sets same_end to
	 * UINT64_MAX if it needs them, else both to 0.
	 */
	uint64_t same_start, same_end;
	uint32_t file; /* source file of Go code, id in names; else 0 */
	uint32_t line; /* line of rva in Go code; else 0 */
	uint32_t start_line; /* line of the start of the Go function; else 0 */
};

/* Opens a separate debug file: an image, or NULL. */
typedef struct elf_image *(*elf_open_fn)(void *arg, const char *path);

struct elf_debug_paths {
	const char *dir; /* folder of the image itself, for .gnu_debuglink; may be NULL */
	const char *root; /* normally /usr/lib/debug */
	elf_open_fn open;
	void *arg;
};

/* Sets `function` of the entries of syms[0..nr) without a name. */
typedef void (*elf_starts_fn)(void *arg, struct elf_symbol *syms, size_t nr);

struct elf_starts {
	elf_starts_fn find;
	void *arg;
};

/*
 * Fills in name, value and bytes of the entries of syms[0..nr) without a name. paths may be NULL (no
 * separate files), and so may starts (no unwind table). 0 also if nothing was found; -EBADMSG if a table
 * was malformed, -E2BIG over our limits (the names found before stay), -ENOMEM, or the error of reading.
 */
int elf_symbols_resolve(struct elf_image *img, const struct elf_debug_paths *paths,
			const struct elf_starts *starts, struct strtab *names,
			struct elf_symbol *syms, size_t nr);

#endif
