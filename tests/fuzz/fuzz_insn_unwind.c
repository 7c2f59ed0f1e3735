// SPDX-License-Identifier: Apache-2.0
/* fuzz: max_len=16384 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "elf/image.h"
#include "unwind/code_look.h"
#include "unwind/insn_unwind.h"
#include "unwind/reader.h"
#include "unwind_native.h"

#define MAX_RULES 512
#define MAX_CODE (16384 - 4)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool starts(void *arg, uint64_t off)
{
	return off % 64 == *(const uint8_t *)arg;
}

static void check(const struct insn_rule *rules, int nr, size_t cap, const struct code_area *area)
{
	uint64_t pos = area->start;
	int i;

	if (nr < 0)
		return;
	if ((size_t)nr > cap)
		abort();
	for (i = 0; i < nr; i++) {
		uint32_t kind = unwind_row_kind(rules[i].row);

		if (rules[i].off < pos || !rules[i].len || rules[i].off >= area->end ||
		    rules[i].len > area->end - rules[i].off || rules[i].row & 0xffff ||
		    (kind != ROW_CFA && kind != ROW_DEREF))
			abort();
		pos = rules[i].off + rules[i].len;
	}
}

static void check_looks(const uint8_t *code, size_t len)
{
	size_t pos = 0, before = 0;
	uint64_t va;

	if (code_straight(code, len) > len || code_run(code, len) > len ||
	    code_straight(code, len) > code_run(code, len))
		abort();
	while (!code_address_next(code, len, 0x1000, &pos, &va)) {
		if (pos <= before || pos > len)
			abort();
		before = pos;
	}
	code_halts(code, len);
	code_returns_from_signal(code, len);
	if (!code_leads_to(code, len, 0x1000, &va) && len < 5)
		abort();
	code_ends_in_call(code, len);
}

/* Four bytes that say where to begin, which way, and how much room there is, then code. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct {
		Elf64_Ehdr header;
		Elf64_Phdr segment;
		uint8_t code[MAX_CODE];
	} file;
	struct insn_rule *rules;
	struct code_area area = { .function_starts = starts, .arg = (void *)(data + 3) };
	struct elf_image *img;
	size_t len = size - 4, at, cap;

	if (size < 5 || len > MAX_CODE)
		return 0;
	at = (size_t)(data[0] | (data[1] & 31) << 8) % len;
	area.way = data[1] >> 6;
	area.after_call = data[1] >> 5 & 1;
	area.whole = data[3] & 1;
	cap = data[2] * 2;
	file.header = (Elf64_Ehdr){ .e_ident = "\177ELF\2\1\1",
				    .e_type = ET_DYN,
				    .e_machine = EM_X86_64,
				    .e_version = EV_CURRENT,
				    .e_phoff = sizeof(file.header),
				    .e_ehsize = sizeof(file.header),
				    .e_phentsize = sizeof(file.segment),
				    .e_phnum = 1 };
	file.segment = (Elf64_Phdr){ .p_type = PT_LOAD,
				     .p_flags = PF_R | PF_X,
				     .p_filesz = sizeof(file) - MAX_CODE + len,
				     .p_memsz = sizeof(file) - MAX_CODE + len };
	memcpy(file.code, data + 4, len);
	if (elf_image_open_memory(&img, &file, sizeof(file) - MAX_CODE + len))
		abort();
	area.img = img;
	area.start = sizeof(file) - MAX_CODE;
	area.end = area.start + len;
	area.function = area.start + at / 2;
	check_looks(data, size);
	rules = malloc(MAX_RULES * sizeof(*rules));
	check(rules, insn_unwind_find(&area, area.start + at, rules, cap), cap, &area);
	free(rules);
	elf_image_free(img);
	return 0;
}
