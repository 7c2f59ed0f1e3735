// SPDX-License-Identifier: Apache-2.0
#include "cuda/relocations.h"

#include <errno.h>
#include <string.h>

#include "elf/dynamic.h"
#include "elf/image.h"
#include "elf/reloc_kind.h"

#define CHUNK 64

/* A static program has no PT_DYNAMIC, and its start-up code knows where the array is. */
static void init_by_section(struct relocations *relocs, struct elf_image *img)
{
	const struct elf_section *secs;
	size_t nr, i;

	secs = elf_image_sections(img, &nr);
	for (i = 0; i < nr; i++) {
		if (secs[i].type != SHT_INIT_ARRAY || !(secs[i].flags & SHF_ALLOC))
			continue;
		relocs->init_va = secs[i].va;
		relocs->init_bytes = secs[i].bytes;
		return;
	}
}

static int table_init(struct relocations *relocs, uint32_t table, struct elf_image *img,
		      uint64_t va, uint64_t bytes)
{
	uint64_t nr = bytes / sizeof(Elf64_Rela);

	if (!va || !nr)
		return 0;
	if (nr > RELOCATIONS_MAX)
		return -E2BIG;
	if (elf_image_rva_to_off(img, va, &relocs->tables[table].off))
		return -EBADMSG;
	relocs->tables[table].nr = nr;
	return 0;
}

int relocations_init(struct relocations *ret, struct elf_image *img)
{
	struct elf_dynamic dyn;
	const uint64_t *tags = dyn.tags;
	int err = elf_dynamic_read(&dyn, img);

	if (err && err != -ENODATA)
		return err;
	*ret = (struct relocations){ .init_va = tags[DT_INIT_ARRAY],
				     .init_bytes = tags[DT_INIT_ARRAY] ? tags[DT_INIT_ARRAYSZ] : 0,
				     .symbols_va = tags[DT_SYMTAB],
				     .strings_va = tags[DT_STRTAB],
				     .strings_bytes = tags[DT_STRSZ] };
	if (!ret->init_va)
		init_by_section(ret, img);
	err = table_init(ret, 0, img, tags[DT_RELA], tags[DT_RELASZ]);
	if (!err && tags[DT_PLTREL] == DT_RELA)
		err = table_init(ret, 1, img, tags[DT_JMPREL], tags[DT_PLTRELSZ]);
	return err;
}

static void decode(const Elf64_Rela *rela, struct relocation *ret)
{
	*ret = (struct relocation){ .rva = rela->r_offset };
	switch (reloc_kind(ELF64_R_TYPE(rela->r_info))) {
	case RELOC_RELATIVE:
		ret->is_known = true;
		ret->value = (uint64_t)rela->r_addend;
		break;
	case RELOC_ABSOLUTE:
		if (rela->r_addend)
			break;
		ret->symbol = ELF64_R_SYM(rela->r_info);
		break;
	case RELOC_SYMBOL:
		ret->symbol = ELF64_R_SYM(rela->r_info);
		break;
	default:
		break;
	}
}

int relocations_get(const struct relocations *relocs, struct elf_image *img, uint64_t first,
		    struct relocation *ret, uint32_t nr)
{
	Elf64_Rela relas[CHUNK];
	uint32_t table = 0, i;
	uint64_t left;
	int err;

	if (first >= relocs->tables[0].nr) {
		first -= relocs->tables[0].nr;
		table = 1;
	}
	if (first >= relocs->tables[table].nr)
		return 0;
	left = relocs->tables[table].nr - first;
	if (nr > CHUNK)
		nr = CHUNK;
	if (nr > left)
		nr = (uint32_t)left;
	err = elf_image_read(img, relocs->tables[table].off + first * sizeof(relas[0]), relas,
			     nr * sizeof(relas[0]));
	if (err)
		return err;
	for (i = 0; i < nr; i++)
		decode(&relas[i], &ret[i]);
	return (int)nr;
}

static int symbol_read(const struct relocations *relocs, struct elf_image *img, uint32_t symbol,
		       Elf64_Sym *ret)
{
	uint64_t off;

	if (!symbol || !relocs->symbols_va || elf_image_rva_to_off(img, relocs->symbols_va, &off))
		return -ENOENT;
	return elf_image_read(img, off + symbol * sizeof(*ret), ret, sizeof(*ret));
}

int relocations_symbol(const struct relocations *relocs, struct elf_image *img, uint32_t symbol,
		       uint64_t *ret_rva)
{
	Elf64_Sym sym;
	int err = symbol_read(relocs, img, symbol, &sym);

	if (err)
		return err;
	if (sym.st_shndx == SHN_UNDEF || sym.st_shndx == SHN_ABS ||
	    ELF64_ST_TYPE(sym.st_info) == STT_TLS || ELF64_ST_TYPE(sym.st_info) == STT_GNU_IFUNC)
		return -ENOENT;
	*ret_rva = sym.st_value;
	return 0;
}

int relocations_symbol_name(const struct relocations *relocs, struct elf_image *img,
			    uint32_t symbol, char name[RELOCATIONS_NAME_BYTES])
{
	uint64_t off, len = RELOCATIONS_NAME_BYTES - 1;
	Elf64_Sym sym;
	int err = symbol_read(relocs, img, symbol, &sym);

	if (err)
		return err;
	if (sym.st_name >= relocs->strings_bytes || !relocs->strings_va ||
	    elf_image_rva_to_off(img, relocs->strings_va, &off))
		return -ENOENT;
	if (relocs->strings_bytes - sym.st_name < len)
		len = relocs->strings_bytes - sym.st_name;
	memset(name, 0, RELOCATIONS_NAME_BYTES);
	return elf_image_read(img, off + sym.st_name, name, len);
}
