// SPDX-License-Identifier: Apache-2.0
#include "cuda/relocations.h"

#include <errno.h>
#include <string.h>

#include "elf/image.h"

#define MAX_DYNAMIC_BYTES (16384U)
#define CHUNK 64

struct dynamic {
	uint64_t init, init_bytes, rela, rela_bytes, plt, plt_bytes, plt_kind;
	uint64_t symbols, strings, strings_bytes;
};

static void dynamic_note(struct dynamic *dyn, const Elf64_Dyn *entry)
{
	switch (entry->d_tag) {
	case DT_INIT_ARRAY:
		dyn->init = entry->d_un.d_ptr;
		break;
	case DT_INIT_ARRAYSZ:
		dyn->init_bytes = entry->d_un.d_val;
		break;
	case DT_RELA:
		dyn->rela = entry->d_un.d_ptr;
		break;
	case DT_RELASZ:
		dyn->rela_bytes = entry->d_un.d_val;
		break;
	case DT_JMPREL:
		dyn->plt = entry->d_un.d_ptr;
		break;
	case DT_PLTRELSZ:
		dyn->plt_bytes = entry->d_un.d_val;
		break;
	case DT_PLTREL:
		dyn->plt_kind = entry->d_un.d_val;
		break;
	case DT_SYMTAB:
		dyn->symbols = entry->d_un.d_ptr;
		break;
	case DT_STRTAB:
		dyn->strings = entry->d_un.d_ptr;
		break;
	case DT_STRSZ:
		dyn->strings_bytes = entry->d_un.d_val;
		break;
	default:
		break;
	}
}

static int dynamic_read(struct dynamic *dyn, struct elf_image *img)
{
	const struct elf_segment *segs;
	uint64_t off, end;
	Elf64_Dyn entry;
	size_t nr, i;
	int err;

	segs = elf_image_segments(img, &nr);
	for (i = 0; i < nr && segs[i].type != PT_DYNAMIC; i++)
		;
	if (i == nr)
		return 0;
	end = segs[i].file_bytes < MAX_DYNAMIC_BYTES ? segs[i].file_bytes : MAX_DYNAMIC_BYTES;
	for (off = 0; off + sizeof(entry) <= end; off += sizeof(entry)) {
		err = elf_image_read(img, segs[i].off + off, &entry, sizeof(entry));
		if (err)
			return err;
		if (entry.d_tag == DT_NULL)
			break;
		dynamic_note(dyn, &entry);
	}
	return 0;
}

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
	struct dynamic dyn = { 0 };
	int err = dynamic_read(&dyn, img);

	if (err)
		return err;
	*ret = (struct relocations){ .init_va = dyn.init,
				     .init_bytes = dyn.init ? dyn.init_bytes : 0,
				     .symbols_va = dyn.symbols,
				     .strings_va = dyn.strings,
				     .strings_bytes = dyn.strings_bytes };
	if (!dyn.init)
		init_by_section(ret, img);
	err = table_init(ret, 0, img, dyn.rela, dyn.rela_bytes);
	if (!err && dyn.plt_kind == DT_RELA)
		err = table_init(ret, 1, img, dyn.plt, dyn.plt_bytes);
	return err;
}

uint64_t relocations_count(const struct relocations *relocs)
{
	return relocs->tables[0].nr + relocs->tables[1].nr;
}

static void decode(const Elf64_Rela *rela, struct relocation *ret)
{
	*ret = (struct relocation){ .rva = rela->r_offset };
	switch (ELF64_R_TYPE(rela->r_info)) {
	case R_X86_64_RELATIVE:
		ret->is_known = true;
		ret->value = (uint64_t)rela->r_addend;
		break;
	case R_X86_64_64:
		if (rela->r_addend)
			break;
		ret->symbol = ELF64_R_SYM(rela->r_info);
		break;
	case R_X86_64_GLOB_DAT:
	case R_X86_64_JUMP_SLOT:
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
