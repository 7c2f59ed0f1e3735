/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_ELF_SYMBOLS_H
#define BPFPROF_ELF_SYMBOLS_H

/*
 * Names for many addresses of one image in one pass over its symbol tables,
 * so that memory follows the number of addresses and not the size of the file.
 * Looks at .symtab, else .dynsym, .gnu_debugdata (xz; MiniDebugInfo), then Go's function table, then a separate
 * debug file by build id or .gnu_debuglink. Whatever has the address covered
 * wins; among several covering symbols: the innermost, then global before
 * weak before local, then the shorter name. A function that merely precedes
 * the address is never taken. PLT code is named `name@plt` if that is known from
 * the relocations, else not named.
 */

#include <stddef.h>
#include <stdint.h>

struct elf_image;
struct strtab;

struct elf_symbol {
	uint64_t rva; /* what is asked for, ascending */
	uint32_t name; /* id in names, mangled as in the file; 0 = no symbol covers rva */
	uint64_t value; /* start of the symbol */
	uint64_t bytes; /* 0 = the symbol has no size: only rva itself is known to be in it */
	/*
	 * Set same_end to UINT64_MAX to be told where else the answer is the same: from same_start
	 * up to same_end. Both 0: nobody asked.
	 */
	uint64_t same_start, same_end;
	/* Of Go programs, else 0: source file (id in names), line of rva, and where the function begins. */
	uint32_t file, line, start_line;
};

/* How a separate debug file is opened: an image, or NULL. */
typedef struct elf_image *(*elf_open_fn)(void *arg, const char *path);

struct elf_debug_paths {
	const char *dir; /* folder of the image itself, for .gnu_debuglink; may be NULL */
	const char *root; /* normally /usr/lib/debug */
	elf_open_fn open;
	void *arg;
};

/*
 * Fills in name, value and bytes of syms[0..nr). paths may be NULL (no separate
 * files). 0 also when nothing was found; -EBADMSG if a table was malformed, -E2BIG over our
 * limits (what was found before stays), -ENOMEM. Entries that have a name already are left alone.
 */
int elf_symbols_resolve(struct elf_image *img, const struct elf_debug_paths *paths,
			struct strtab *names, struct elf_symbol *syms, size_t nr);

#endif
