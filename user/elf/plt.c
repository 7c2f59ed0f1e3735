// SPDX-License-Identifier: Apache-2.0
#include "elf/plt.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/sorted.h"
#include "base/strtab.h"
#include "elf/image.h"
#include "elf/plt_entry.h"
#include "elf/reloc_kind.h"
#include "elf/symbols.h"
#include "elf/symtab.h"

#define CHUNK_RELOCS 1024
#define MAX_RELOCS (8U << 20)

/* One address in a PLT. */
struct slot {
	uint64_t got; /* the word that the entry jumps through */
	uint64_t resolver; /* of a RELOC_RESOLVER: the ifunc that picks the target */
	uint32_t symbol; /* index in .dynsym; 0: none yet */
	size_t query;
	uint64_t start, bytes; /* of the PLT entry */
};

static const struct elf_section *plt_section(struct elf_image *img, uint64_t rva)
{
	static const char *const plts[] = { ".plt", ".plt.sec", ".plt.got", ".plt.bnd", ".iplt" };
	const struct elf_section *sec;
	size_t nr, i, k;

	sec = elf_image_sections(img, &nr);
	for (i = 0; i < nr; i++) {
		if (sec[i].type != SHT_PROGBITS || rva < sec[i].va ||
		    rva - sec[i].va >= sec[i].bytes)
			continue;
		for (k = 0; k < sizeof(plts) / sizeof(plts[0]); k++)
			if (elf_image_section_is(img, &sec[i], plts[k]))
				return &sec[i];
	}
	return NULL;
}

/* The n-th relocation of .rela.plt. */
static int reloc_at(struct elf_image *img, uint64_t index, uint64_t *ret_off)
{
	const struct elf_section *sec = elf_image_section(img, ".rela.plt");
	Elf64_Rela rela;
	int err;

	if (!sec || sec->type != SHT_RELA || index >= sec->bytes / sizeof(rela))
		return -ENOENT;
	err = elf_image_read(img, sec->off + index * sizeof(rela), &rela, sizeof(rela));
	if (!err)
		*ret_off = rela.r_offset;
	return err;
}

static bool slot_decode(struct elf_image *img, const struct elf_section *sec, uint64_t rva,
			struct slot *ret)
{
	uint64_t entry = plt_entry_bytes(sec);
	uint64_t start, got;
	uint8_t code[PLT_ENTRY_MAX_BYTES] = { 0 };
	bool is_index;

	start = rva - (rva - sec->va) % entry;
	if (sec->va + sec->bytes - start < entry)
		return false;
	if (elf_image_read(img, sec->off + (start - sec->va), code, entry) ||
	    !plt_entry_decode(code, entry, start, &got, &is_index))
		return false;
	if (is_index && reloc_at(img, got, &got))
		return false;
	*ret = (struct slot){ .got = got, .start = start, .bytes = entry };
	return true;
}

static int slot_compare(const void *a, const void *b)
{
	const struct slot *x = a, *y = b;

	return sorted_order(x->got, y->got);
}

static int slot_compare_resolver(const void *a, const void *b)
{
	const struct slot *x = a, *y = b;

	return sorted_order(x->resolver, y->resolver);
}

static void offer_reloc(const Elf64_Rela *rela, struct slot *slots, size_t nr)
{
	enum reloc_kind kind = reloc_kind(ELF64_R_TYPE(rela->r_info));
	size_t low;

	if (kind != RELOC_SYMBOL && kind != RELOC_RESOLVER)
		return;
	low = sorted_count(nr, i, slots[i].got < rela->r_offset);
	for (; low < nr && slots[low].got == rela->r_offset; low++) {
		if (slots[low].symbol ||
		    slots[low].resolver) /* hostile: one word, many relocations */
			break;
		if (kind == RELOC_RESOLVER)
			slots[low].resolver = (uint64_t)rela->r_addend;
		else
			slots[low].symbol = ELF64_R_SYM(rela->r_info);
	}
}

/* One pass over every relocation section. */
static int scan_relocs(struct elf_image *img, struct slot *slots, size_t nr_slots)
{
	__cleanup(free_mem) Elf64_Rela *chunk = malloc(CHUNK_RELOCS * sizeof(*chunk));
	const struct elf_section *sec;
	uint64_t nr_relocs, total = 0, k, part, n;
	size_t nr, i;
	int err;

	if (!chunk)
		return -ENOMEM;
	sec = elf_image_sections(img, &nr);
	for (i = 0; i < nr; i++) {
		if (sec[i].type != SHT_RELA || !(sec[i].flags & SHF_ALLOC))
			continue;
		nr_relocs = sec[i].bytes / sizeof(*chunk);
		if (nr_relocs > MAX_RELOCS - total)
			return -E2BIG;
		total += nr_relocs;
		for (k = 0; k < nr_relocs; k += part) {
			part = nr_relocs - k < CHUNK_RELOCS ? nr_relocs - k : CHUNK_RELOCS;
			err = elf_image_read(img, sec[i].off + k * sizeof(*chunk), chunk,
					     part * sizeof(*chunk));
			if (err)
				return err;
			for (n = 0; n < part; n++)
				offer_reloc(&chunk[n], slots, nr_slots);
		}
	}
	return 0;
}

static void commit(const struct slot *slot, const char *name, struct strtab *names,
		   struct elf_symbol *syms)
{
	char plt[SYMTAB_MAX_NAME + 8];
	int len = snprintf(plt, sizeof(plt), "%s@plt", name);

	syms[slot->query].name = strtab_add_len(names, plt, (size_t)len);
	syms[slot->query].value = slot->start;
	syms[slot->query].bytes = slot->bytes;
	if (syms[slot->query].same_end) {
		syms[slot->query].same_start = syms[slot->query].rva;
		syms[slot->query].same_end = syms[slot->query].rva + 1;
	}
}

static int name_by_symbol(struct elf_image *img, struct strtab *names, struct elf_symbol *syms,
			  const struct slot *slots, size_t nr)
{
	char name[SYMTAB_MAX_NAME];
	struct symtab dynsym;
	Elf64_Sym sym;
	size_t i;
	int err;

	err = symtab_open(&dynsym, img, SHT_DYNSYM);
	if (err)
		return err == -ENODATA ? 0 : err;
	for (i = 0; i < nr; i++) {
		if (!slots[i].symbol || slots[i].symbol >= dynsym.nr)
			continue;
		err = elf_image_read(img, dynsym.off + slots[i].symbol * sizeof(sym), &sym,
				     sizeof(sym));
		if (err)
			return err;
		err = symtab_name(&dynsym, sym.st_name, name);
		if (err < 0)
			return err;
		if (err)
			commit(&slots[i], name, names, syms);
	}
	return 0;
}

/* Calls of a file's own ifuncs (libc's memcpy, all in a static program) get the resolver's name. */
static int name_by_resolver(struct elf_image *img, struct strtab *names, struct elf_symbol *syms,
			    struct slot *slots, size_t nr)
{
	static const uint32_t types[] = { SHT_SYMTAB, SHT_DYNSYM };
	__cleanup(free_mem) struct elf_symbol *resolvers = calloc(nr, sizeof(*resolvers));
	struct symtab tab;
	size_t i;
	int err;

	if (!resolvers)
		return -ENOMEM;
	qsort(slots, nr, sizeof(*slots), slot_compare_resolver);
	for (i = 0; i < nr; i++)
		resolvers[i].rva = slots[i].resolver;
	for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		err = symtab_open(&tab, img, types[i]);
		if (!err)
			err = symtab_resolve(&tab, names, resolvers, nr);
		if (err && err != -ENODATA)
			return err;
	}
	for (i = 0; i < nr; i++)
		if (slots[i].resolver && resolvers[i].name &&
		    resolvers[i].value == resolvers[i].rva)
			commit(&slots[i], strtab_get(names, resolvers[i].name), names, syms);
	return 0;
}

int plt_resolve(struct elf_image *img, struct strtab *names, struct elf_symbol *syms, size_t nr)
{
	__cleanup(free_mem) struct slot *slots = NULL;
	const struct elf_section *plt;
	size_t nr_slots = 0, i;
	bool resolvers = false;
	int err;

	if (!elf_image_is_native(img) || !nr)
		return 0;
	slots = calloc(nr, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	for (i = 0; i < nr; i++) {
		plt = syms[i].name ? NULL : plt_section(img, syms[i].rva);
		if (plt && slot_decode(img, plt, syms[i].rva, &slots[nr_slots]))
			slots[nr_slots++].query = i;
	}
	if (!nr_slots)
		return 0;
	qsort(slots, nr_slots, sizeof(*slots), slot_compare);
	err = scan_relocs(img, slots, nr_slots);
	if (err)
		return err;
	err = name_by_symbol(img, names, syms, slots, nr_slots);
	for (i = 0; i < nr_slots; i++)
		resolvers |= slots[i].resolver != 0;
	if (!err && resolvers)
		err = name_by_resolver(img, names, syms, slots, nr_slots);
	return err;
}
