// SPDX-License-Identifier: Apache-2.0
#include "elf/unrelocate.h"

#include <elf.h>
#include <string.h>

static void dynamic_entry(uint8_t *at, uint64_t bias)
{
	Elf64_Dyn dyn;

	memcpy(&dyn, at, sizeof(dyn));
	switch (dyn.d_tag) {
	case DT_SYMTAB:
	case DT_STRTAB:
	case DT_HASH:
	case DT_GNU_HASH:
	case DT_JMPREL:
	case DT_PLTGOT:
	case DT_RELA:
	case DT_VERSYM:
		if (dyn.d_un.d_ptr < bias)
			return;
		dyn.d_un.d_ptr -= bias;
		memcpy(at, &dyn, sizeof(dyn));
	}
}

void elf_unrelocate_head(void *head, size_t len, uint64_t base, struct elf_loaded *ret)
{
	Elf64_Ehdr ehdr;
	Elf64_Phdr phdr;
	uint64_t off;
	size_t i;

	*ret = (struct elf_loaded){ 0 };
	if (len < sizeof(ehdr))
		return;
	memcpy(&ehdr, head, sizeof(ehdr));
	if (memcmp(ehdr.e_ident, ELFMAG, SELFMAG) || ehdr.e_phentsize != sizeof(phdr))
		return;
	/* Section headers are not loaded; in their place the loader has cleared .bss. */
	ehdr.e_shoff = 0;
	ehdr.e_shnum = 0;
	ehdr.e_shstrndx = 0;
	memcpy(head, &ehdr, sizeof(ehdr));
	for (i = 0; i < ehdr.e_phnum; i++) {
		off = ehdr.e_phoff + i * sizeof(phdr);
		if (ehdr.e_phoff > len || off > len - sizeof(phdr))
			return;
		memcpy(&phdr, (uint8_t *)head + off, sizeof(phdr));
		if (phdr.p_type == PT_LOAD && !phdr.p_offset && base >= phdr.p_vaddr)
			ret->bias = base - phdr.p_vaddr;
		if (phdr.p_type == PT_DYNAMIC) {
			ret->dynamic_off = phdr.p_offset;
			ret->dynamic_bytes = phdr.p_filesz;
		}
	}
}

void elf_unrelocate_dynamic(void *dynamic, size_t len, uint64_t bias)
{
	size_t off;

	for (off = 0; bias && off + sizeof(Elf64_Dyn) <= len; off += sizeof(Elf64_Dyn))
		dynamic_entry((uint8_t *)dynamic + off, bias);
}
