/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_ELF_SYMBOLS_H
#define BPFPROF_ELF_SYMBOLS_H

/*
 * Names for many addresses of one image in one pass over its symbol tables,
 * so that memory follows the number of addresses and not the size of the file.
 * Looks at .symtab, .dynsym, .gnu_debugdata (xz; MiniDebugInfo), Go's function table, then a separate
 * debug file by build id or .gnu_debuglink: each is asked for what those before it left without a name. Whatever
 * has the address covered wins; among several covering symbols of one table: the innermost, then
 * functions before others, global before weak before local, then the shorter name. A
 * function that merely precedes the address is never taken: a symbol without a size counts only
 * as symtab.c says. PLT code is named `name@plt` if that is known from the relocations, else
 * not named.
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
	uint64_t
		function; /* start of the function by the unwind table, see elf_starts_fn; 0: none */
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

/* Sets function of those of syms[0..nr) that have no name. */
typedef void (*elf_starts_fn)(void *arg, struct elf_symbol *syms, size_t nr);

struct elf_starts {
	elf_starts_fn find;
	void *arg;
};

/*
 * Fills in name, value and bytes of syms[0..nr). paths may be NULL (no separate files), and so may
 * starts (no unwind table). 0 also when nothing was found; -EBADMSG if a table was malformed, -E2BIG
 * over our limits (what was found before stays), -ENOMEM, or why the file was not read. Entries that
 * have a name already are left alone.
 */
int elf_symbols_resolve(struct elf_image *img, const struct elf_debug_paths *paths,
			const struct elf_starts *starts, struct strtab *names,
			struct elf_symbol *syms, size_t nr);

#endif
