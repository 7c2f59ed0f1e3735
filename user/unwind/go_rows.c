// SPDX-License-Identifier: Apache-2.0
#include "unwind/go_rows.h"

#include <Zydis/Zydis.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "elf/go_table.h"
#include "elf/image.h"
#include "unwind/reader.h"
#include "unwind_native.h"

/*
 * Go's functions find their caller at rsp + what the table says (pcsp), and save rbp right below the
 * return address: since Go 1.21 by a push, before that by a store after rsp was lowered, so that
 * between the two instructions rbp is still the caller's. Hand-written functions may save it anywhere or not at all.
 *
 * A function that writes rsp other than by a constant (Go marks those: SPWRITE) changes stacks, or rounds
 * rsp down for C code. What the table says holds before the first such write and after the last one. Between them:
 * - systemstack, mcall, morestack, and the first function of a thread stand on a stack of the scheduler that
 *   begins with them. Go's own traceback ends there: these stacks are complete.
 * - asmcgocall, which calls C on the thread's own stack, leaves there where it came from (ROW_GO_C).
 * - others keep a frame that rbp points to: their caller is found by that. So does cgocallback, by which C calls Go:
 *   rbp points to its frame on the stack of C, which Go's functions preserve.
 * - gogo has taken the stack of another goroutine and jumps to it: it has no caller any more.
 * Go marks functions that are outermost on their stack (TOPFRAME); sigtramp is, for Go, but its caller is the kernel,
 * and what was interrupted can be seen.
 */

#define MAX_PROLOGUE_BYTES 160
#define MAX_REGIONS 6
#define MAX_CODE_BYTES 2048 /* of a function that changes stacks */
#define SIGNAL_CONTEXT 40 /* struct rt_sigframe without pretcode: uc_mcontext is this far in uc */
#define MAX_FRAME_BYTES (INT8_MAX * UNWIND_FAR_BYTES)
#define MIN_BP_OFF (-(1 << 13) * 8) /* that a row can say */
#define WORK_PER_LOOK_UP 64 /* finding a function by its address; a value counts as 1 */
#define WORK_PER_FUNCTION 32
#define WORK_PER_INSTRUCTION 8
#define CFA_BP_OFF 16 /* from where rbp is saved to the cfa */

enum function_kind {
	FUNCTION_PLAIN,
	FUNCTION_OUTERMOST, /* nothing called it */
	FUNCTION_SIGNAL_RETURN,
	FUNCTION_NO_TABLE, /* foreign code in a Go program: nothing is said of it */
	FUNCTION_WRITES_SP,
};

/* What stands between the first and the last write of rsp. */
enum switched {
	SWITCHED_UNKNOWN,
	SWITCHED_OUTERMOST,
	SWITCHED_BP,
	SWITCHED_C,
};

struct function {
	const struct go_table *tab;
	int64_t *work_left;
	struct go_function fn;
	uint64_t from, to; /* its rows are for these addresses */
	enum function_kind kind;
	/* rbp is saved at cfa + bp_off from the address bp_from on; bp_off 0: it is not. */
	uint64_t bp_from;
	int32_t bp_off;
	bool bp_kept; /* where the frame is empty rbp is the caller's */
	enum switched switched;
	int32_t sp_before; /* the first write of rsp */
	int32_t bp_to_cfa; /* there, 0: it is not known */
	uint32_t nr_regions;
	struct region { /* code up to a return */
		uint64_t start;
		uint64_t from,
			to; /* between the writes of rsp; from 0: it has none, and rbp is left alone up to to */
		/* Of asmcgocall: where it leaves what its caller is found by, on the stack from c_from on. */
		uint64_t c_from;
		int32_t c_slots[2];
	} regions[MAX_REGIONS];
};

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

static uint64_t row_cfa(uint32_t reg, int64_t off, uint32_t bp_rule, int32_t bp_off)
{
	return unwind_row_make(0, ROW_CFA, reg, (int32_t)(off / 8), bp_rule, bp_off / 8, 1);
}

static uint64_t row_kind(uint32_t kind)
{
	return unwind_row_make(0, kind, 0, 0, 0, 0, 0);
}

/* At most len bytes of code at rva, as many as the function has. Their number. */
static size_t code_read(const struct function *f, uint64_t rva, uint8_t *code, size_t len)
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

static int work_take(int64_t *work_left, uint32_t amount)
{
	if (*work_left < amount) {
		*work_left = 0;
		return -E2BIG;
	}
	*work_left -= amount;
	return 0;
}

/* go_values_next(), or -E2BIG. */
static int values_next(const struct function *f, struct go_values *v)
{
	int err = work_take(f->work_left, 1);

	return err ? err : go_values_next(v);
}

struct decoded {
	ZydisDecoder decoder;
	ZydisDecodedInstruction insn;
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
};

static void decoder_init(struct decoded *d)
{
	ZydisDecoderInit(&d->decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
}

static bool decode(const struct function *f, const uint8_t *code, size_t len, struct decoded *d)
{
	return !work_take(f->work_left, WORK_PER_INSTRUCTION) &&
	       ZYAN_SUCCESS(ZydisDecoderDecodeFull(&d->decoder, code, len, &d->insn, d->ops));
}

static bool is_register(const ZydisDecodedOperand *op, ZydisRegister reg)
{
	return op->type == ZYDIS_OPERAND_TYPE_REGISTER && op->reg.value == reg;
}

/* Explicitly or not: pushes and calls write rsp, too. */
static bool writes(const struct decoded *d, ZydisRegister reg)
{
	uint8_t i;

	for (i = 0; i < d->insn.operand_count; i++)
		if (d->ops[i].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		    d->ops[i].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE &&
		    ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64,
						     d->ops[i].reg.value) == reg)
			return true;
	return false;
}

/* The stack pointer is set to what the table does not say. */
static bool switches(const struct decoded *d)
{
	if (!writes(d, ZYDIS_REGISTER_RSP) || !is_register(&d->ops[0], ZYDIS_REGISTER_RSP))
		return false;
	switch (d->insn.mnemonic) {
	case ZYDIS_MNEMONIC_ADD:
	case ZYDIS_MNEMONIC_SUB:
		return d->ops[1].type != ZYDIS_OPERAND_TYPE_IMMEDIATE;
	case ZYDIS_MNEMONIC_LEA:
		return d->ops[1].mem.base != ZYDIS_REGISTER_RSP ||
		       d->ops[1].mem.index != ZYDIS_REGISTER_NONE;
	default:
		return true;
	}
}

static bool leaves(const struct decoded *d)
{
	return d->insn.meta.category == ZYDIS_CATEGORY_CALL ||
	       d->insn.meta.category == ZYDIS_CATEGORY_RET ||
	       d->insn.meta.category == ZYDIS_CATEGORY_UNCOND_BR;
}

/* The stack pointer's distance from the return address at rva, -1 if it is not known. */
static int32_t sp_at(const struct function *f, uint64_t rva)
{
	struct go_values v;

	go_values_init(&v, f->tab, &f->fn, f->fn.sp_values);
	while (values_next(f, &v) > 0)
		if (rva < v.end)
			return v.value < MAX_FRAME_BYTES - 8 ? v.value : -1;
	return -1;
}

/* Where hand-written code saves rbp before it does anything else with it. */
static void bp_search(struct function *f)
{
	uint8_t code[MAX_PROLOGUE_BYTES];
	size_t len = code_read(f, f->fn.start, code, sizeof(code)), pos;
	struct decoded d;
	uint64_t next;
	int32_t sp;

	decoder_init(&d);
	for (pos = 0; pos < len && decode(f, code + pos, len - pos, &d); pos += d.insn.length) {
		next = f->fn.start + pos + d.insn.length;
		if (d.insn.mnemonic == ZYDIS_MNEMONIC_PUSH &&
		    is_register(&d.ops[0], ZYDIS_REGISTER_RBP)) {
			sp = sp_at(f, next);
			f->bp_off = sp >= 8 ? -8 - sp : 0;
		} else if (d.insn.mnemonic == ZYDIS_MNEMONIC_MOV &&
			   is_register(&d.ops[1], ZYDIS_REGISTER_RBP) &&
			   d.ops[0].type == ZYDIS_OPERAND_TYPE_MEMORY &&
			   d.ops[0].mem.base == ZYDIS_REGISTER_RSP &&
			   d.ops[0].mem.index == ZYDIS_REGISTER_NONE) {
			sp = sp_at(f, next);
			if (sp >= 8 && d.ops[0].mem.disp.value >= 0 && d.ops[0].mem.disp.value < sp)
				f->bp_off = (int32_t)(d.ops[0].mem.disp.value - sp - 8);
		} else if (leaves(&d) || writes(&d, ZYDIS_REGISTER_RBP)) {
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

/* Where a compiler's prologue saves rbp: there the frame is no longer empty for the first time. */
static void bp_find(struct function *f)
{
	uint8_t code[9];
	struct go_values v;
	uint32_t insn;
	size_t len;

	f->bp_kept = f->tab->version >= GO_1_18 && !(f->fn.flags & GO_ASM);
	go_values_init(&v, f->tab, &f->fn, f->fn.sp_values);
	do {
		if (values_next(f, &v) <= 0)
			return;
	} while (v.value <= 0);
	len = v.start > f->fn.start ? code_read(f, v.start - 1, code, sizeof(code)) : 0;
	insn = len ? saves_bp(code + 1, len - 1, v.value) : 0;
	if (len && code[0] == 0x55 && v.value == 8) {
		f->bp_from = v.start;
		f->bp_off = -CFA_BP_OFF;
	} else if (insn) {
		f->bp_from = v.start + insn;
		f->bp_off = -CFA_BP_OFF;
	} else {
		bp_search(f);
	}
	f->bp_kept |= f->bp_off != 0;
}

/* What asmcgocall leaves on the stack of C code, last before it calls that: g, then where it came from. */
static void c_slot_note(struct region *region, const struct decoded *d, uint64_t at)
{
	if (d->insn.mnemonic != ZYDIS_MNEMONIC_MOV || d->ops[0].type != ZYDIS_OPERAND_TYPE_MEMORY ||
	    d->ops[0].mem.base != ZYDIS_REGISTER_RSP || d->ops[0].mem.disp.value < 0 ||
	    d->ops[0].mem.disp.value >= INT8_MAX * 8 || d->ops[0].mem.disp.value & 7)
		return;
	region->c_slots[0] = region->c_slots[1];
	region->c_slots[1] = (int32_t)d->ops[0].mem.disp.value;
	region->c_from = at;
}

/* Does it write rbp other than by taking the caller's back? */
static bool spoils_bp(const struct decoded *d)
{
	return d->insn.mnemonic != ZYDIS_MNEMONIC_POP &&
	       (d->insn.mnemonic != ZYDIS_MNEMONIC_MOV ||
		d->ops[1].type != ZYDIS_OPERAND_TYPE_MEMORY ||
		d->ops[1].mem.base != ZYDIS_REGISTER_RSP);
}

/* How far from rbp the cfa is once this has written it, with the stack pointer sp from the return address. */
static int32_t bp_to_cfa(const struct decoded *d, int32_t sp)
{
	const ZydisDecodedOperand *from = &d->ops[1];

	if (sp < 0)
		return 0;
	if (d->insn.mnemonic == ZYDIS_MNEMONIC_MOV && is_register(from, ZYDIS_REGISTER_RSP))
		return sp + 8;
	if (d->insn.mnemonic == ZYDIS_MNEMONIC_LEA && from->mem.base == ZYDIS_REGISTER_RSP &&
	    from->mem.index == ZYDIS_REGISTER_NONE && from->mem.disp.value >= 0 &&
	    from->mem.disp.value <= sp)
		return sp + 8 - (int32_t)from->mem.disp.value;
	return 0;
}

/* The code of a function that may change stacks, gone through once. */
struct switch_scan {
	struct function *f;
	struct region *region; /* NULL: rsp was not written yet */
	uint32_t nr_writes; /* in it */
	bool bp_lost; /* rbp no longer points to the frame */
	bool bp_back, called; /* in the region: rbp is the caller's again; C code was called */
};

static bool region_open(struct switch_scan *scan, uint64_t start)
{
	struct function *f = scan->f;

	if (f->nr_regions == MAX_REGIONS)
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
	struct function *f = scan->f;

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

/* One instruction, up to at. False: there is more to it than can be followed. */
static bool switch_scan_one(struct switch_scan *scan, const struct decoded *d, uint64_t at)
{
	struct function *f = scan->f;

	if (switches(d))
		return switch_note(scan, at - d->insn.length, at);
	if (f->bp_off && at > f->bp_from && writes(d, ZYDIS_REGISTER_RBP)) {
		if (!f->nr_regions) {
			f->bp_to_cfa = bp_to_cfa(d, sp_at(f, at));
		} else if (spoils_bp(d)) {
			scan->bp_lost = true;
		} else { /* what leaves the frame */
			if (!scan->bp_back && scan->nr_writes < 2)
				scan->region->to = at;
			scan->bp_back = true;
		}
	} else if (scan->region && !scan->called) {
		c_slot_note(scan->region, d, at);
	}
	scan->called |= d->insn.meta.category == ZYDIS_CATEGORY_CALL;
	if (d->insn.meta.category != ZYDIS_CATEGORY_RET || !scan->region)
		return true;
	if (scan->nr_writes < 2 && !scan->bp_back) /* it never comes back */
		scan->region->to = at;
	return region_open(scan, at);
}

/*
 * Are there bytes that may be a move to rsp, or rounding it? Decoding takes long, and before Go 1.17 the functions
 * that do so are not marked.
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

/* Where rsp is written, and what the caller is found by there. */
static void switched_find(struct function *f, const char *name)
{
	struct switch_scan scan = { .f = f };
	uint8_t code[MAX_CODE_BYTES];
	size_t len = code_read(f, f->fn.start, code, sizeof(code)), pos;
	struct decoded d;

	if (!may_switch(code, len))
		return;
	decoder_init(&d);
	for (pos = 0; pos < len && decode(f, code + pos, len - pos, &d); pos += d.insn.length)
		if (!switch_scan_one(&scan, &d, f->fn.start + pos + d.insn.length))
			break;
	if (!f->nr_regions)
		return;
	f->kind = FUNCTION_WRITES_SP;
	if (pos < len) /* not all of it was seen */
		f->regions[f->nr_regions - 1].to = f->fn.end;
	if (is_among(name, switching, COUNT(switching)))
		f->switched = SWITCHED_OUTERMOST;
	else if (!strcmp(name, "runtime.asmcgocall"))
		f->switched = SWITCHED_C;
	else if (!is_among(name, leaving, COUNT(leaving)) && f->bp_off == -CFA_BP_OFF &&
		 f->bp_to_cfa && !scan.bp_lost)
		f->switched = SWITCHED_BP;
}

/* mov $15,%rax; syscall: what a signal handler returns to. */
static bool is_signal_return(const struct function *f)
{
	uint8_t code[9];

	return code_read(f, f->fn.start, code, sizeof(code)) == sizeof(code) &&
	       !memcmp(code, "\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05", sizeof(code));
}

static void function_scan(struct function *f)
{
	char name[64] = "";
	bool marked = f->fn.flags & (GO_TOP_FRAME | GO_SP_WRITE);

	f->kind = FUNCTION_PLAIN;
	if (is_signal_return(f)) {
		f->kind = FUNCTION_SIGNAL_RETURN;
		return;
	}
	if (!f->fn.sp_values) {
		f->kind = FUNCTION_NO_TABLE;
		return;
	}
	bp_find(f);
	/* Before Go 1.17 nothing is marked. */
	if ((!marked && f->tab->version > GO_1_16) ||
	    go_table_name(f->tab, &f->fn, name, sizeof(name)) < 0)
		return;
	if ((f->fn.flags & GO_TOP_FRAME && strcmp(name, "runtime.sigtramp")) ||
	    is_among(name, outermost, COUNT(outermost)))
		f->kind = FUNCTION_OUTERMOST;
	else if (f->fn.flags & GO_SP_WRITE || !strncmp(name, "runtime.", 8) ||
		 !strncmp(name, "time.", 5))
		switched_find(f, name);
}

/* The caller's frame is off from reg, perhaps on another stack. */
static uint64_t row_far(uint32_t reg, int64_t off, uint32_t bp_rule, int32_t bp_off)
{
	return unwind_row_make(0, ROW_FAR, reg, (int32_t)(off % UNWIND_FAR_BYTES / 8), bp_rule,
			       bp_off / 8, (int32_t)(off / UNWIND_FAR_BYTES));
}

static uint64_t row_switched(const struct function *f, const struct region *region, uint64_t rva)
{
	int64_t off = (int64_t)f->sp_before + 8;

	if (f->switched == SWITCHED_OUTERMOST)
		return row_kind(ROW_END);
	if (f->switched == SWITCHED_BP)
		return row_far(UNWIND_RBP, f->bp_to_cfa, BP_AT_CFA, -CFA_BP_OFF);
	if (f->switched == SWITCHED_C && region->c_from && rva >= region->c_from && off > 0 &&
	    off < UNWIND_FAR_BYTES)
		return unwind_row_make(0, ROW_GO_C, 0, (int32_t)(off / 8),
				       f->bp_off == -CFA_BP_OFF ? BP_AT_CFA : BP_SAME,
				       region->c_slots[0] / 8, region->c_slots[1] / 8);
	return row_kind(ROW_RARE);
}

static uint64_t row_sp(int64_t off, uint32_t bp_rule, int32_t bp_off)
{
	return off < UNWIND_FAR_BYTES ? row_cfa(UNWIND_RSP, off, bp_rule, bp_off)
				      : row_far(UNWIND_RSP, off, bp_rule, bp_off);
}

static uint64_t row_plain(const struct function *f, uint64_t rva, int32_t sp)
{
	if (sp < 0 || sp & 7 || sp >= MAX_FRAME_BYTES - 8)
		return row_kind(ROW_RARE);
	if (f->bp_off && rva >= f->bp_from && sp >= -f->bp_off - 8)
		return row_sp(sp + 8, BP_AT_CFA, f->bp_off);
	if (f->bp_off ? rva < f->bp_from || !sp : f->bp_kept && !sp)
		return row_sp(sp + 8, BP_SAME, 0);
	return row_sp(sp + 8, BP_LOST, 0);
}

/* Where rows go, and what of them is wanted. */
struct sink {
	uint64_t start, end;
	go_row_fn add;
	void *arg;
};

static void put(const struct sink *sink, uint64_t start, uint64_t end, uint64_t row)
{
	if (start < sink->start)
		start = sink->start;
	if (end > sink->end)
		end = sink->end;
	if (start < end)
		sink->add(sink->arg, start, end, row);
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The region that rva is in, else NULL, and *to the start of the next one if that comes first. */
static const struct region *region_find(const struct function *f, uint64_t rva, uint64_t *to)
{
	const struct region *region;
	uint64_t from;

	for (region = f->regions; region < f->regions + f->nr_regions; region++) {
		from = f->switched == SWITCHED_BP ? region->start : region->from;
		if (!from)
			continue;
		if (rva < from) {
			*to = smaller(*to, from);
			return NULL;
		}
		if (rva < region->to) {
			*to = smaller(*to, region->to);
			if (rva < region->c_from)
				*to = smaller(*to, region->c_from);
			return region;
		}
	}
	return NULL;
}

/* [start, end) where the stack pointer is sp from the return address, cut where other rules begin. */
static void put_plain(const struct sink *sink, const struct function *f, uint64_t start,
		      uint64_t end, int32_t sp)
{
	const struct region *region;
	uint64_t to;

	for (; start < end; start = to) {
		to = end;
		if (f->bp_off && start < f->bp_from)
			to = smaller(to, f->bp_from);
		region = region_find(f, start, &to);
		put(sink, start, to,
		    region ? row_switched(f, region, start) : row_plain(f, start, sp));
	}
}

static int put_function(const struct sink *sink, struct function *f)
{
	struct sink own = { .start = f->from > sink->start ? f->from : sink->start,
			    .end = smaller(f->to, sink->end),
			    .add = sink->add,
			    .arg = sink->arg };
	struct go_values v;
	int err = work_take(f->work_left, WORK_PER_FUNCTION);

	if (err)
		return err;
	function_scan(f);
	if (!*f->work_left) /* what was seen of its code is not all */
		return -E2BIG;
	switch (f->kind) {
	case FUNCTION_OUTERMOST:
		put(&own, f->from, f->to, row_kind(ROW_END));
		return 0;
	case FUNCTION_SIGNAL_RETURN:
		put(&own, f->from, f->to,
		    unwind_row_make(0, ROW_SIGNAL, 0, SIGNAL_CONTEXT / 8, 0, 0, 0));
		return 0;
	case FUNCTION_NO_TABLE:
		return 0;
	default:
		break;
	}
	go_values_init(&v, f->tab, &f->fn, f->fn.sp_values);
	while ((err = values_next(f, &v)) > 0 && v.start < own.end)
		put_plain(&own, f, v.start == f->fn.start ? f->from : v.start, v.end, v.value);
	if (err > 0) /* the others are not wanted */
		return 0;
	if (err == -E2BIG)
		return err;
	if (err)
		put(&own, v.end, f->to, row_kind(ROW_RARE));
	else /* padding */
		put_plain(&own, f, v.end, f->to, v.value);
	return err;
}

int go_rows_make(const struct go_table *tab, uint64_t start, uint64_t end, int64_t *work_left,
		 go_row_fn add, void *arg)
{
	struct sink sink = { .start = start, .end = end, .add = add, .arg = arg };
	struct function f = { .tab = tab, .work_left = work_left };
	struct go_function fn;
	uint64_t index = 0;
	int err;

	if (start >= tab->end || end <= tab->start)
		return 0;
	err = work_take(work_left, WORK_PER_LOOK_UP);
	if (err)
		return err;
	err = go_table_function(tab, start < tab->start ? tab->start : start, &fn, &index);
	f.to = err ? 0 : go_table_look_up_from(tab, fn.start);
	while (!err && f.to < end) {
		f = (struct function){ .tab = tab, .work_left = work_left, .fn = fn, .from = f.to };
		f.to = go_table_look_up_from(tab, fn.end);
		err = put_function(&sink, &f);
		if (err && err != -EBADMSG)
			return err;
		if (++index >= tab->nr_functions)
			return 0;
		err = go_table_function_at(tab, index, &fn);
		/* Rows would go back, or stand still: Go's linker gives each function 16 bytes. */
		if (!err && (fn.start < f.fn.end || fn.end == fn.start))
			err = -EBADMSG;
	}
	return err;
}
