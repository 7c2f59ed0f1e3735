// SPDX-License-Identifier: Apache-2.0
#include "elf/unrelocate.h"

#include <criterion/criterion.h>
#include <elf.h>
#include <string.h>

#define BASE 0x7f0000000000ULL
#define NR_HEADERS 3

struct head {
	Elf64_Ehdr ehdr;
	Elf64_Phdr phdrs[NR_HEADERS];
};

static struct head head_make(void)
{
	struct head head = {
		.ehdr = { .e_phoff = sizeof(Elf64_Ehdr),
			  .e_phentsize = sizeof(Elf64_Phdr),
			  .e_phnum = NR_HEADERS,
			  .e_shoff = 4096,
			  .e_shnum = 30,
			  .e_shstrndx = 29 },
		.phdrs = { { .p_type = PT_LOAD, .p_vaddr = 0x1000 },
			   { .p_type = PT_LOAD, .p_offset = 0x2000, .p_vaddr = 0x3000 },
			   { .p_type = PT_DYNAMIC, .p_offset = 0x2100, .p_filesz = 0x200 } },
	};

	memcpy(head.ehdr.e_ident, ELFMAG, SELFMAG);
	return head;
}

Test(unrelocate, head_has_no_sections)
{
	struct head head = head_make();
	struct elf_loaded loaded;

	elf_unrelocate_head(&head, sizeof(head), BASE, &loaded);
	cr_expect_eq(head.ehdr.e_shoff, 0);
	cr_expect_eq(head.ehdr.e_shnum, 0);
	cr_expect_eq(head.ehdr.e_shstrndx, 0);
	cr_expect_eq(loaded.bias, BASE - 0x1000);
	cr_expect_eq(loaded.dynamic_off, 0x2100);
	cr_expect_eq(loaded.dynamic_bytes, 0x200);
}

Test(unrelocate, malformed_heads)
{
	struct head head = head_make(), before;
	struct elf_loaded loaded;

	/* Program headers go on behind the head, or lie behind it. */
	elf_unrelocate_head(&head, sizeof(head) - 1, BASE, &loaded);
	cr_expect_eq(loaded.dynamic_bytes, 0);
	head = head_make();
	head.ehdr.e_phoff = UINT64_MAX - 8;
	elf_unrelocate_head(&head, sizeof(head), BASE, &loaded);
	cr_expect_eq(loaded.bias, 0);
	head = before = head_make();
	head.ehdr.e_ident[0] = before.ehdr.e_ident[0] = 0;
	elf_unrelocate_head(&head, sizeof(head), BASE, &loaded);
	cr_expect_eq(memcmp(&head, &before, sizeof(head)), 0);
	elf_unrelocate_head(&head, sizeof(Elf64_Ehdr) - 1, BASE, &loaded);
	cr_expect_eq(loaded.bias, 0);
}

Test(unrelocate, dynamic_section)
{
	Elf64_Dyn dyn[] = { { DT_SYMTAB, { .d_ptr = BASE + 0x40 } },
			    { DT_STRSZ, { .d_val = BASE + 7 } }, /* no pointer */
			    { DT_STRTAB, { .d_ptr = 0x50 } }, /* not relocated, as musl leaves it */
			    { DT_GNU_HASH, { .d_ptr = BASE + 0x60 } } };

	/* The last entry is not whole. */
	elf_unrelocate_dynamic(dyn, sizeof(dyn) - 1, BASE);
	cr_expect_eq(dyn[0].d_un.d_ptr, 0x40);
	cr_expect_eq(dyn[1].d_un.d_val, BASE + 7);
	cr_expect_eq(dyn[2].d_un.d_ptr, 0x50);
	cr_expect_eq(dyn[3].d_un.d_ptr, BASE + 0x60);
}
