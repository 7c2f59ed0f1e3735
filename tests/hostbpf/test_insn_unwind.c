// SPDX-License-Identifier: Apache-2.0
/*
 * Rules read out of code against the tables that its compiler wrote: at the start of every row
 * (a sample of them in big files), from that instruction on, as for code without tables.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <elf.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "elf/image.h"
#include "unwind/cfi.h"
#include "unwind/insn_unwind.h"
#include "unwind/reader.h"
#include "unwind_native.h"

#define MAX_RULES 512
#define MIN_AGREE 0.995
#define MIN_FOUND 0.75

struct count {
	uint64_t tried, found, cfa_other_reg, cfa_wrong, rbp_wrong, rbp_lost;
	uint64_t cpu_ns, worst_ns;
};

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static uint64_t row_at(const struct insn_rule *rules, int nr, uint64_t off)
{
	int i;

	for (i = 0; i < nr; i++)
		if (off >= rules[i].off && off - rules[i].off < rules[i].len)
			return rules[i].row;
	return 0;
}

/*
 * A saved rbp that is still in the register may be found in either place: clang's tables record the
 * save only after the whole prologue.
 */
static bool rbp_agrees(uint64_t table, uint64_t code)
{
	__u32 t = unwind_row_bp_rule(table), c = unwind_row_bp_rule(code);

	if (c == BP_SAME)
		return t == BP_SAME || t == BP_AT_CFA;
	if (t == BP_SAME && c == BP_AT_CFA && unwind_row_reg(code) == UNWIND_RSP)
		return unwind_row_off(code) + unwind_row_bp_off(code) >= 0; /* pushed already */
	return t == c && unwind_row_bp_off(table) == unwind_row_bp_off(code);
}

static void compare(struct cfi *cfi, enum code_way way, uint64_t off, uint64_t table,
		    const char *path, struct count *count)
{
	static struct insn_rule rules[MAX_RULES];
	uint64_t start_ns = cpu_ns(), code;
	int nr = cfi_insn_rules(cfi, way, off, false, NULL, rules, MAX_RULES);

	start_ns = cpu_ns() - start_ns;
	count->cpu_ns += start_ns;
	count->worst_ns = start_ns > count->worst_ns ? start_ns : count->worst_ns;
	count->tried++;
	code = nr > 0 ? row_at(rules, nr, off) : 0;
	if (!code)
		return;
	count->found++;
	if (unwind_row_kind(code) != ROW_CFA || unwind_row_reg(code) != unwind_row_reg(table)) {
		count->cfa_other_reg++;
	} else if (unwind_row_off(code) != unwind_row_off(table)) {
		count->cfa_wrong++;
		fprintf(stderr, "%s: %#lx: table reg %u + %ld, code %ld\n", path, (long)off,
			unwind_row_reg(table), (long)unwind_row_off(table),
			(long)unwind_row_off(code));
	} else if (unwind_row_bp_rule(code) == BP_LOST) {
		count->rbp_lost++;
	} else {
		count->rbp_wrong += !rbp_agrees(table, code);
	}
}

static struct elf_image *image_open(const char *path)
{
	struct elf_image *img;

	cr_assert_eq(elf_image_open_fd(&img, open(path, O_RDONLY | O_CLOEXEC)), 0);
	return img;
}

/* A copy of the file with useless tables: only its symbols show where functions begin. */
static struct elf_image *image_open_bare(const char *path, const struct elf_image *of,
					 uint8_t **ret)
{
	static const char *const tables[] = { ".eh_frame", ".eh_frame_hdr" };
	uint64_t bytes = elf_image_size(of);
	const struct elf_section *sec;
	struct elf_image *img = image_open(path);
	uint8_t *copy = malloc(bytes);
	Elf64_Ehdr *eh = (Elf64_Ehdr *)copy;
	Elf64_Phdr *ph;
	size_t i;

	cr_assert(copy && !elf_image_read(img, 0, copy, bytes));
	for (i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		sec = elf_image_section(img, tables[i]);
		cr_assert(sec && sec->off + sec->bytes <= bytes, "%s: no %s", path, tables[i]);
		memset(copy + sec->off, 0, sec->bytes);
	}
	ph = (Elf64_Phdr *)(copy + eh->e_phoff);
	for (i = 0; i < eh->e_phnum; i++)
		if (ph[i].p_type == PT_GNU_EH_FRAME)
			ph[i].p_type = PT_NULL;
	elf_image_free(img);
	cr_assert_eq(elf_image_open_memory(&img, copy, bytes), 0);
	*ret = copy;
	return img;
}

/* The rules are read out of code_img, which has the code of the file. */
static void compare_file(const char *path, struct elf_image *img, struct elf_image *code_img,
			 enum code_way way, int step, struct count *count)
{
	static uint64_t rows[CFI_PAGE_MAX_ROWS];
	const struct elf_segment *seg;
	struct cfi *cfi, *code;
	uint32_t page;
	size_t nr_segs, i;
	int nr, j, seen = 0;

	cr_assert_eq(cfi_new(&cfi, img), 0);
	cr_assert_eq(cfi_new(&code, code_img), 0);
	seg = elf_image_segments(img, &nr_segs);
	for (i = 0; i < nr_segs; i++) {
		if (seg[i].type != PT_LOAD || !(seg[i].flags & PF_X))
			continue;
		for (page = (uint32_t)(seg[i].off >> BPFPROF_PAGE_SHIFT);
		     page <= (seg[i].off + seg[i].file_bytes - 1) >> BPFPROF_PAGE_SHIFT; page++) {
			nr = cfi_build_page(cfi, page, rows);
			cr_assert_gt(nr, 0);
			/* The first row need not begin where an instruction does. */
			for (j = 1; j < nr; j++)
				if (unwind_row_kind(rows[j]) == ROW_CFA && !(seen++ % step))
					compare(code, way,
						((uint64_t)page << BPFPROF_PAGE_SHIFT) +
							unwind_row_low(rows[j]),
						rows[j], path, count);
		}
	}
	cfi_free(code);
	cfi_free(cfi);
}

struct installed {
	char pattern[96];
	int step;
	enum code_way way;
};

ParameterizedTestParameters(insn_rules, installed)
{
	static struct installed files[] = {
		{ "/lib/x86_64-linux-gnu/libc.so.6", 3, CODE_TO_RETURN },
		{ "/lib/x86_64-linux-gnu/libm.so.6", 3, CODE_TO_RETURN },
		{ "/lib64/ld-linux-x86-64.so.2", 1, CODE_TO_RETURN },
		{ "/usr/lib/x86_64-linux-gnu/libstdc++.so.6", 10, CODE_TO_RETURN },
		{ "/usr/lib/x86_64-linux-gnu/libcrypto.so.3", 10, CODE_TO_RETURN },
		{ "/usr/lib/x86_64-linux-gnu/libpython3*.so.1.0", 10, CODE_TO_RETURN },
		{ "/usr/lib/gcc/x86_64-linux-gnu/*/cc1", 100, CODE_TO_RETURN },
		{ "/usr/lib/x86_64-linux-gnu/libLLVM-*.so.1", 300, CODE_TO_RETURN },
		{ "/proc/self/exe", 1, CODE_TO_RETURN },
		{ "/proc/self/exe", 1, CODE_FROM_START },
	};

	return cr_make_param_array(struct installed, files, sizeof(files) / sizeof(files[0]));
}

ParameterizedTest(struct installed *file, insn_rules, installed, .timeout = 300)
{
	struct count n = { 0 };
	struct elf_image *img;
	glob_t paths = { 0 };
	uint64_t wrong;

	if (glob(file->pattern, 0, NULL, &paths)) {
		fprintf(stderr, "skip %s: not installed\n", file->pattern);
		globfree(&paths);
		return;
	}
	img = image_open(paths.gl_pathv[0]);
	compare_file(paths.gl_pathv[0], img, img, file->way, file->step, &n);
	elf_image_free(img);
	wrong = n.cfa_wrong + n.rbp_wrong;
	fprintf(stderr,
		"%s: %lu rows, %.1f%% found, cfa wrong %lu, by another register %lu, rbp wrong "
		"%lu, "
		"lost %lu, mean %lu us, worst %lu us\n",
		paths.gl_pathv[0], n.tried, 100.0 * (double)n.found / (double)n.tried, n.cfa_wrong,
		n.cfa_other_reg, n.rbp_wrong, n.rbp_lost, n.cpu_ns / n.tried / 1000,
		n.worst_ns / 1000);
	cr_assert_gt(n.tried, 100);
	cr_assert_geq((double)n.found, MIN_FOUND * (double)n.tried, "%s", paths.gl_pathv[0]);
	cr_assert_geq((double)(n.found - wrong), MIN_AGREE * (double)n.found,
		      "%s: %lu of %lu wrong", paths.gl_pathv[0], wrong, n.found);
	globfree(&paths);
}

/* These libraries have only their exported symbols: most functions follow another one and have no name. */
ParameterizedTestParameters(insn_rules, without_tables)
{
	static struct installed files[] = {
		{ "/lib/x86_64-linux-gnu/libc.so.6", 10, CODE_TO_RETURN },
		{ "/lib/x86_64-linux-gnu/libc.so.6", 10, CODE_FROM_START },
		{ "/usr/lib/x86_64-linux-gnu/libcrypto.so.3", 20, CODE_TO_RETURN },
		{ "/usr/lib/x86_64-linux-gnu/libcrypto.so.3", 20, CODE_FROM_START },
		{ "/usr/lib/x86_64-linux-gnu/libpython3*.so.1.0", 20, CODE_TO_RETURN },
		{ "/usr/lib/x86_64-linux-gnu/libpython3*.so.1.0", 20, CODE_FROM_START },
		{ "/usr/lib/x86_64-linux-gnu/libgit2.so.1.*", 10, CODE_FROM_START },
	};

	return cr_make_param_array(struct installed, files, sizeof(files) / sizeof(files[0]));
}

ParameterizedTest(struct installed *file, insn_rules, without_tables, .timeout = 300)
{
	struct elf_image *img, *bare;
	struct count n = { 0 };
	glob_t paths = { 0 };
	uint8_t *copy;

	if (glob(file->pattern, 0, NULL, &paths)) {
		fprintf(stderr, "skip %s: not installed\n", file->pattern);
		globfree(&paths);
		return;
	}
	img = image_open(paths.gl_pathv[0]);
	bare = image_open_bare(paths.gl_pathv[0], img, &copy);
	compare_file(paths.gl_pathv[0], img, bare, file->way, file->step, &n);
	elf_image_free(bare);
	elf_image_free(img);
	free(copy);
	fprintf(stderr, "%s without tables: %lu rows, %.1f%% found, cfa wrong %lu\n",
		paths.gl_pathv[0], n.tried, 100.0 * (double)n.found / (double)n.tried, n.cfa_wrong);
	cr_assert_gt(n.found, 100);
	cr_assert_leq(n.cfa_wrong * 1000, n.found, "%s: %lu of %lu wrong", paths.gl_pathv[0],
		      n.cfa_wrong, n.found);
	globfree(&paths);
}
