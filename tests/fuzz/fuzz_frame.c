// SPDX-License-Identifier: Apache-2.0
/* fuzz: max_len=4096 */
#include "elf/image.h"
#include "unwind/cfi.h"
#include "unwind/reader.h"
#include "unwind_native.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CODE 0x1000ULL /* offsets and addresses are the same */
#define FRAME 0x4000ULL
#define HDR 0x6000ULL
#define MAX_ENTRIES 16

static uint8_t file[0x7000];

static uint64_t made_memory(uint64_t va)
{
	va = (va ^ va >> 31) * 0x7fb5d329728ea185ULL;
	return (va ^ va >> 27) * 0x81dadef4bc2dd44dULL;
}

static int read_made(struct unwind_reader *reader, __u64 va, void *dst, __u32 len)
{
	uint64_t word;

	(void)reader;
	for (uint32_t at = 0; at < len; at += 8) {
		word = made_memory(va + at);
		memcpy((char *)dst + at, &word, len - at < 8 ? len - at : 8);
	}
	return 0;
}

/* A search table of places in the records that the input chooses. Returns what is left of the input. */
static size_t make_hdr(const uint8_t *data, size_t nr)
{
	uint8_t *at = file + HDR;
	uint32_t word;

	memcpy(at, "\x01\x1b\x03\x3b", 4);
	word = (uint32_t)(FRAME - (HDR + 4));
	memcpy(at + 4, &word, 4);
	word = (uint32_t)nr;
	memcpy(at + 8, &word, 4);
	for (size_t i = 0; i < nr; i++, data += 4) {
		word = (uint32_t)(CODE + data[0] + data[1] * 256U - HDR);
		memcpy(at + 12 + 8 * i, &word, 4);
		word = (uint32_t)(FRAME + data[2] + (data[3] & 15) * 256U - HDR);
		memcpy(at + 16 + 8 * i, &word, 4);
	}
	return nr * 4;
}

static void make_headers(size_t frame_len, size_t nr_entries, bool debug)
{
	static const char names[] = "\0.eh_frame\0.debug_frame";
	Elf64_Ehdr eh = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
			  .e_type = ET_DYN,
			  .e_machine = EM_X86_64,
			  .e_version = EV_CURRENT,
			  .e_phoff = sizeof(eh),
			  .e_shoff = 0x400,
			  .e_ehsize = sizeof(eh),
			  .e_phentsize = sizeof(Elf64_Phdr),
			  .e_phnum = nr_entries ? 3 : 2,
			  .e_shentsize = sizeof(Elf64_Shdr),
			  .e_shnum = 3,
			  .e_shstrndx = 2 };
	Elf64_Phdr ph[3] = { { .p_type = PT_LOAD,
			       .p_flags = PF_R | PF_X,
			       .p_offset = CODE,
			       .p_vaddr = CODE,
			       .p_filesz = FRAME - CODE,
			       .p_memsz = FRAME - CODE },
			     { .p_type = PT_LOAD,
			       .p_flags = PF_R,
			       .p_offset = FRAME,
			       .p_vaddr = FRAME,
			       .p_filesz = sizeof(file) - FRAME,
			       .p_memsz = sizeof(file) - FRAME },
			     { .p_type = PT_GNU_EH_FRAME,
			       .p_flags = PF_R,
			       .p_offset = HDR,
			       .p_vaddr = HDR,
			       .p_filesz = 12 + 8 * nr_entries,
			       .p_memsz = 12 + 8 * nr_entries } };
	Elf64_Shdr sh[3] = {
		{ 0 },
		{ .sh_name = debug ? 11 : 1,
		  .sh_type = SHT_PROGBITS,
		  .sh_flags = debug ? 0 : SHF_ALLOC,
		  .sh_addr = debug ? 0 : FRAME,
		  .sh_offset = FRAME,
		  .sh_size = frame_len },
		{ .sh_type = SHT_STRTAB, .sh_offset = 0x600, .sh_size = sizeof(names) }
	};

	memcpy(file, &eh, sizeof(eh));
	memcpy(file + sizeof(eh), ph, sizeof(ph));
	memcpy(file + 0x400, sh, sizeof(sh));
	memcpy(file + 0x600, names, sizeof(names));
}

/* A row and the complete rules must lead to the same place. */
static void check_row(struct cfi *cfi, uint64_t row)
{
	struct unwind_reader reader = { .read = read_made };
	struct unwind_state by_row = { .valid = UNWIND_ALL_REGS, .exact = 1 }, by_rules;
	uint32_t kind = unwind_row_kind(row);
	int row_stop, rules_stop;

	for (uint64_t i = 0; i < BPFPROF_NR_REGS; i++)
		by_row.regs[i] = made_memory(i);
	by_row.regs[UNWIND_RIP] = unwind_row_low(row);
	by_rules = by_row;
	rules_stop = cfi_step(cfi, unwind_row_low(row), &by_rules, &reader);
	if (rules_stop < 0 || rules_stop >= BPFPROF_NR_STOPS)
		abort();
	if (kind == ROW_RARE)
		return;
	if (kind == ROW_NONE) {
		if (rules_stop != BPFPROF_STOP_NO_TABLE)
			abort();
		return;
	}
	row_stop = unwind_step(&by_row, row, &reader);
	if (row_stop != rules_stop) {
		fprintf(stderr, "row %#lx: stop %d, by rules %d\n", row, row_stop, rules_stop);
		abort();
	}
	unwind_settle(&by_row, &reader);
	for (uint32_t i = 0; !row_stop && i < BPFPROF_NR_REGS; i++) {
		if (!(by_row.valid & 1U << i))
			continue;
		if (!(by_rules.valid & 1U << i) || by_row.regs[i] != by_rules.regs[i]) {
			fprintf(stderr, "row %#lx: register %u\n", row, i);
			abort();
		}
	}
}

/*
 * The input is .eh_frame, or .debug_frame, in a valid file. Its first byte says which, and how many entries
 * a search table has; 0: none, the records are passed over, and rows and rules are compared.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint64_t rows[CFI_PAGE_MAX_ROWS];
	size_t nr_entries, used;
	bool debug;
	struct elf_image *img;
	struct cfi *cfi;
	int nr;

	if (size < 1 + 4 * MAX_ENTRIES || size > HDR - FRAME)
		return 0;
	memset(file, 0, sizeof(file));
	debug = data[0] & 0x80;
	nr_entries = debug ? 0 : data[0] % (MAX_ENTRIES + 1);
	used = 1 + make_hdr(data + 1, nr_entries);
	memcpy(file + FRAME, data + used, size - used);
	make_headers(size - used, nr_entries, debug);
	if (elf_image_open_memory(&img, file, sizeof(file)))
		abort();
	if (!cfi_new(&cfi, img)) {
		nr = cfi_build_page(cfi, 0, rows);
		if (!nr || nr > CFI_PAGE_MAX_ROWS)
			abort();
		for (int i = 0; i < nr; i++) {
			if (i && (unwind_row_low(rows[i]) <= unwind_row_low(rows[i - 1]) ||
				  !((rows[i] ^ rows[i - 1]) >> 16)))
				abort();
			if (!nr_entries)
				check_row(cfi, rows[i]);
		}
		cfi_free(cfi);
	}
	elf_image_free(img);
	return 0;
}
