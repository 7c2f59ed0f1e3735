// SPDX-License-Identifier: Apache-2.0
/* Rows and rules against libdw's, over files of this system and fixtures that are built here. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libdw_diff.h"
#include "unwind/reader.h"
#include "unwind_native.h"

#define FIXTURES "tests/hostbpf/fixtures/"
#define MAX_RARE_SHARE 0.001

static double share(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : 0;
}

static void check(const char *path, const struct diff_result *r, double max_rare)
{
	double pages = (double)r->nr_pages;

	cr_assert(r->nr_pages > 0, "%s: no page", path);
	fprintf(stderr,
		"%s: %" PRIu64 " pages, %.0f rows/page, rare %.4f%%, cfa on other registers "
		"%.4f%%, page %.0f us, slowest %.0f us, %" PRIu64 " addresses compared\n",
		path, r->nr_pages, (double)r->nr_rows / pages,
		100 * share(r->rare_bytes, r->code_bytes),
		100 * share(r->other_reg_bytes, r->code_bytes), (double)r->build_ns / pages / 1e3,
		(double)r->worst_build_ns / 1e3, r->nr_compared);
	cr_assert_eq(r->nr_wrong, 0, "%s: %" PRIu64 " addresses differ", path, r->nr_wrong);
	cr_assert(r->nr_compared > r->nr_rows, "%s: too little compared", path);
	cr_assert(share(r->rare_bytes, r->code_bytes) <= max_rare, "%s: too many rare rules", path);
}

struct installed {
	char pattern[96];
	uint32_t page_step; /* big files: a sample of their pages */
};

ParameterizedTestParameters(libdw, installed)
{
	static struct installed files[] = {
		{ "/lib/x86_64-linux-gnu/libc.so.6", 1 },
		{ "/lib64/ld-linux-x86-64.so.2", 1 },
		{ "/lib/x86_64-linux-gnu/libm.so.6", 1 },
		{ "/usr/lib/x86_64-linux-gnu/libstdc++.so.6", 1 },
		{ "/usr/lib/x86_64-linux-gnu/libpython3*.so.1.0", 1 },
		{ "/usr/lib/x86_64-linux-gnu/libcrypto.so.3", 1 },
		{ "/usr/lib/x86_64-linux-gnu/libLLVM-*.so.1", 40 },
		{ "/usr/lib/gcc/x86_64-linux-gnu/*/cc1", 10 },
		{ "/usr/bin/python3", 1 },
		{ "/bin/busybox", 1 },
		{ "/proc/self/exe", 1 },
	};

	return cr_make_param_array(struct installed, files, sizeof(files) / sizeof(files[0]));
}

ParameterizedTest(struct installed *file, libdw, installed, .timeout = 300)
{
	struct diff_result result;
	glob_t found = { 0 };
	int err;

	if (glob(file->pattern, 0, NULL, &found)) {
		fprintf(stderr, "skip %s: not installed\n", file->pattern);
		globfree(&found);
		return;
	}
	err = diff_run(found.gl_pathv[0], file->page_step, 1000, &result);
	cr_assert_eq(err, 0, "%s: %s", found.gl_pathv[0], strerror(-err));
	check(found.gl_pathv[0], &result, MAX_RARE_SHARE);
	globfree(&found);
}

static int run_shell(const char *script)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		execlp("sh", "sh", "-ec", script, (char *)NULL);
		_exit(127);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status)
									       : -1;
}

struct built {
	char compiler[8];
	char flags[80];
};

ParameterizedTestParameters(libdw, built)
{
	static struct built variants[] = {
		{ "gcc", "-O0" },
		{ "gcc", "-O1" },
		{ "gcc", "-O2" },
		{ "gcc", "-O3 -march=haswell" },
		{ "gcc", "-Os -fno-omit-frame-pointer" },
		{ "gcc", "-O2 -static" },
		{ "gcc", "-O2 -static-pie" },
		{ "gcc", "-O2 -Wl,-z,noseparate-code" },
		{ "gcc", "-O2 -no-pie -Wl,-z,ibtplt" },
		{ "gcc", "-O2 -fcf-protection=full -Wl,-z,lazy" },
		{ "gcc", "-O2 -Wl,--no-eh-frame-hdr" },
		{ "gcc", "-O2 -mstackrealign" },
		{ "gcc", "-O2 -mcmodel=large -fPIC" },
		{ "gcc", "-O2 -ffunction-sections -Wl,--gc-sections,-u,asm_index" },
		{ "clang", "-O0" },
		{ "clang", "-O2" },
		{ "clang", "-O3 -mavx2" },
		{ "clang", "-O2 -static" },
		{ "clang", "-Os -mstackrealign" },
	};

	return cr_make_param_array(struct built, variants, sizeof(variants) / sizeof(variants[0]));
}

ParameterizedTest(struct built *variant, libdw, built, .timeout = 300)
{
	char path[] = "/tmp/bpfprof-frames-XXXXXX", script[512];
	struct diff_result result;
	int fd = mkstemp(path), err;

	cr_assert(fd >= 0);
	close(fd);
	snprintf(script, sizeof(script),
		 "command -v %s >/dev/null || exit 77; %s -g0 -w %s -o %s " FIXTURES
		 "frames.c " FIXTURES "frames.S",
		 variant->compiler, variant->compiler, variant->flags, path);
	err = run_shell(script);
	if (err == 77) {
		fprintf(stderr, "skip %s: not installed\n", variant->compiler);
		unlink(path);
		return;
	}
	if (!err)
		err = diff_run(path, 1, 1000, &result);
	unlink(path);
	cr_assert_eq(err, 0, "%s: %d", script, err);
	snprintf(script, sizeof(script), "%s %s", variant->compiler, variant->flags);
	check(script, &result, 0.01); /* frames.S is all rare rules */
	cr_assert(result.nr_kind[ROW_DEREF] >= 1, "%s", script);
	cr_assert(result.nr_kind[ROW_INDEX] == 1, "%s", script);
	cr_assert(result.nr_kind[ROW_END] >= 1, "%s", script);
	cr_assert(result.nr_kind[ROW_NONE] >= 1, "%s", script);
	cr_assert(result.nr_kind[ROW_RARE] >= 10 && result.nr_kind[ROW_RARE] <= 40, "%s", script);
}
