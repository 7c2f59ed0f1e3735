// SPDX-License-Identifier: Apache-2.0
#include "unwind/go_code.h"

#include <string.h>

#include "elf/image.h"
#include "elf/instruction.h"
#include "elf/x86_64/operand.h"
#include "unwind/code_look.h"
#include "unwind/go_work.h"
#include "unwind/reader.h"
#include "unwind_native.h"

#define MAX_PROLOGUE_BYTES 160
#define MAX_CODE_BYTES 2048 /* of a function that changes stacks */
#define MIN_BP_OFF (-(1 << 13) * 8) /* that a row can say */
#define WORK_PER_INSTRUCTION 8

static const char *const outermost[] = { "runtime.goexit", "runtime.mstart", "runtime.rt0_go" };

static const char *const switching[] = { "runtime.systemstack", "runtime.mcall",
					 "runtime.morestack", "runtime.switchToCrashStack0",
					 "runtime.clone" };

static const char *const leaving[] = { "runtime.gogo", "gogo" };

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static bool is_among(const char *name, const char *const *names, size_t nr)
{
	size_t i;

	for (i = 0; i < nr; i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

/* Reads at most len bytes of the function at rva. Their number. */
static size_t code_read(const struct go_code *f, uint64_t rva, uint8_t *code, size_t len)
{
	uint64_t off;

	if (rva >= f->fn.end)
		return 0;
	if (len > f->fn.end - rva)
		len = (size_t)(f->fn.end - rva);
	if (elf_image_rva_to_off(f->tab->img, rva, &off) ||
	    elf_image_read(f->tab->img, off, code, len))
		return 0;
	return len;
}

static bool decode(const struct go_code *f, const uint8_t *code, size_t len,
		   struct instruction *ret)
{
	return !go_work_take(f->work_left, WORK_PER_INSTRUCTION) &&
	       instruction_decode(code, len, ret);
}

/* Does the instruction write the register? Pushes and calls write rsp, too. */
static bool writes(const struct instruction *in, ZydisRegister reg)
{
	uint8_t i;

	for (i = 0; i < in->own.insn.operand_count; i++)
		if (in->own.ops[i].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		    operand_is_written(&in->own.ops[i]) &&
		    ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64,
						     in->own.ops[i].reg.value) == reg)
			return true;
	return false;
}

/* Does the instruction set rsp to a value that the table does not have? */
static bool switches(const struct instruction *in)
{
	if (!writes(in, ZYDIS_REGISTER_RSP) ||
	    !operand_is_register(&in->own.ops[0], ZYDIS_REGISTER_RSP))
		return false;
	switch (in->own.insn.mnemonic) {
	case ZYDIS_MNEMONIC_ADD:
	case ZYDIS_MNEMONIC_SUB:
		return in->own.ops[1].type != ZYDIS_OPERAND_TYPE_IMMEDIATE;
	case ZYDIS_MNEMONIC_LEA:
		return in->own.ops[1].mem.base != ZYDIS_REGISTER_RSP ||
		       in->own.ops[1].mem.index != ZYDIS_REGISTER_NONE;
	default:
		return true;
	}
}

static bool leaves(const struct instruction *in)
{
	return in->kind == INSTRUCTION_CALL || in->kind == INSTRUCTION_RETURN ||
	       in->kind == INSTRUCTION_JUMP;
}

/* The stack pointer's distance from the return address at rva, -1 if it is not known. */
static int32_t sp_at(const struct go_code *f, uint64_t rva)
{
	struct go_values v;

	go_values_init(&v, f->tab, &f->fn, f->fn.sp_values);
	while (go_work_values_next(f->work_left, &v) > 0)
		if (rva < v.end)
			return v.value < GO_CODE_MAX_FRAME - 8 ? v.value : -1;
	return -1;
}

/* Finds the place where hand-written code saves rbp before any other use of it. */
static void bp_search(struct go_code *f)
{
	uint8_t code[MAX_PROLOGUE_BYTES];
	size_t len = code_read(f, f->fn.start, code, sizeof(code)), pos;
	struct instruction in;
	uint64_t next;
	int32_t sp;

	for (pos = 0; pos < len && decode(f, code + pos, len - pos, &in); pos += in.bytes) {
		next = f->fn.start + pos + in.bytes;
		if (in.own.insn.mnemonic == ZYDIS_MNEMONIC_PUSH &&
		    operand_is_register(&in.own.ops[0], ZYDIS_REGISTER_RBP)) {
			sp = sp_at(f, next);
			f->bp_off = sp >= 8 ? -8 - sp : 0;
		} else if (in.own.insn.mnemonic == ZYDIS_MNEMONIC_MOV &&
			   operand_is_register(&in.own.ops[1], ZYDIS_REGISTER_RBP) &&
			   in.own.ops[0].type == ZYDIS_OPERAND_TYPE_MEMORY &&
			   in.own.ops[0].mem.base == ZYDIS_REGISTER_RSP &&
			   in.own.ops[0].mem.index == ZYDIS_REGISTER_NONE) {
			sp = sp_at(f, next);
			if (sp >= 8 && in.own.ops[0].mem.disp.value >= 0 &&
			    in.own.ops[0].mem.disp.value < sp)
				f->bp_off = (int32_t)(in.own.ops[0].mem.disp.value - sp - 8);
		} else if (leaves(&in) || writes(&in, ZYDIS_REGISTER_RBP)) {
			return;
		}
		if (f->bp_off < MIN_BP_OFF)
			f->bp_off = 0;
		if (f->bp_off) {
			f->bp_from = next;
			return;
		}
	}
}

/* mov %rbp,off(%rsp): its length if off is where compilers save it in a frame of sp bytes. */
static uint32_t saves_bp(const uint8_t *code, size_t len, int32_t sp)
{
	int32_t off;

	if (len >= 5 && !memcmp(code, "\x48\x89\x6c\x24", 4))
		return (int8_t)code[4] == sp - 8 ? 5 : 0;
	if (len < 8 || memcmp(code, "\x48\x89\xac\x24", 4))
		return 0;
	memcpy(&off, code + 4, sizeof(off));
	return off == sp - 8 ? 8 : 0;
}

/* Finds the place where a prologue saves rbp: the frame is no longer empty there for the first time. */
static void bp_find(struct go_code *f)
{
	uint8_t code[9];
	struct go_values v;
	uint32_t insn;
	size_t len;

	f->bp_kept = f->tab->version >= GO_1_18 && !(f->fn.flags & GO_ASM);
	go_values_init(&v, f->tab, &f->fn, f->fn.sp_values);
	do {
		if (go_work_values_next(f->work_left, &v) <= 0)
			return;
	} while (v.value <= 0);
	len = v.start > f->fn.start ? code_read(f, v.start - 1, code, sizeof(code)) : 0;
	insn = len ? saves_bp(code + 1, len - 1, v.value) : 0;
	if (len && code[0] == 0x55 && v.value == 8) {
		f->bp_from = v.start;
		f->bp_off = -GO_CODE_BP_OFF;
	} else if (insn) {
		f->bp_from = v.start + insn;
		f->bp_off = -GO_CODE_BP_OFF;
	} else {
		bp_search(f);
	}
	f->bp_kept |= f->bp_off != 0;
}

/* Notes the last two words that asmcgocall stores before it calls C code: g, then its own stack. */
static void c_slot_note(struct go_region *region, const struct instruction *in, uint64_t at)
{
	if (in->own.insn.mnemonic != ZYDIS_MNEMONIC_MOV ||
	    in->own.ops[0].type != ZYDIS_OPERAND_TYPE_MEMORY ||
	    in->own.ops[0].mem.base != ZYDIS_REGISTER_RSP || in->own.ops[0].mem.disp.value < 0 ||
	    in->own.ops[0].mem.disp.value >= INT8_MAX * 8 || in->own.ops[0].mem.disp.value & 7)
		return;
	region->c_slots[0] = region->c_slots[1];
	region->c_slots[1] = (int32_t)in->own.ops[0].mem.disp.value;
	region->c_from = at;
}

/* The instruction writes rbp: is the new value another one than the caller's? */
static bool spoils_bp(const struct instruction *in)
{
	return in->own.insn.mnemonic != ZYDIS_MNEMONIC_POP &&
	       (in->own.insn.mnemonic != ZYDIS_MNEMONIC_MOV ||
		in->own.ops[1].type != ZYDIS_OPERAND_TYPE_MEMORY ||
		in->own.ops[1].mem.base != ZYDIS_REGISTER_RSP);
}

/* The distance from rbp to the cfa after in has written rbp; sp is that from rsp to the return address. */
static int32_t bp_to_cfa(const struct instruction *in, int32_t sp)
{
	const ZydisDecodedOperand *from = &in->own.ops[1];

	if (sp < 0)
		return 0;
	if (in->own.insn.mnemonic == ZYDIS_MNEMONIC_MOV &&
	    operand_is_register(from, ZYDIS_REGISTER_RSP))
		return sp + 8;
	if (in->own.insn.mnemonic == ZYDIS_MNEMONIC_LEA && from->mem.base == ZYDIS_REGISTER_RSP &&
	    from->mem.index == ZYDIS_REGISTER_NONE && from->mem.disp.value >= 0 &&
	    from->mem.disp.value <= sp)
		return sp + 8 - (int32_t)from->mem.disp.value;
	return 0;
}

/* One pass over the code of a function that may change stacks. */
struct switch_scan {
	struct go_code *f;
	struct go_region *region; /* NULL: rsp was not written yet */
	uint32_t nr_writes; /* in it */
	bool bp_lost; /* rbp no longer points to the frame */
	bool bp_back, called; /* in the region: rbp is the caller's again; C code was called */
};

static bool region_open(struct switch_scan *scan, uint64_t start)
{
	struct go_code *f = scan->f;

	if (f->nr_regions == GO_CODE_MAX_REGIONS)
		return false;
	scan->region = &f->regions[f->nr_regions++];
	scan->region->start = start;
	scan->region->to = f->fn.end;
	scan->nr_writes = 0;
	scan->bp_back = scan->called = false;
	return true;
}

static bool switch_note(struct switch_scan *scan, uint64_t insn, uint64_t at)
{
	struct go_code *f = scan->f;

	if (!f->nr_regions) {
		f->sp_before = sp_at(f, insn);
		if (!region_open(scan, at))
			return false;
	}
	if (!scan->nr_writes++)
		scan->region->from = at;
	else
		scan->region->to = at;
	return true;
}

/* One instruction that ends at `at`. False: the function is too complicated. */
static bool switch_scan_one(struct switch_scan *scan, const struct instruction *in, uint64_t at)
{
	struct go_code *f = scan->f;

	if (switches(in))
		return switch_note(scan, at - in->bytes, at);
	if (f->bp_off && at > f->bp_from && writes(in, ZYDIS_REGISTER_RBP)) {
		if (!f->nr_regions) {
			f->bp_to_cfa = bp_to_cfa(in, sp_at(f, at));
		} else if (spoils_bp(in)) {
			scan->bp_lost = true;
		} else { /* the function leaves the frame */
			if (!scan->bp_back && scan->nr_writes < 2)
				scan->region->to = at;
			scan->bp_back = true;
		}
	} else if (scan->region && !scan->called) {
		c_slot_note(scan->region, in, at);
	}
	scan->called |= in->kind == INSTRUCTION_CALL;
	if (in->kind != INSTRUCTION_RETURN || !scan->region)
		return true;
	if (scan->nr_writes < 2 && !scan->bp_back) /* it never comes back */
		scan->region->to = at;
	return region_open(scan, at);
}

/*
 * Are there bytes that may move to rsp or round it? Decoding takes long, and before Go 1.17 nothing
 * marks the functions that do so.
 */
static bool may_switch(const uint8_t *code, size_t len)
{
	size_t i;

	for (i = 1; i + 1 < len; i++) {
		if (code[i] == 0x8b && (code[i + 1] & 0x38) == 0x20 && code[i - 1] & 0x08)
			return true;
		if ((code[i] == 0x89 && (code[i + 1] & 0xc7) == 0xc4) ||
		    ((code[i] == 0x83 || code[i] == 0x81) && code[i + 1] == 0xe4))
			return true;
	}
	return false;
}

/* Finds the writes of rsp, and how the caller is found between them. */
static void switched_find(struct go_code *f, const char *name)
{
	struct switch_scan scan = { .f = f };
	uint8_t code[MAX_CODE_BYTES];
	size_t len = code_read(f, f->fn.start, code, sizeof(code)), pos;
	struct instruction in;

	if (!may_switch(code, len))
		return;
	for (pos = 0; pos < len && decode(f, code + pos, len - pos, &in); pos += in.bytes)
		if (!switch_scan_one(&scan, &in, f->fn.start + pos + in.bytes))
			break;
	if (!f->nr_regions)
		return;
	f->kind = GO_CODE_WRITES_SP;
	if (pos < len) /* not all of it was decoded */
		f->regions[f->nr_regions - 1].to = f->fn.end;
	if (is_among(name, switching, COUNT(switching)))
		f->switched = GO_SWITCHED_OUTERMOST;
	else if (!strcmp(name, "runtime.asmcgocall"))
		f->switched = GO_SWITCHED_C;
	else if (!is_among(name, leaving, COUNT(leaving)) && f->bp_off == -GO_CODE_BP_OFF &&
		 f->bp_to_cfa && !scan.bp_lost)
		f->switched = GO_SWITCHED_BP;
}

static bool is_signal_return(const struct go_code *f)
{
	uint8_t code[9];

	return code_read(f, f->fn.start, code, sizeof(code)) == sizeof(code) &&
	       code_returns_from_signal(code, sizeof(code)) == sizeof(code);
}

void go_code_scan(struct go_code *f)
{
	char name[64] = "";
	bool marked = f->fn.flags & (GO_TOP_FRAME | GO_SP_WRITE);

	f->kind = GO_CODE_PLAIN;
	if (is_signal_return(f)) {
		f->kind = GO_CODE_SIGNAL_RETURN;
		return;
	}
	if (!f->fn.sp_values) {
		f->kind = GO_CODE_NO_TABLE;
		return;
	}
	bp_find(f);
	/* Before Go 1.17 nothing is marked. */
	if ((!marked && f->tab->version > GO_1_16) ||
	    go_table_name(f->tab, &f->fn, name, sizeof(name)) < 0)
		return;
	if ((f->fn.flags & GO_TOP_FRAME && strcmp(name, "runtime.sigtramp")) ||
	    is_among(name, outermost, COUNT(outermost)))
		f->kind = GO_CODE_OUTERMOST;
	else if (f->fn.flags & GO_SP_WRITE || !strncmp(name, "runtime.", 8) ||
		 !strncmp(name, "time.", 5))
		switched_find(f, name);
}
