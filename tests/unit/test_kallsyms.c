// SPDX-License-Identifier: Apache-2.0
#include "symbol/kallsyms.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/strtab.h"
#include "test_elf_fixture.h"

static struct strtab *names;

static void setup(void)
{
	cr_assert(!strtab_new(&names, 16 << 20));
}

static void teardown(void)
{
	strtab_free(names);
}

TestSuite(kallsyms, .init = setup, .fini = teardown, .timeout = 60);

/* Modules stand behind the kernel and before it in addresses; BPF programs are in no order. */
static const char text[] = "0000000000000000 A fixed_percpu_data\n"
			   "0000000000001000 A irq_stack\n"
			   "ffffffff81000000 T startup_64\n"
			   "ffffffff81000000 T _stext\n"
			   "ffffffff81000000 T _text\n"
			   "ffffffff81000040 t local_one\n"
			   "ffffffff81000080 t __pfx_alias\n"
			   "ffffffff81000080 T aliased\n"
			   "ffffffff81000080 W weak_alias\n"
			   "ffffffff810000c0 T __softirqentry_text_start\n"
			   "ffffffff810000c0 t do_softirq_local\n"
			   "ffffffff81000100 T last_function\n"
			   "ffffffff81000200 T _etext\n"
			   "ffffffff81001000 R __start_rodata\n"
			   "ffffffff81002000 d some_data\n"
			   "ffffffff81002100 W weak_function\n"
			   "ffffffffc0100000 t mod_b_func\t[mod_b]\n"
			   "ffffffffc0100100 d mod_b_data\t[mod_b]\n"
			   "ffffffffc0000000 t mod_a_func\t[mod_a]\n"
			   "ffffffffc0000080 T mod_a_last\t[mod_a]\n"
			   "ffffffffc0200000 t bpf_prog_6deef7357e7b4530_sample\t[bpf]\n"
			   "garbage\n"
			   "ffffffff81000050\n"
			   "ffffffff81000050 t\n"
			   "zzzz T nonsense\n"
			   "11111111111111111 T too_long_address\n"
			   "ffffffff81000060 t ";

static void resolve_one(const char *file, uint64_t va, struct kallsyms_query *query)
{
	char *path = fixture_path(file);

	*query = (struct kallsyms_query){ .va = va };
	cr_assert_eq(kallsyms_resolve(path, names, query, 1), 0);
	free(path);
}

static const struct {
	uint64_t va;
	const char *name, *module;
} cases[] = {
	{ 0xffff, "", "" },
	{ 0xffffffff80ffffff, "", "" },
	{ 0xffffffff81000000, "startup_64", "" },
	{ 0xffffffff8100003f, "startup_64", "" },
	{ 0xffffffff81000040, "local_one", "" },
	{ 0xffffffff81000055, "local_one", "" },
	{ 0xffffffff81000065, "local_one", "" },
	{ 0xffffffff81000080, "aliased", "" },
	{ 0xffffffff810000bf, "aliased", "" },
	{ 0xffffffff810000c8, "do_softirq_local", "" },
	{ 0xffffffff810001ff, "last_function", "" },
	{ 0xffffffff81000200, "", "" }, /* behind the text */
	{ 0xffffffff81001010, "", "" },
	{ 0xffffffff81002050, "", "" },
	{ 0xffffffff81002110, "weak_function", "" },
	{ 0xffffffff81102110, "", "" }, /* 1 MiB on */
	{ 0xffffffffc0000010, "mod_a_func", "mod_a" },
	{ 0xffffffffc0000080, "mod_a_last", "mod_a" },
	{ 0xffffffffc000ffff, "mod_a_last", "mod_a" },
	{ 0xffffffffc0010080, "", "" }, /* the module's last symbol, 64 KiB on */
	{ 0xffffffffc01000ff, "mod_b_func", "mod_b" },
	{ 0xffffffffc0100100, "", "" },
	{ 0xffffffffc0200abc, "bpf_prog_6deef7357e7b4530_sample", "bpf" },
	{ 0xffffffffc02f0000, "bpf_prog_6deef7357e7b4530_sample", "bpf" },
	{ UINT64_MAX, "", "" },
};

#define NR_CASES (sizeof(cases) / sizeof(cases[0]))

Test(kallsyms, one_by_one_and_all_together)
{
	struct kallsyms_query queries[NR_CASES] = { 0 }, query;
	struct kallsyms_table *table;
	uint64_t start, end;
	const char *name;
	char *path;
	size_t i;

	fixture_write("kallsyms", text);
	path = fixture_path("kallsyms");
	for (i = 0; i < NR_CASES; i++) {
		resolve_one("kallsyms", cases[i].va, &query);
		cr_assert_str_eq(strtab_get(names, query.name), cases[i].name, "%#lx", cases[i].va);
		cr_assert_str_eq(strtab_get(names, query.module), cases[i].module);
		queries[i].va = cases[i].va;
	}
	cr_assert_eq(kallsyms_resolve(path, names, queries, NR_CASES), 0);
	for (i = 0; i < NR_CASES; i++) {
		cr_assert_str_eq(strtab_get(names, queries[i].name), cases[i].name, "%#lx",
				 cases[i].va);
		cr_assert_str_eq(strtab_get(names, queries[i].module), cases[i].module);
	}
	resolve_one("kallsyms", 0xffffffff8100003f, &query);
	cr_assert_eq(query.start, 0xffffffff81000000);
	cr_assert_eq(query.end, 0xffffffff81000040);
	resolve_one("kallsyms", 0xffffffffc0000070, &query);
	cr_assert(query.start == 0xffffffffc0000000 && query.end == 0xffffffffc0000080);
	cr_assert_eq(kallsyms_table_new(&table, path), 0);
	for (i = 0; i < NR_CASES; i++) {
		start = end = 0;
		name = kallsyms_table_find(table, cases[i].va, &start, &end);
		cr_assert_str_eq(name ? name : "", cases[i].name, "%#lx", cases[i].va);
		cr_assert_eq(start, queries[i].start);
		cr_assert(!name || end == queries[i].end, "%#lx", cases[i].va);
	}
	kallsyms_table_free(table);
	/* Each symbol starts where the one before ends, in any set of queries. */
	for (i = 0; i < NR_CASES; i++) {
		resolve_one("kallsyms", cases[i].va, &query);
		cr_assert_eq(query.end, queries[i].end, "%#lx", cases[i].va);
	}
	free(path);
}

Test(kallsyms, hidden_addresses_and_missing_files)
{
	struct kallsyms_query query = { .va = 1, .name = 77 };
	struct kallsyms_range range = { .name = "secret" };
	struct kallsyms_table *table;
	char *path;

	fixture_write("hidden", "0000000000000000 T _stext\n0000000000000000 t secret\t[mod]\n");
	path = fixture_path("hidden");
	cr_assert_eq(kallsyms_resolve(path, names, &query, 1), -EACCES);
	cr_assert_eq(kallsyms_find(path, &range, 1), -EACCES);
	cr_assert_eq(kallsyms_table_new(&table, path), -EACCES);
	cr_assert_eq(query.name, 77);
	cr_assert_eq(kallsyms_resolve("/nonexistent", names, &query, 1), -ENOENT);
	cr_assert_eq(kallsyms_resolve("/", names, &query, 1), -EISDIR);
	free(path);
}

Test(kallsyms, find_by_name)
{
	struct kallsyms_range ranges[] = {
		{ .name = "aliased" },
		{ .name = "mod_a_last" },
		{ .name = "alias" },
		{ .name = "" },
		{ .name = "bpf_prog_6deef7357e7b4530_sample" },
	};
	char *path;

	fixture_write("kallsyms", text);
	path = fixture_path("kallsyms");
	cr_assert_eq(kallsyms_find(path, ranges, 5), 0);
	cr_assert(ranges[0].start == 0xffffffff81000080 && ranges[0].end == 0xffffffff810000c0);
	cr_assert(ranges[1].start == 0xffffffffc0000080 && ranges[1].end == 0xffffffffc0200000);
	cr_assert(!ranges[2].start && !ranges[2].end && !ranges[3].start && !ranges[3].end);
	cr_assert(ranges[4].start && ranges[4].end == UINT64_MAX);
	free(path);
}

/* From the first of a prefix to the symbol behind the last, others in between or not; what is optional may be missing. */
Test(kallsyms, find_by_prefix)
{
	struct kallsyms_range ranges[] = {
		{ .name = "asm_sysvec_", .prefix = true },
		{ .name = "asm_common_interrupt" },
		{ .name = "nowhere", .optional = true },
		{ .name = "asm_exc_", .prefix = true },
	};
	char *path;

	fixture_write("prefixes", "ffffffff81000000 T asm_exc_int3\n"
				  "ffffffff81000020 T asm_common_interrupt\n"
				  "ffffffff81000040 T asm_sysvec_apic_timer_interrupt\n"
				  "ffffffff81000060 T asm_load_gs_index\n"
				  "ffffffff81000080 T asm_sysvec_hyperv_stimer0\n"
				  "ffffffff810000a0 T asm_sysvec_xen_hvm_callback\n"
				  "ffffffff810000c0 T entry_SYSCALL_64\n"
				  "ffffffff810000e0 T last\n");
	path = fixture_path("prefixes");
	cr_assert_eq(kallsyms_find(path, ranges, 4), 0);
	cr_expect(ranges[0].start == 0xffffffff81000040 && ranges[0].end == 0xffffffff810000c0);
	cr_expect(ranges[1].start == 0xffffffff81000020 && ranges[1].end == 0xffffffff81000040);
	cr_expect(!ranges[2].start && !ranges[2].end);
	cr_expect(ranges[3].start == 0xffffffff81000000 && ranges[3].end == 0xffffffff81000020);
	free(path);
}

/* The running kernel, where it may be read: each function in its middle, against sort(1)'s answer. */
Test(kallsyms, every_function_of_this_kernel)
{
	struct kallsyms_query *queries;
	struct kallsyms_table *table;
	char *list, *line, *next;
	uint64_t start, end;
	const char *name;
	char **wants;
	size_t len, nr = 0, i;

	/* Text symbols alone at their address that a larger one follows: START NEXT NAME. */
	fixture_run(
		"if [ \"$(awk '$1 != \"0000000000000000\" { n++ } END { print n + 0 }' "
		"/proc/kallsyms)\" -lt 1000 ];"
		"then : > list; exit 0; fi;"
		"grep -v ' [aA] ' /proc/kallsyms | sort -k1,1 | awk '{ if (n == 1 && $1 != last &&"
		"type ~ /^[tTwW]$/ && name !~ "
		"/^_(stext|text|etext|sinittext|einittext)$|text_(start|end)$|^__init_begin$/ && "
		"mod == \"\")"
		"print last, $1, name; n = $1 == last ? n + 1 : 1; last = $1; type = $2; name = "
		"$3; mod = $4 }' > list");
	list = fixture_read("list", &len);
	if (!len) {
		free(list);
		cr_skip_test("/proc/kallsyms shows no addresses");
	}
	queries = calloc(len / 34, sizeof(*queries));
	wants = calloc(len / 34, sizeof(*wants));
	for (line = list; *line; line = next) {
		start = strtoull(line, &next, 16);
		end = strtoull(next, &next, 16);
		wants[nr] = next + 1;
		next = strchr(next, '\n');
		*next++ = 0;
		if (end - start <= 1 << 20)
			queries[nr++].va = start + (end - start) / 2;
	}
	cr_assert_gt(nr, 1000);
	cr_assert_eq(kallsyms_resolve("/proc/kallsyms", names, queries, nr), 0);
	cr_assert_eq(kallsyms_table_new(&table, "/proc/kallsyms"), 0);
	for (i = 0; i < nr; i++) {
		cr_assert_str_eq(strtab_get(names, queries[i].name), wants[i], "%#lx",
				 queries[i].va);
		name = kallsyms_table_find(table, queries[i].va, &start, &end);
		cr_assert_str_eq(name ? name : "", wants[i], "%#lx", queries[i].va);
		cr_assert(start == queries[i].start && end == queries[i].end);
	}
	kallsyms_table_free(table);
	free(wants);
	free(queries);
	free(list);
}
