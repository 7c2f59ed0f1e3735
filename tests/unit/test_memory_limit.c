// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capture/memory_limit.h"

static char root[] = "/tmp/bpfprof-test-XXXXXX";

static void put(const char *name, const char *text)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", root, name);
	for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = 0;
		mkdir(path, 0700);
		*slash = '/';
	}
	file = fopen(path, "w");
	cr_assert_not_null(file);
	fputs(text, file);
	fclose(file);
}

static uint64_t limit_for(const char *membership)
{
	char path[256];

	put("membership", membership);
	snprintf(path, sizeof(path), "%s/membership", root);
	return memory_limit(path, root);
}

static void setup(void)
{
	cr_assert_not_null(mkdtemp(root));
	put("a/memory.max", "1000\n");
	put("a/b/memory.max", "max\n");
	put("a/b/c/memory.max", "3000\n");
	put("z/memory.max", "0\n");
	put("memory/memory.limit_in_bytes", "9223372036854771712\n");
	put("memory/m/memory.limit_in_bytes", "500\n");
}

static void teardown(void)
{
	static const char *const names[] = {
		"membership", "a/b/c/memory.max",
		"a/b/c",      "a/b/memory.max",
		"a/b",	      "a/memory.max",
		"a",	      "z/memory.max",
		"z",	      "memory/m/memory.limit_in_bytes",
		"memory/m",   "memory/memory.limit_in_bytes",
		"memory",     "memory.max",
	};
	char path[256];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", root, names[i]);
		remove(path);
	}
	rmdir(root);
}

Test(memory_limit, lowest_on_the_way_up, .init = setup, .fini = teardown)
{
	static const struct {
		const char *membership;
		uint64_t limit;
	} cases[] = {
		{ "", UINT64_MAX },
		{ "nonsense\n", UINT64_MAX },
		{ "0::/\n", UINT64_MAX },
		{ "0::/a\n", 1000 },
		{ "0::/a/b\n", 1000 },
		{ "0::/a/b/c\n", 1000 },
		{ "0::/a/not/visible\n", 1000 },
		{ "0::/ab\n", UINT64_MAX },
		{ "0::/z\n", 0 },
		{ "9:memory:/m\n", 500 },
		{ "9:memory:/\n", 9223372036854771712ULL },
		{ "9:memory:/m\n8:cpu:/a\n0::/a\n", 500 },
		{ "9:memory:/\n0::/a\n", 1000 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t limit = limit_for(cases[i].membership);

		cr_expect_eq(limit, cases[i].limit, "%s: %llu", cases[i].membership,
			     (unsigned long long)limit);
	}
	put("memory.max", "700\n");
	cr_expect_eq(limit_for("0::/a/b\n"), 700);
	cr_expect_eq(limit_for("0::/\n"), 700);
}
