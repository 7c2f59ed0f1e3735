// SPDX-License-Identifier: Apache-2.0
#include "libdw_diff.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "elf/image.h"
#include "unwind/cfi.h"
#include "unwind/reader.h"
#include "unwind_native.h"

#define MAX_SHOWN 8

struct diff {
	const char *path;
	struct elf_image *img;
	struct cfi *cfi;
	Elf *elf;
	Dwarf_CFI *dw;
	struct diff_result *result;
	uint64_t rows[CFI_PAGE_MAX_ROWS];
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* reg + off, if that is all that the operations say. */
static bool ops_reg_off(const Dwarf_Op *ops, size_t nr, uint64_t *reg, int64_t *off)
{
	if (nr != 1)
		return false;
	if (ops[0].atom >= DW_OP_breg0 && ops[0].atom <= DW_OP_breg31) {
		*reg = ops[0].atom - DW_OP_breg0;
		*off = (int64_t)ops[0].number;
		return true;
	}
	if (ops[0].atom == DW_OP_bregx) {
		*reg = ops[0].number;
		*off = (int64_t)ops[0].number2;
		return true;
	}
	return false;
}

/* The same for a place: libdw starts with the cfa, which DWARF has pushed first. */
static bool ops_at_reg_off(const Dwarf_Op *ops, size_t nr, uint64_t *reg, int64_t *off)
{
	return nr == 2 && ops[0].atom == DW_OP_call_frame_cfa && ops_reg_off(ops + 1, 1, reg, off);
}

static bool ops_plt(const Dwarf_Op *ops, size_t nr, int64_t *off, int64_t *threshold)
{
	static const uint8_t atoms[] = { DW_OP_breg7, DW_OP_breg16, DW_OP_lit15, DW_OP_and, 0,
					 DW_OP_ge,    DW_OP_lit3,   DW_OP_shl,	 DW_OP_plus };

	if (nr != sizeof(atoms) || ops[1].number)
		return false;
	for (size_t i = 0; i < nr; i++)
		if (atoms[i] && ops[i].atom != atoms[i])
			return false;
	if (ops[4].atom < DW_OP_lit0 || ops[4].atom > DW_OP_lit31)
		return false;
	*off = (int64_t)ops[0].number;
	*threshold = ops[4].atom - DW_OP_lit0;
	return true;
}

/* breg off; deref; [plus_uconst] */
static bool ops_deref(const Dwarf_Op *ops, size_t nr, uint64_t *reg, int64_t *off, int64_t *second)
{
	if ((nr != 2 && nr != 3) || ops[1].atom != DW_OP_deref || !ops_reg_off(ops, 1, reg, off))
		return false;
	if (nr == 3 && ops[2].atom != DW_OP_plus_uconst)
		return false;
	*second = nr == 3 ? (int64_t)ops[2].number : 0;
	return true;
}

/* breg7 off; breg reg 0; lit8; mul; plus; deref; plus_uconst second */
static bool ops_index(const Dwarf_Op *ops, size_t nr, uint64_t *reg, int64_t *off, int64_t *second)
{
	uint64_t base;
	int64_t zero;

	if (nr != 7 || !ops_reg_off(ops, 1, &base, off) || base != UNWIND_RSP ||
	    !ops_reg_off(ops + 1, 1, reg, &zero) || zero || ops[2].atom != DW_OP_lit8 ||
	    ops[3].atom != DW_OP_mul || ops[4].atom != DW_OP_plus ||
	    ops[5].atom != DW_OP_deref || ops[6].atom != DW_OP_plus_uconst)
		return false;
	*second = (int64_t)ops[6].number;
	return true;
}

/* Saved at cfa + *off: libdw says call_frame_cfa; plus_uconst, or consts and plus. */
static bool ops_at_cfa(const Dwarf_Op *ops, size_t nr, int64_t *off)
{
	if (nr < 1 || ops[0].atom != DW_OP_call_frame_cfa)
		return false;
	if (nr == 1) {
		*off = 0;
		return true;
	}
	*off = (int64_t)ops[1].number;
	if (nr == 2)
		return ops[1].atom == DW_OP_plus_uconst;
	return nr == 3 && ops[1].atom == DW_OP_consts && ops[2].atom == DW_OP_plus;
}

static bool cfa_equal(uint64_t row, Dwarf_Frame *frame)
{
	int64_t off = 0, second = 0;
	uint64_t reg = UNWIND_RSP;
	Dwarf_Op *ops;
	size_t nr;

	if (dwarf_frame_cfa(frame, &ops, &nr))
		return false;
	switch (unwind_row_kind(row)) {
	case ROW_CFA:
		return ops_reg_off(ops, nr, &reg, &off) && reg == unwind_row_reg(row) &&
		       off == unwind_row_off(row);
	case ROW_DEREF:
		return ops_deref(ops, nr, &reg, &off, &second) && reg == unwind_row_reg(row) &&
		       off == unwind_row_off(row) && second == unwind_row_second(row) * 8;
	case ROW_INDEX:
		return ops_index(ops, nr, &reg, &off, &second) && reg == unwind_row_reg(row) &&
		       off == unwind_row_off(row) && second == unwind_row_second(row) * 8;
	case ROW_PLT:
		return ops_plt(ops, nr, &off, &second) && off == unwind_row_off(row) &&
		       second == unwind_row_second(row);
	}
	return false;
}

static bool bp_equal(uint64_t row, Dwarf_Frame *frame)
{
	int64_t off = unwind_row_bp_off(row), value;
	Dwarf_Op mem[3], *ops;
	uint64_t reg;
	size_t nr;

	if (dwarf_frame_register(frame, UNWIND_RBP, mem, &ops, &nr))
		return false;
	if (!nr) /* libdw: ops set: undefined, NULL: same value */
		return unwind_row_bp_rule(row) == (ops ? BP_LOST : BP_SAME);
	if (unwind_row_bp_rule(row) == BP_AT_CFA) {
		if (ops_at_cfa(ops, nr, &value))
			return value == off;
		return ops_at_reg_off(ops, nr, &reg, &value) && reg == unwind_row_reg(row) &&
		       value - unwind_row_off(row) == off;
	}
	return unwind_row_bp_rule(row) == BP_AT_BP && ops_at_reg_off(ops, nr, &reg, &value) &&
	       reg == UNWIND_RBP && value == off;
}

/* 1: saved at cfa - 8, 0: undefined, -1: anything else. */
static int ra_where(Dwarf_Frame *frame)
{
	Dwarf_Op mem[3], *ops;
	int64_t off;
	size_t nr;

	if (dwarf_frame_register(frame, UNWIND_RIP, mem, &ops, &nr))
		return -1;
	if (!nr)
		return ops ? 0 : -1;
	return ops_at_cfa(ops, nr, &off) && off == -8 ? 1 : -1;
}

/* Every register that the signal row restores, where glibc's table says it is. */
static bool signal_equal(uint64_t row, Dwarf_Frame *frame)
{
	static const uint8_t order[] = { 8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16 };
	Dwarf_Op mem[3], *ops;
	bool signalp = false;
	uint64_t reg;
	int64_t off;
	size_t nr;

	if (dwarf_frame_info(frame, NULL, NULL, &signalp) < 0 || !signalp)
		return false;
	for (size_t i = 0; i < sizeof(order); i++)
		if (dwarf_frame_register(frame, order[i], mem, &ops, &nr) ||
		    !ops_at_reg_off(ops, nr, &reg, &off) || reg != UNWIND_RSP ||
		    off != unwind_row_off(row) + (int64_t)i * 8)
			return false;
	return true;
}

static bool row_equal(uint64_t row, Dwarf_Frame *frame)
{
	switch (unwind_row_kind(row)) {
	case ROW_CFA:
	case ROW_DEREF:
	case ROW_PLT:
	case ROW_INDEX:
		return ra_where(frame) == 1 && cfa_equal(row, frame) && bp_equal(row, frame);
	case ROW_SIGNAL:
		return signal_equal(row, frame);
	case ROW_END:
		return ra_where(frame) == 0;
	case ROW_RARE: /* may be anything; its share is what matters */
		return true;
	}
	return false;
}

static void show_wrong(struct diff *diff, uint64_t rva, uint64_t row, Dwarf_Frame *frame)
{
	Dwarf_Op *ops = NULL;
	size_t nr = 0;

	if (diff->result->nr_wrong++ >= MAX_SHOWN)
		return;
	fprintf(stderr,
		"%s: 0x%" PRIx64 ": row kind %u reg %u off %lld bp %u %lld second %lld; libdw:",
		diff->path, rva, unwind_row_kind(row), unwind_row_reg(row),
		(long long)unwind_row_off(row), unwind_row_bp_rule(row),
		(long long)unwind_row_bp_off(row), (long long)unwind_row_second(row));
	if (frame)
		dwarf_frame_cfa(frame, &ops, &nr);
	else
		fprintf(stderr, " nothing");
	for (size_t i = 0; i < nr; i++)
		fprintf(stderr, " %#x(%lld)", ops[i].atom, (long long)ops[i].number);
	fprintf(stderr, "\n");
}

/* Compares at rva; the first address from which libdw may say something else. */
static uint64_t compare_at(struct diff *diff, uint64_t rva, uint64_t row)
{
	Dwarf_Addr start, end = rva + 1;
	Dwarf_Frame *frame = NULL;

	diff->result->nr_compared++;
	if (dwarf_cfi_addrframe(diff->dw, rva, &frame)) {
		if (unwind_row_kind(row) != ROW_NONE && unwind_row_kind(row) != ROW_RARE)
			show_wrong(diff, rva, row, NULL);
		return end;
	}
	if (getenv("SHOWRARE") && unwind_row_kind(row) == ROW_RARE) fprintf(stderr, "rare %lx\n", (long)rva);
	dwarf_frame_info(frame, &start, &end, NULL);
	if (unwind_row_kind(row) == ROW_NONE || !row_equal(row, frame))
		show_wrong(diff, rva, row, frame);
	free(frame);
	return end > rva ? end : rva + 1;
}

static void compare_row(struct diff *diff, uint64_t rva, uint64_t end, uint64_t row)
{
	uint64_t at = rva, bytes = end - rva;

	diff->result->nr_kind[unwind_row_kind(row)]++;
	if (unwind_row_kind(row) != ROW_NONE)
		diff->result->code_bytes += bytes;
	if (unwind_row_kind(row) == ROW_RARE)
		diff->result->rare_bytes += bytes;
	if (unwind_row_kind(row) == ROW_NONE) { /* libdw gives no range where it has nothing */
		for (uint32_t i = 0; i < 64 && at < end; i++)
			at = compare_at(diff, at, row);
	} else {
		while (at < end)
			at = compare_at(diff, at, row);
	}
	compare_at(diff, rva + bytes / 2, row);
	compare_at(diff, end - 1, row);
}

static int compare_page(struct diff *diff, uint32_t page, const struct elf_segment *seg)
{
	uint64_t base = (uint64_t)page << BPFPROF_PAGE_SHIFT, start, end, t0, ns;
	uint64_t seg_end = seg->off + seg->file_bytes;
	int nr;

	t0 = now_ns();
	nr = cfi_build_page(diff->cfi, page, diff->rows);
	ns = now_ns() - t0;
	if (nr < 0)
		return nr;
	if (nr < 1 || unwind_row_low(diff->rows[0]))
		return -EPROTO;
	diff->result->build_ns += ns;
	if (ns > diff->result->worst_build_ns)
		diff->result->worst_build_ns = ns;
	diff->result->nr_rows += (uint64_t)nr;
	diff->result->nr_pages++;
	for (int i = 0; i < nr; i++) {
		start = base + unwind_row_low(diff->rows[i]);
		end = base + (i + 1 < nr ? unwind_row_low(diff->rows[i + 1]) : 0x10000);
		if (end <= start)
			return -EPROTO;
		if (i && !((diff->rows[i] ^ diff->rows[i - 1]) >> 16)) /* not merged */
			return -EPROTO;
		start = start > seg->off ? start : seg->off;
		end = end < seg_end ? end : seg_end;
		if (start < end)
			compare_row(diff, start - seg->off + seg->va, end - seg->off + seg->va,
				    diff->rows[i]);
	}
	return 0;
}

static int compare_segments(struct diff *diff, uint32_t page_step, uint32_t max_pages)
{
	size_t nr;
	const struct elf_segment *segs = elf_image_segments(diff->img, &nr);
	int err = 0;

	for (size_t i = 0; i < nr && !err; i++) {
		uint64_t page = segs[i].off >> BPFPROF_PAGE_SHIFT;

		if (segs[i].type != PT_LOAD || !(segs[i].flags & PF_X))
			continue;
		for (; !err && page << BPFPROF_PAGE_SHIFT < segs[i].off + segs[i].file_bytes &&
		       diff->result->nr_pages < max_pages;
		     page += page_step)
			err = compare_page(diff, (uint32_t)page, &segs[i]);
	}
	return err;
}

int diff_run(const char *path, uint32_t page_step, uint32_t max_pages, struct diff_result *ret)
{
	struct diff *diff = calloc(1, sizeof(*diff));
	int fd = open(path, O_RDONLY | O_CLOEXEC), err = -ENODATA;

	if (!diff || fd < 0) {
		free(diff);
		return -errno;
	}
	memset(ret, 0, sizeof(*ret));
	diff->path = path;
	diff->result = ret;
	elf_version(EV_CURRENT);
	diff->elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	if (diff->elf)
		diff->dw = dwarf_getcfi_elf(diff->elf);
	if (diff->dw)
		err = elf_image_open_fd(&diff->img, dup(fd));
	if (!err)
		err = cfi_new(&diff->cfi, diff->img);
	if (!err)
		err = compare_segments(diff, page_step, max_pages);
	cfi_free(diff->cfi);
	elf_image_free(diff->img);
	dwarf_cfi_end(diff->dw);
	elf_end(diff->elf);
	close(fd);
	free(diff);
	return err;
}
