// SPDX-License-Identifier: Apache-2.0
#include "made_frame.h"

#include <criterion/criterion.h>
#include <dwarf.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "elf/image.h"

void made_init(struct made *made)
{
	made->len = 0;
	made->data = malloc(MADE_MAX_BYTES);
	cr_assert(made->data);
}

void made_fini(struct made *made)
{
	free(made->data);
}

void made_bytes(struct made *made, const void *data, size_t len)
{
	cr_assert(len <= MADE_MAX_BYTES - made->len);
	memcpy(made->data + made->len, data, len);
	made->len += len;
}

void made_u8(struct made *made, uint8_t value)
{
	made_bytes(made, &value, 1);
}

void made_uint(struct made *made, uint64_t value, size_t bytes)
{
	made_bytes(made, &value, bytes);
}

void made_uleb(struct made *made, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		made_u8(made, (uint8_t)(value | 0x80));
	made_u8(made, (uint8_t)value);
}

void made_sleb(struct made *made, int64_t value)
{
	for (; value < -0x40 || value >= 0x40; value >>= 7)
		made_u8(made, (uint8_t)(value | 0x80));
	made_u8(made, value & 0x7f);
}

size_t made_begin(struct made *made)
{
	size_t at = made->len;

	made_uint(made, 0, 4);
	return at;
}

void made_end(struct made *made, size_t record)
{
	uint32_t len;

	while (made->len % 4)
		made_u8(made, DW_CFA_nop);
	len = (uint32_t)(made->len - record - 4);
	memcpy(made->data + record, &len, sizeof(len));
}

size_t made_cie(struct made *made, uint8_t enc)
{
	size_t at = made_begin(made);

	made_uint(made, 0, 4);
	made_u8(made, 1);
	made_bytes(made, "zR", 3);
	made_uleb(made, 1);
	made_sleb(made, -8);
	made_u8(made, 16);
	made_uleb(made, 1);
	made_u8(made, enc);
	MADE_OPS(made, DW_CFA_def_cfa, 7, 8, DW_CFA_offset | 16, 1);
	made_end(made, at);
	return at;
}

size_t made_fde(struct made *made, size_t cie, uint64_t start, uint32_t bytes)
{
	size_t at = made_begin(made);

	made_uint(made, made->len - cie, 4);
	made_uint(made, start - (MADE_FRAME_VA + made->len), 4);
	made_uint(made, bytes, 4);
	made_uleb(made, 0);
	return at;
}

static uint64_t hdr_off(const struct made *frame)
{
	return (MADE_FRAME_OFF + frame->len + 7) & ~7ULL;
}

void made_hdr(struct made *hdr, const struct made *frame, const uint64_t (*entries)[2], size_t nr)
{
	uint64_t va = hdr_off(frame) - MADE_FRAME_OFF + MADE_FRAME_VA;

	MADE_OPS(hdr, 1, DW_EH_PE_pcrel | DW_EH_PE_sdata4, DW_EH_PE_udata4,
		 DW_EH_PE_datarel | DW_EH_PE_sdata4);
	made_uint(hdr, MADE_FRAME_VA - (va + 4), 4);
	made_uint(hdr, nr, 4);
	for (size_t i = 0; i < nr; i++) {
		made_uint(hdr, entries[i][0] - va, 4);
		made_uint(hdr, MADE_FRAME_VA + entries[i][1] - va, 4);
	}
}

static Elf64_Phdr segment(uint32_t type, uint32_t flags, uint64_t off, uint64_t va, uint64_t bytes)
{
	return (Elf64_Phdr){ .p_type = type,
			     .p_flags = flags,
			     .p_offset = off,
			     .p_vaddr = va,
			     .p_filesz = bytes,
			     .p_memsz = bytes,
			     .p_align = 0x1000 };
}

struct elf_image *made_image(const struct made *frame, const struct made *hdr, void **ret_data)
{
	static const char names[] = "\0.eh_frame\0.shstrtab";
	uint64_t hdr_at = hdr_off(frame), hdr_len = hdr ? hdr->len : 0;
	uint64_t names_at = hdr_at + hdr_len, sections_at = (names_at + sizeof(names) + 7) & ~7ULL;
	uint64_t len = sections_at + 3 * sizeof(Elf64_Shdr);
	Elf64_Ehdr eh = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
			  .e_type = ET_EXEC,
			  .e_machine = EM_X86_64,
			  .e_version = EV_CURRENT,
			  .e_phoff = sizeof(eh),
			  .e_ehsize = sizeof(eh),
			  .e_phentsize = sizeof(Elf64_Phdr),
			  .e_phnum = hdr ? 4 : 3,
			  .e_shentsize = sizeof(Elf64_Shdr) };
	Elf64_Phdr ph[4] = {
		segment(PT_LOAD, PF_R | PF_X, 0x1000, MADE_CODE1, 0x4000),
		segment(PT_LOAD, PF_R | PF_X, 0x5000, MADE_CODE2, 0x14000),
		segment(PT_LOAD, PF_R, MADE_FRAME_OFF, MADE_FRAME_VA, names_at - MADE_FRAME_OFF),
		segment(PT_GNU_EH_FRAME, PF_R, hdr_at, hdr_at - MADE_FRAME_OFF + MADE_FRAME_VA,
			hdr_len),
	};
	Elf64_Shdr sh[3] = { { 0 },
			     { .sh_name = 1,
			       .sh_type = SHT_PROGBITS,
			       .sh_flags = SHF_ALLOC,
			       .sh_addr = MADE_FRAME_VA,
			       .sh_offset = MADE_FRAME_OFF,
			       .sh_size = frame->len },
			     { .sh_name = 11,
			       .sh_type = SHT_STRTAB,
			       .sh_offset = names_at,
			       .sh_size = sizeof(names) } };
	struct elf_image *img;
	uint8_t *data = calloc(1, len);

	cr_assert(data);
	if (!hdr) {
		eh.e_shoff = sections_at;
		eh.e_shnum = 3;
		eh.e_shstrndx = 2;
	}
	memcpy(data, &eh, sizeof(eh));
	memcpy(data + sizeof(eh), ph, sizeof(ph));
	memcpy(data + MADE_FRAME_OFF, frame->data, frame->len);
	if (hdr)
		memcpy(data + hdr_at, hdr->data, hdr->len);
	memcpy(data + names_at, names, sizeof(names));
	memcpy(data + sections_at, sh, sizeof(sh));
	cr_assert_eq(elf_image_open_memory(&img, data, len), 0);
	*ret_data = data;
	return img;
}
