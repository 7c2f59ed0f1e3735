// SPDX-License-Identifier: Apache-2.0
#include "libdw_diff.h"

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
#include "libdw_rules.h"
#include "unwind_native.h"

#define MAX_SHOWN 8
#define MAX_GAP_PROBES 64 /* libdw gives no range where it has nothing */
#define FULL_RULES_EVERY 16 /* addresses; cfi_step() reads the FDE each time */

struct diff {
	const char *path;
	const struct elf_segment *seg;
	struct elf_image *img;
	struct cfi *cfi;
	Elf *elf;
	Dwarf_CFI *dw;
	struct diff_result *result;
	uint64_t seed;
	uint64_t rows[CFI_PAGE_MAX_ROWS];
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static int made_read(struct unwind_reader *reader, __u64 va, void *dst, __u32 len)
{
	uint64_t word;

	(void)reader;
	for (uint32_t at = 0; at < len; at += 8) {
		word = made_memory(va + at);
		memcpy((char *)dst + at, &word, len - at < 8 ? len - at : 8);
	}
	return 0;
}

/* Registers that all differ, with rsp below whatever a cfa can become. */
static void state_make(struct diff *diff, uint64_t rva, struct unwind_state *s)
{
	for (int i = 0; i < BPFPROF_NR_REGS; i++)
		s->regs[i] = made_memory(diff->seed++) | 1ULL << 46;
	s->regs[UNWIND_RSP] = 1ULL << 40 | (made_memory(diff->seed++) & 0xfffff8);
	s->regs[UNWIND_RIP] = (1ULL << 42) + rva;
	s->valid = UNWIND_ALL_REGS;
	s->exact = 1;
}

/*
 * rsp, rip and rbp of the caller, or all registers, against libdw's. What no rule mentions is
 * undefined or the same by the ABI: libdw 0.188 mistakes rax (0) for rbx (3) there.
 */
static bool state_equal(const struct unwind_state *s, const struct unwind_state *before,
			const struct rules_result *want, bool all)
{
	const uint32_t rax = 0, rbx = 3;

	for (uint32_t i = 0; i < BPFPROF_NR_REGS; i++) {
		bool known = s->valid & 1U << i;

		if (!all && i != UNWIND_RBP && i != UNWIND_RSP && i != UNWIND_RIP && !known)
			continue;
		if (i == rax && !known && want->same[i])
			continue;
		if (i == rbx && known && !want->known[i] && s->regs[i] == before->regs[i])
			continue;
		if (known && !want->known[i] && want->signal) /* still as interrupted */
			continue;
		if (known != want->known[i] || (known && s->regs[i] != want->regs[i]))
			return false;
	}
	return true;
}

static bool stop_equal(int stop, const struct unwind_state *s, const struct unwind_state *before,
		       const struct rules_result *want, bool all)
{
	if (!want->known[UNWIND_RIP])
		return stop == BPFPROF_STOP_COMPLETE;
	return !stop && state_equal(s, before, want, all);
}

/* The row must lead where libdw's rules lead. */
static bool row_agrees(struct diff *diff, uint64_t rva, uint64_t row, Dwarf_Frame *frame)
{
	struct unwind_reader reader = { .read = made_read };
	struct unwind_state before, after;
	struct rules_result want;
	int stop, trials = unwind_row_kind(row) == ROW_PLT ? 32 : 2;

	for (int i = 0; i < trials; i++) {
		state_make(diff, rva + (uint64_t)i, &before);
		if (!rules_eval(frame, &before, &want))
			return false;
		after = before;
		stop = unwind_step(&after, row, &reader);
		unwind_settle(&after, &reader);
		if (!stop_equal(stop, &after, &before, &want, unwind_row_kind(row) == ROW_SIGNAL))
			return false;
	}
	return true;
}

/* The complete rules must do so, too, for every register. */
static bool full_rules_agree(struct diff *diff, uint64_t rva, Dwarf_Frame *frame)
{
	struct unwind_reader reader = { .read = made_read };
	struct unwind_state before, after;
	struct rules_result want;
	int stop;

	state_make(diff, rva, &before);
	if (!rules_eval(frame, &before, &want))
		return false;
	after = before;
	stop = cfi_step(diff->cfi, rva - diff->seg->va + diff->seg->off, &after, &reader);
	/* A frame must lie above its callee; only made-up code has others. */
	if (stop == BPFPROF_STOP_BAD_FRAME)
		return want.regs[UNWIND_RSP] <= before.regs[UNWIND_RSP];
	return stop_equal(stop, &after, &before, &want, true);
}

static void show_wrong(struct diff *diff, uint64_t rva, uint64_t row, const char *what)
{
	if (diff->result->nr_wrong++ >= MAX_SHOWN)
		return;
	fprintf(stderr,
		"%s: 0x%" PRIx64 ": %s; row kind %u reg %u off %lld bp %u %lld second %lld\n",
		diff->path, rva, what, unwind_row_kind(row), unwind_row_reg(row),
		(long long)unwind_row_off(row), unwind_row_bp_rule(row),
		(long long)unwind_row_bp_off(row), (long long)unwind_row_second(row));
}

/* Compares at rva; the first address at which libdw may say something else. */
static uint64_t compare_at(struct diff *diff, uint64_t rva, uint64_t row)
{
	uint32_t kind = unwind_row_kind(row);
	Dwarf_Addr start, end = rva + 1;
	Dwarf_Frame *frame = NULL;

	diff->result->nr_compared++;
	if (dwarf_cfi_addrframe(diff->dw, rva, &frame)) {
		if (kind != ROW_NONE)
			show_wrong(diff, rva, row, "libdw has no rule here");
		return end;
	}
	dwarf_frame_info(frame, &start, &end, NULL);
	if (kind == ROW_NONE)
		show_wrong(diff, rva, row, "libdw has a rule here");
	else if (kind != ROW_RARE && !row_agrees(diff, rva, row, frame))
		show_wrong(diff, rva, row, "the row differs from libdw");
	else if ((kind == ROW_RARE || diff->result->nr_compared % FULL_RULES_EVERY == 0) &&
		 !full_rules_agree(diff, rva, frame))
		show_wrong(diff, rva, row, "cfi_step() differs from libdw");
	free(frame);
	return end > rva ? end : rva + 1;
}

static void compare_row(struct diff *diff, uint64_t rva, uint64_t end, uint64_t row)
{
	uint32_t kind = unwind_row_kind(row), reg = unwind_row_reg(row);
	uint64_t bytes = end - rva, at = rva;

	diff->result->nr_kind[kind]++;
	if (kind != ROW_NONE)
		diff->result->code_bytes += bytes;
	if (kind == ROW_RARE)
		diff->result->rare_bytes += bytes;
	if ((kind == ROW_CFA || kind == ROW_DEREF) && reg != UNWIND_RBP && reg != UNWIND_RSP)
		diff->result->other_reg_bytes += bytes;
	for (int i = 0; at < end && (kind != ROW_NONE || i < MAX_GAP_PROBES); i++)
		at = compare_at(diff, at, row);
	compare_at(diff, rva + bytes / 2, row);
	compare_at(diff, end - 1, row);
}

static int compare_page(struct diff *diff, uint32_t page)
{
	const struct elf_segment *seg = diff->seg;
	uint64_t base = (uint64_t)page << BPFPROF_PAGE_SHIFT, seg_end = seg->off + seg->file_bytes;
	uint64_t start, end, ns = now_ns();
	int nr = cfi_build_page(diff->cfi, page, diff->rows);

	ns = now_ns() - ns;
	if (nr < 0)
		return nr;
	if (nr < 1 || nr > CFI_PAGE_MAX_ROWS || unwind_row_low(diff->rows[0]))
		return -EPROTO;
	diff->result->build_ns += ns;
	if (ns > diff->result->worst_build_ns)
		diff->result->worst_build_ns = ns;
	diff->result->nr_rows += (uint64_t)nr;
	diff->result->nr_pages++;
	for (int i = 0; i < nr; i++) {
		start = base + unwind_row_low(diff->rows[i]);
		end = base + (i + 1 < nr ? unwind_row_low(diff->rows[i + 1]) : 0x10000);
		if (end <= start || (i && !((diff->rows[i] ^ diff->rows[i - 1]) >> 16)))
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
	uint64_t page;
	int err = 0;

	for (size_t i = 0; i < nr && !err; i++) {
		diff->seg = &segs[i];
		if (segs[i].type != PT_LOAD || !(segs[i].flags & PF_X))
			continue;
		page = segs[i].off >> BPFPROF_PAGE_SHIFT;
		for (; !err && page << BPFPROF_PAGE_SHIFT < segs[i].off + segs[i].file_bytes &&
		       diff->result->nr_pages < max_pages;
		     page += page_step)
			err = compare_page(diff, (uint32_t)page);
	}
	return err;
}

static int diff_open(struct diff *diff, int fd)
{
	int err;

	elf_version(EV_CURRENT);
	diff->elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	diff->dw = diff->elf ? dwarf_getcfi_elf(diff->elf) : NULL;
	if (!diff->dw)
		return -ENODATA;
	err = elf_image_open_fd(&diff->img, dup(fd));
	return err ? err : cfi_new(&diff->cfi, diff->img);
}

int diff_run(const char *path, uint32_t page_step, uint32_t max_pages, struct diff_result *ret)
{
	struct diff *diff = calloc(1, sizeof(*diff));
	int fd, err;

	if (!diff)
		return -ENOMEM;
	memset(ret, 0, sizeof(*ret));
	diff->path = path;
	diff->result = ret;
	diff->seed = 1;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	err = fd < 0 ? -errno : diff_open(diff, fd);
	if (!err)
		err = compare_segments(diff, page_step, max_pages);
	cfi_free(diff->cfi);
	elf_image_free(diff->img);
	dwarf_cfi_end(diff->dw);
	elf_end(diff->elf);
	if (fd >= 0)
		close(fd);
	free(diff);
	return err;
}
