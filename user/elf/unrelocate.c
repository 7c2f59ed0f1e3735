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

void elf_unrelocate(void *image, size_t len, uint64_t base)
{
	Elf64_Phdr phdr, dynamic = { 0 };
	uint64_t bias = 0, off;
	Elf64_Ehdr ehdr;
	size_t i;

	if (len < sizeof(ehdr))
		return;
	memcpy(&ehdr, image, sizeof(ehdr));
	if (memcmp(ehdr.e_ident, ELFMAG, SELFMAG) || ehdr.e_phentsize != sizeof(phdr))
		return;
	/* Section headers are not loaded; in their place the loader has cleared .bss. */
	ehdr.e_shoff = 0;
	ehdr.e_shnum = 0;
	ehdr.e_shstrndx = 0;
	memcpy(image, &ehdr, sizeof(ehdr));
	for (i = 0; i < ehdr.e_phnum; i++) {
		off = ehdr.e_phoff + i * sizeof(phdr);
		if (ehdr.e_phoff > len || off > len - sizeof(phdr))
			return;
		memcpy(&phdr, (uint8_t *)image + off, sizeof(phdr));
		if (phdr.p_type == PT_LOAD && !phdr.p_offset && base >= phdr.p_vaddr)
			bias = base - phdr.p_vaddr;
		if (phdr.p_type == PT_DYNAMIC)
			dynamic = phdr;
	}
	if (!bias || dynamic.p_offset > len || dynamic.p_filesz > len - dynamic.p_offset)
		return;
	for (off = 0; off + sizeof(Elf64_Dyn) <= dynamic.p_filesz; off += sizeof(Elf64_Dyn))
		dynamic_entry((uint8_t *)image + dynamic.p_offset + off, bias);
}
