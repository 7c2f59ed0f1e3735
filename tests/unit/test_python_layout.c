// SPDX-License-Identifier: Apache-2.0
#include "python/layout.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "elf/image.h"
#include "python/debug_offsets.h"
#include "test_elf_fixture.h"

#define CHECKER "tests/unit/check_python_layout.py"

TestSuite(python_layout, .timeout = 120);

static int probe(const char *file, struct python_image *ret)
{
	struct elf_image *img = fixture_open(file);
	int err;

	memset(ret, 0, sizeof(*ret));
	err = python_image_probe(ret, img);
	elf_image_free(img);
	return err;
}

/*
 * A library that looks like CPython. offsets[] are the words of _Py_DebugOffsets after
 * {cookie, version, free_threaded}; those that the layout needs come from real headers.
 */
static const char head[] = "#define FUNCTION(name) int name(void) { return 0; }\n"
			   "__attribute__((noinline)) FUNCTION(_PyEval_EvalFrameDefault)\n"
			   "FUNCTION(PyMemoryView_FromObject)\n";
/* 3.14.10, x86-64, with the GIL: what offsetof() says of the real struct. */
static const char offsets_314[] =
	"#ifndef COOKIE\n#define COOKIE 0x7970677562656478 /* xdebugpy */\n#endif\n"
	"#ifndef CLAIMED\n#define CLAIMED VERSION\n#endif\n"
	"#ifndef FREE_THREADED\n#define FREE_THREADED 0\n#endif\n"
	"#ifndef RUNTIME_BYTES\n#define RUNTIME_BYTES 8192\n#endif\n"
	"#ifndef THREAD_ID\n#define THREAD_ID 152\n#endif\n"
	"#ifndef LINETABLE\n#define LINETABLE 136\n#endif\n"
	"#ifndef LENGTH\n#define LENGTH 16\n#endif\n"
	"#ifndef ARGCOUNT\n#define ARGCOUNT 52\n#endif\n"
	"#ifndef WORDS\n#define WORDS 1024\n#endif\n"
	"#ifndef THREAD_BYTES\n#define THREAD_BYTES 400\n#endif\n"
	"const unsigned long Py_Version = VERSION;\n"
	"unsigned long _PyRuntime[WORDS] = { COOKIE, CLAIMED, FREE_THREADED,\n"
	" [3] = RUNTIME_BYTES, [5] = 808, /* interpreters_head */\n"
	" [6] = 200000, [8] = 7272, [9] = 7344, /* interpreter: size, next, threads_head */\n"
	" [22] = THREAD_BYTES, [24] = 8, [26] = 72, [27] = THREAD_ID, [30] = 32, /* thread state "
	"*/\n"
	" [32] = 8, [33] = 0, [34] = 56, [36] = 74, /* frame */\n"
	" [40] = 112, [41] = 120, [42] = 128, [43] = LINETABLE, [44] = 68, [45] = ARGCOUNT,\n"
	" [48] = 208, /* code */\n"
	" [75] = 16, [76] = 32, /* bytes */\n"
	" [78] = 32, [79] = LENGTH, [80] = 40, /* str */\n"
	"};\n";

static void build(const char *file, const char *more, const char *options)
{
	char source[8192], script[512];

	snprintf(source, sizeof(source), "%s%s", head, more);
	fixture_write("python.c", source);
	snprintf(script, sizeof(script), "gcc -O1 -fPIC -shared -nostdlib %s -o %s python.c",
		 options, file);
	fixture_run(script);
}

static int probe_built(const char *more, const char *options, struct python_image *ret)
{
	build("libmade.so", more, options);
	return probe("libmade.so", ret);
}

Test(python_layout, debug_offsets)
{
	struct python_image python;
	char *path;

	cr_assert_eq(probe_built(offsets_314, "-DVERSION=0x030e0af0", &python), 0);
	path = fixture_path("libmade.so");
	cr_assert_eq(python.version, 0x030e0af0);
	cr_assert_eq(python.runtime_rva, fixture_value(path, "_PyRuntime"));
	cr_assert_eq(python.nr_ranges, 1);
	cr_assert_eq(python.ranges[0].rva, fixture_value(path, "_PyEval_EvalFrameDefault"));
	cr_assert_eq(python.layout.chain, PYTHON_CHAIN_FRAMES);
	cr_assert_eq(python.layout.lines, PYTHON_LINES_LOCATIONS);
	cr_assert_eq(python.layout.version, 0x30e);
	cr_assert_eq(python.layout.free_threaded, 0);
	cr_assert_eq(python.layout.runtime_interpreters, 808);
	cr_assert_eq(python.layout.interpreter_next, 7272);
	cr_assert_eq(python.layout.interpreter_threads, 7344);
	cr_assert_eq(python.layout.tstate_next, 8);
	cr_assert_eq(python.layout.tstate_frame, 72);
	cr_assert_eq(python.layout.tstate_thread, 152);
	cr_assert_eq(python.layout.tstate_status, 36); /* holds_gil, behind _status */
	cr_assert_eq(python.layout.status_mask, 1);
	cr_assert_eq(python.layout.tstate_bytes, 160);
	cr_assert_eq(python.layout.frame_code, 0);
	cr_assert_eq(python.layout.frame_previous, 8);
	cr_assert_eq(python.layout.frame_lasti, 56);
	cr_assert_eq(python.layout.frame_owner, 74);
	cr_assert_eq(python.layout.frame_bytes, 80);
	cr_assert_eq(python.layout.shim_owner, 3);
	cr_assert_eq(python.layout.code_mask, 3);
	cr_assert_eq(python.layout.code_filename, 112);
	cr_assert_eq(python.layout.code_name, 120);
	cr_assert_eq(python.layout.code_qualname, 128);
	cr_assert_eq(python.layout.code_linetable, 136);
	cr_assert_eq(python.layout.code_firstlineno, 68);
	cr_assert_eq(python.layout.code_flags, 48);
	cr_assert_eq(python.layout.code_version, 92);
	cr_assert_eq(python.layout.code_adaptive, 208);
	cr_assert_eq(python.layout.code_bytes, 144);
	cr_assert_eq(python.layout.unicode_length, 16);
	cr_assert_eq(python.layout.unicode_hash, 24);
	cr_assert_eq(python.layout.unicode_state, 32);
	cr_assert_eq(python.layout.unicode_kind_shift, 2);
	cr_assert_eq(python.layout.ascii_data, 40);
	cr_assert_eq(python.layout.compact_data, 56);
	cr_assert_eq(python.layout.bytes_size, 16);
	cr_assert_eq(python.layout.bytes_data, 32);
	python_image_fini(&python);
	cr_assert_null(python.ranges);
	free(path);
}

Test(python_layout, free_threaded)
{
	struct python_image python;

	cr_assert_eq(probe_built(offsets_314, "-DVERSION=0x030e0af0 -DFREE_THREADED=1", &python),
		     0);
	cr_assert_eq(python.layout.free_threaded, 1);
	cr_assert_eq(python.layout.unicode_kind_shift, 8); /* `interned` is a byte of its own */
	cr_assert_eq(python.layout.tstate_status, 32);
	cr_assert_eq(python.layout.status_mask, 16); /* attached */
	python_image_fini(&python);
}

struct lie {
	const char *name;
	const char *options;
	int wanted;
	uint32_t version;
};

static const struct lie lies[] = {
	{ "3.14.0rc1", "-DVERSION=0x030e00c1", 0, 0x030e00c1 },
	{ "3.14.0b1", "-DVERSION=0x030e00b1", -ENOTSUP, 0x030e00b1 },
	{ "3.16", "-DVERSION=0x031000f0", -ENOTSUP, 0x031000f0 },
	{ "4.0", "-DVERSION=0x040000f0", -ENOTSUP, 0x040000f0 },
	{ "3.14 that has the struct of 3.13", "-DVERSION=0x030d00f0", -EBADMSG, 0 },
	{ "Py_Version of a time before it", "-DVERSION=0x030a00f0", -EBADMSG, 0 },
	{ "Py_Version of 64 bits", "-DVERSION=0x10000030e00f0 -DCLAIMED=0x030e00f0", -EBADMSG, 0 },
	{ "no cookie", "-DVERSION=0x030e00f0 -DCOOKIE=0", -EBADMSG, 0 },
	{ "two versions", "-DVERSION=0x030e00f0 -DCLAIMED=0x030e01f0", -EBADMSG, 0 },
	{ "free-threaded how", "-DVERSION=0x030e00f0 -DFREE_THREADED=2", -EBADMSG, 0 },
	{ "cut off", "-DVERSION=0x030e00f0 -DWORDS=90 -DRUNTIME_BYTES=720", -EBADMSG, 0 },
	{ "runtime too small for its list", "-DVERSION=0x030e00f0 -DWORDS=101 -DRUNTIME_BYTES=808",
	  -EBADMSG, 0 },
	{ "two sizes", "-DVERSION=0x030e00f0 -DRUNTIME_BYTES=8200", -EBADMSG, 0 },
	{ "far field", "-DVERSION=0x030e00f0 -DTHREAD_ID=256", -EBADMSG, 0 },
	{ "outside of its struct", "-DVERSION=0x030e00f0 -DTHREAD_BYTES=152", -EBADMSG, 0 },
	{ "negative field", "-DVERSION=0x030e00f0 -DTHREAD_ID=-8UL", -EBADMSG, 0 },
	{ "64 KiB, which is 0 in 16 bits", "-DVERSION=0x030e00f0 -DLINETABLE=65672", -EBADMSG, 0 },
	{ "unaligned", "-DVERSION=0x030e00f0 -DLINETABLE=137", -EBADMSG, 0 },
	{ "before the object", "-DVERSION=0x030e00f0 -DARGCOUNT=0", -EBADMSG, 0 },
	{ "str beyond what is read", "-DVERSION=0x030e00f0 -DLENGTH=128", -EBADMSG, 0 },
};

Test(python_layout, lies)
{
	struct python_image python;
	size_t i;

	for (i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		cr_assert_eq(probe_built(offsets_314, lies[i].options, &python), lies[i].wanted,
			     "%s", lies[i].name);
		cr_assert_eq(python.version, lies[i].version, "%s", lies[i].name);
		python_image_fini(&python);
	}
}

/* The exports that distinguish versions without Py_Version. */
Test(python_layout, version_by_exports)
{
	static const char runtime[] = "unsigned long _PyRuntime[300] = { 1 };\n"
				      "#ifdef CONTEXT\nFUNCTION(PyContextVar_New)\n#endif\n"
				      "#ifdef CONFIG\nFUNCTION(PyConfig_Clear)\n#endif\n"
				      "#ifdef BACK\nFUNCTION(PyFrame_GetBack)\n#endif\n"
				      "#ifdef SEND\nFUNCTION(PyIter_Send)\n#endif\n"
				      "#ifdef TRACE\nFUNCTION(_Py_AddToAllObjects)\n#endif\n";
	static const struct lie cases[] = {
		{ "unknown", "", -ENOTSUP, 0 },
		{ "3.7", "-DCONTEXT", -ENOTSUP, 0x03070000 },
		{ "3.8", "-DCONTEXT -DCONFIG", 0, 0x03080000 },
		{ "3.9", "-DCONTEXT -DCONFIG -DBACK", 0, 0x03090000 },
		{ "3.10", "-DCONTEXT -DCONFIG -DBACK -DSEND", 0, 0x030a0000 },
		{ "trace refs", "-DCONTEXT -DCONFIG -DBACK -DSEND -DTRACE", -ENOTSUP, 0x030a0000 },
	};
	struct python_image python;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cr_assert_eq(probe_built(runtime, cases[i].options, &python), cases[i].wanted, "%s",
			     cases[i].name);
		cr_assert_eq(python.version, cases[i].version, "%s", cases[i].name);
		if (!cases[i].wanted)
			cr_assert_eq(python.layout.version, cases[i].version >> 16);
		python_image_fini(&python);
	}
}

Test(python_layout, not_python)
{
	struct python_image python;
	char script[256];

	/* The symbol has this name, but does not belong to CPython. */
	fixture_write("n.c", "int _PyRuntime = 5;\nint main(void) { return _PyRuntime; }\n");
	fixture_run("gcc -rdynamic -o n n.c");
	cr_assert_eq(probe("n", &python), -ENODATA);
	fixture_write("u.c", "extern int _PyRuntime;\nint f(void) { return _PyRuntime; }\n");
	fixture_run("gcc -shared -fPIC -o u.so u.c");
	cr_assert_eq(probe("u.so", &python), -ENODATA);
	cr_assert_eq(probe("/lib/x86_64-linux-gnu/libc.so.6", &python), -ENODATA);
	snprintf(script, sizeof(script), "cp \"$(command -v sh)\" sh.copy");
	fixture_run(script);
	cr_assert_eq(probe("sh.copy", &python), -ENODATA);
	/* A function, and data of no size. */
	cr_assert_eq(probe_built("FUNCTION(PyConfig_Clear)\n__asm__(\".data\\n.globl _PyRuntime\\n"
				 ".type _PyRuntime, @function\\n.size _PyRuntime, 2400\\n"
				 "_PyRuntime: .zero 2400\\n.text\");\n",
				 "", &python),
		     -EBADMSG);
	cr_assert_eq(probe_built("FUNCTION(PyConfig_Clear)\n__asm__(\".data\\n.globl _PyRuntime\\n"
				 ".type _PyRuntime, @object\\n_PyRuntime: .quad 1\\n.text\");\n",
				 "", &python),
		     -EBADMSG);
	/* Not data that the program could change. */
	cr_assert_eq(probe_built("const unsigned long _PyRuntime[300] = { 1 };\n"
				 "FUNCTION(PyConfig_Clear)\n",
				 "", &python),
		     -EBADMSG);
	cr_assert_null(python.ranges);
}

/* An interpreter built into a program that exports nothing. */
Test(python_layout, built_in)
{
	struct python_image python;
	char *path;

	build("made.so", "unsigned long _PyRuntime[300] = { 1 };\nFUNCTION(PyConfig_Clear)\n", "");
	fixture_run("gcc -O1 -c -o made.o python.c");
	fixture_write("m.c", "int _PyEval_EvalFrameDefault(void), PyConfig_Clear(void);\n"
			     "int main(void) { return _PyEval_EvalFrameDefault() + "
			     "PyConfig_Clear(); }\n");
	fixture_run("gcc -o built_in m.c made.o; gcc -static -o built_in_static m.c made.o;"
		    "strip -o built_in_stripped built_in");
	cr_assert_eq(probe("built_in", &python), 0);
	path = fixture_path("built_in");
	cr_assert_eq(python.runtime_rva, fixture_value(path, "_PyRuntime"));
	cr_assert_eq(python.version, 0x03080000);
	free(path);
	python_image_fini(&python);
	cr_assert_eq(probe("built_in_static", &python), 0);
	python_image_fini(&python);
	cr_assert_eq(probe("built_in_stripped", &python), -ENODATA);
}

/* Neither exports nor symbols: the section that holds nothing but _PyRuntime is left. */
Test(python_layout, section)
{
	static const char sized[] = "__attribute__((section(\".PyRuntime\"))) unsigned long "
				    "_PyRuntime[SIZE / 8] = { 1 };\n"
				    "FUNCTION(PyConfig_Clear)\n";
	static const struct {
		const char *size;
		int wanted;
		uint32_t version;
	} sizes[] = {
		{ "0x2a0", -ENOTSUP, 0 }, /* 3.10 */
		{ "0x28b20", 0, 0x030b0000 }, /* readelf -SW of 3.11.2 and 3.11.7 */
		{ "0x28f20", 0, 0x030b0000 }, { "0x2a000", -ENOTSUP, 0 },
		{ "0x704a8", 0, 0x030c0000 }, /* 3.12.1 */
		{ "0x6f000", -ENOTSUP, 0 },
	};
	static const char *const links[] = { "-shared", "-nostartfiles -no-pie -e 0" };
	struct python_image python;
	char options[256];
	uint64_t runtime;
	char *path;
	size_t i, k;

	for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		for (k = 0; k < 2; k++) {
			snprintf(options, sizeof(options), "-fvisibility=hidden -DSIZE=%s %s",
				 sizes[i].size, links[k]);
			build("hidden", sized, options);
			path = fixture_path("hidden");
			runtime = fixture_value(path, "_PyRuntime");
			free(path);
			fixture_run("strip hidden");
			cr_assert_eq(probe("hidden", &python), sizes[i].wanted, "%s",
				     sizes[i].size);
			cr_assert_eq(python.version, sizes[i].version, "%s", sizes[i].size);
			cr_assert_eq(python.runtime_rva, runtime);
			cr_assert_eq(python.nr_ranges, 0);
			python_image_fini(&python);
		}
	/* Data that says its version, as all of them from 3.13 on. */
	build("hidden", offsets_314,
	      "-fvisibility=hidden -DVERSION=0x030e0af0 -D_PyRuntime='"
	      "__attribute__((section(\".PyRuntime\"))) _PyRuntime'");
	fixture_run("strip hidden");
	cr_assert_eq(probe("hidden", &python), 0);
	cr_assert_eq(python.version, 0x030e0af0);
	cr_assert_eq(python.layout.tstate_thread, 152);
	python_image_fini(&python);
	/* With symbols it is the same file as ever. */
	build("hidden", sized, "-fvisibility=hidden -DSIZE=2400");
	cr_assert_eq(probe("hidden", &python), 0);
	cr_assert_eq(python.version, 0x03080000);
	cr_assert_eq(python.nr_ranges, 1);
	python_image_fini(&python);
}

static const char split[] =
	"unsigned long _PyRuntime[300] = { 1 };\nint PyConfig_Clear(void) { return 0; }\n"
	"int outside(int, ...); void more(void); int by_plt(int);\n"
	"__attribute__((cold, noinline)) int rare(int n) { return outside(n, 1); }\n"
	"__attribute__((noinline)) static int tail(int n) { more(); return outside(n, 2) + 1; }\n"
	"int _PyEval_EvalFrameDefault(int n) { char room[100]; int i, sum = 0;\n"
	"  if (n == 77) { more(); return by_plt(n); }\n"
	"  __asm__ volatile(\"jmp 1f; .byte 0xe9; .long twin_inside - . - 4; 1:\");\n"
	"  for (i = 0; i < n; i++) sum += outside(i, room);\n"
	"  if (__builtin_expect(sum > 100, 0)) { sum += rare(sum); sum ^= rare(sum + n);\n"
	"    outside(sum, room); sum *= rare(n); }\n"
	"  more(); return tail(sum); }\n"
	"int user(int n) { return tail(n) + 1; }\n"
	/* Another function, into which bytes that are no instruction seem to jump. */
	"__asm__(\"twin: .cfi_startproc; push %rbp; .cfi_def_cfa_offset 16; .cfi_offset rbp, "
	"-16;\"\n"
	" \"mov %rsp, %rbp; .cfi_def_cfa_register rbp; twin_inside: nop; nop; pop %rbp;\"\n"
	" \".cfi_def_cfa rsp, 8; ret; .cfi_endproc\");\n";

/* The part that gcc splits off is found by name, and in a stripped file by the jump to it. */
Test(python_layout, split_eval_loop)
{
	static const char *const compilers[] = { "", "-fno-omit-frame-pointer", "-O3" };
	struct python_image python, stripped;
	uint64_t cold, eval;
	char script[512];
	char *path;
	size_t i;

	fixture_write("split.c", split);
	for (i = 0; i < sizeof(compilers) / sizeof(compilers[0]); i++) {
		snprintf(script, sizeof(script),
			 "gcc -O2 "
			 "-freorder-blocks-and-partition %s -fPIC -shared -o split.so split.c;"
			 "strip -o split_stripped.so split.so",
			 compilers[i]);
		fixture_run(script);
		path = fixture_path("split.so");
		cold = fixture_value(path, "_PyEval_EvalFrameDefault.cold");
		eval = fixture_value(path, "_PyEval_EvalFrameDefault");
		free(path);
		cr_assert_eq(probe("split.so", &python), 0);
		cr_assert_eq(probe("split_stripped.so", &stripped), 0);
		cr_assert_eq(python.nr_ranges, 2);
		cr_assert_eq(python.ranges[0].rva, cold < eval ? cold : eval);
		cr_assert_eq(python.ranges[1].rva, cold < eval ? eval : cold);
		cr_assert_eq(stripped.nr_ranges, 2, "%s", compilers[i]);
		cr_assert_eq(memcmp(stripped.ranges, python.ranges, 2 * sizeof(*python.ranges)), 0,
			     "%s", compilers[i]);
		python_image_fini(&python);
		python_image_fini(&stripped);
	}
}

/* A size that reaches out of the code. */
Test(python_layout, long_eval_loop)
{
	struct python_image python;
	const struct elf_segment *seg;
	struct elf_image *img;
	size_t nr, i;

	cr_assert_eq(probe_built("unsigned long _PyRuntime[300] = { 1 };\n"
				 "FUNCTION(PyConfig_Clear)\n"
				 "__asm__(\".size _PyEval_EvalFrameDefault, 0x7fffffff\");\n",
				 "-fno-toplevel-reorder", &python),
		     0);
	img = fixture_open("libmade.so");
	seg = elf_image_segments(img, &nr);
	for (i = 0; i < nr && !(seg[i].flags & 1 && seg[i].type == 1); i++)
		;
	cr_assert_eq(python.nr_ranges, 1);
	cr_assert_eq(python.ranges[0].rva + python.ranges[0].bytes, seg[i].va + seg[i].file_bytes);
	elf_image_free(img);
	python_image_fini(&python);
}

/* Every length of the first bytes but the whole. */
Test(python_layout, cut_debug_offsets)
{
	struct bpfprof_python_layout layout;
	struct python_image python;
	struct elf_image *img;
	uint8_t *data, *part;
	uint64_t off;
	size_t len;

	cr_assert_eq(probe_built(offsets_314, "-DVERSION=0x030e0af0", &python), 0);
	img = fixture_open("libmade.so");
	cr_assert(data = malloc(760));
	cr_assert_eq(elf_image_rva_to_off(img, python.runtime_rva, &off), 0);
	cr_assert_eq(elf_image_read(img, off, data, 760), 0);
	cr_assert_eq(python_debug_offsets_parse(&layout, data, 760, 0x030e0af0, 0), 0);
	for (len = 0; len < 760; len++) {
		cr_assert(part = malloc(len + 1));
		memcpy(part, data, len);
		cr_assert_eq(python_debug_offsets_parse(&layout, part, len, 0x030e0af0, 0),
			     -EBADMSG, "%zu", len);
		free(part);
	}
	free(data);
	elf_image_free(img);
	python_image_fini(&python);
}

/* A function for each instruction; neighbours are one range. */
Test(python_layout, tail_call_handlers)
{
	static const char handlers[] =
		"unsigned long _PyRuntime[300] = { 1 };\nFUNCTION(PyConfig_Clear)\n"
		"static FUNCTION(_TAIL_CALL_LOAD_FAST)\nstatic FUNCTION(_TAIL_CALL_BINARY_OP)\n"
		"__attribute__((section(\"far_text\"))) static FUNCTION(_TAIL_CALL_far)\n"
		"int (*const table[])(void) = { _TAIL_CALL_LOAD_FAST, _TAIL_CALL_BINARY_OP,\n"
		" _TAIL_CALL_far };\n";
	struct python_image python;
	uint64_t far;
	size_t i;
	char *path;
	bool found = false;

	cr_assert_eq(probe_built(handlers, "-Wl,--section-start=far_text=0x900000", &python), 0);
	path = fixture_path("libmade.so");
	far = fixture_value(path, "_TAIL_CALL_far");
	/* The eval function, which stands apart, and the handlers that follow one another. */
	cr_assert_leq(python.nr_ranges, 3);
	for (i = 0; i < python.nr_ranges; i++) {
		uint64_t near = fixture_value(path, "_TAIL_CALL_BINARY_OP");

		cr_assert(!i || python.ranges[i - 1].rva < python.ranges[i].rva);
		found |= near >= python.ranges[i].rva &&
			 near - python.ranges[i].rva < python.ranges[i].bytes;
	}
	cr_assert(found);
	cr_assert_eq(python.ranges[python.nr_ranges - 1].rva, far);
	python_image_fini(&python);
	free(path);
}

/* Stripped, a function too small to be the loop says that any function may be a handler. */
Test(python_layout, stripped_handlers)
{
	static const char large[] = "__asm__(\".globl _PyEval_EvalFrameDefault\\n\"\n"
				    "\".type _PyEval_EvalFrameDefault, @function\\n\"\n"
				    "\"_PyEval_EvalFrameDefault: .fill SIZE, 1, 0x90\\n\"\n"
				    "\".size _PyEval_EvalFrameDefault, SIZE\\n\");\n"
				    "int other(void) { return 1; }\n";
	static const struct {
		const char *version, *size, *strip;
		bool all;
	} cases[] = {
		{ "0x030e0af0", "4095", "-s", true },
		{ "0x030e0af0", "4096", "-s", false },
		{ "0x030e0af0", "64", "", false },
	};
	const struct elf_segment *seg;
	struct python_image python;
	char source[8192], script[512];
	struct elf_image *img;
	size_t nr, i, k;

	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		snprintf(source, sizeof(source), "%s%s", large, offsets_314);
		fixture_write("t.c", source);
		snprintf(script, sizeof(script),
			 "sed -i 's/ SIZE/ %s/g' t.c && gcc -O1 -fPIC -shared -nostdlib "
			 "-DVERSION=%s %s -o t.so t.c",
			 cases[i].size, cases[i].version, cases[i].strip);
		fixture_run(script);
		cr_assert_eq(probe("t.so", &python), 0);
		img = fixture_open("t.so");
		seg = elf_image_segments(img, &nr);
		for (k = 0; k < nr && !(seg[k].flags & 1 && seg[k].type == 1); k++)
			;
		cr_assert_eq(python.nr_ranges, 1);
		cr_assert_eq(python.ranges[0].rva == seg[k].va &&
				     python.ranges[0].bytes == seg[k].file_bytes,
			     cases[i].all, "%s", cases[i].size);
		elf_image_free(img);
		python_image_fini(&python);
	}
}

#define FIELDS(F)                                                                                  \
	F(chain)                                                                                   \
	F(lines)                                                                                   \
	F(version)                                                                                 \
	F(free_threaded)                                                                           \
	F(runtime_interpreters)                                                                    \
	F(runtime_current)                                                                         \
	F(gil)                                                                                     \
	F(gil_holder)                                                                              \
	F(interpreter_next)                                                                        \
	F(interpreter_threads)                                                                     \
	F(tstate_next)                                                                             \
	F(tstate_thread)                                                                           \
	F(tstate_frame)                                                                            \
	F(tstate_status)                                                                           \
	F(status_mask)                                                                             \
	F(cframe_frame)                                                                            \
	F(cframe_previous)                                                                         \
	F(frame_code)                                                                              \
	F(frame_previous)                                                                          \
	F(frame_lasti)                                                                             \
	F(frame_owner)                                                                             \
	F(shim_owner)                                                                              \
	F(code_mask)                                                                               \
	F(code_name)                                                                               \
	F(code_qualname)                                                                           \
	F(code_filename)                                                                           \
	F(code_linetable)                                                                          \
	F(code_firstlineno)                                                                        \
	F(code_flags)                                                                              \
	F(code_version)                                                                            \
	F(code_adaptive)                                                                           \
	F(unicode_length)                                                                          \
	F(unicode_hash)                                                                            \
	F(unicode_state)                                                                           \
	F(unicode_kind_shift)                                                                      \
	F(ascii_data)                                                                              \
	F(compact_data)                                                                            \
	F(bytes_size)                                                                              \
	F(bytes_data)                                                                              \
	F(lasti_unit)

static void check_live(const char *program, const char *checker, const struct python_image *python)
{
	const struct bpfprof_python_layout *l = &python->layout;
	char script[4096];
	int len;

	len = snprintf(script, sizeof(script), "'%s' '%s'", program, checker);
#define F(field)                                                                                   \
	len += snprintf(script + len, sizeof(script) - (size_t)len, " " #field "=%u",              \
			(unsigned int)l->field);
	FIELDS(F)
#undef F
	fixture_run(script);
}

/* Every Python of this machine compares what the probe says with its own memory. */
Test(python_layout, real_interpreters)
{
	char script[2048], *list, *line, *next, *file, *version, *checker;
	unsigned long hex;
	struct python_image python;
	size_t len, nr = 0;
	int err;

	checker = realpath(CHECKER, NULL);
	cr_assert(checker);
	snprintf(script, sizeof(script),
		 "root=${PYENV_ROOT:-$(pyenv root 2>/dev/null || echo $HOME/.pyenv)}\n"
		 "for p in /usr/bin/python3 /usr/local/bin/python3 $root/versions/*/bin/python\n"
		 "do [ -x \"$p\" ] && \"$p\" '%s' || :; done > pythons",
		 checker);
	fixture_run(script);
	list = fixture_read("pythons", &len);
	for (line = list; *line; line = next) {
		next = strchrnul(line, '\n');
		if (*next)
			*next++ = 0;
		file = strchr(line, '\t');
		version = file ? strchr(file + 1, '\t') : NULL;
		cr_assert(version, "%s", line);
		*file++ = 0;
		*version++ = 0;
		hex = strtoul(version, NULL, 16);
		err = probe(file, &python);
		nr++;
		if (hex < 0x03080000) {
			cr_assert_eq(err, -ENOTSUP, "%s", file);
			cr_assert_eq(python.version >> 16, hex >> 16, "%s", file);
			continue;
		}
		cr_assert_eq(err, 0, "%s: %d", file, err);
		cr_assert_eq(python.version, hex < 0x030b0000 ? hex & ~0xffffUL : hex, "%s", file);
		cr_assert_geq(python.nr_ranges, 1, "%s", file);
		check_live(line, checker, &python);
		python_image_fini(&python);
	}
	cr_assert_geq(nr, 1);
	free(list);
	free(checker);
}

static struct bpfprof_python_layout good_layout(void)
{
	struct bpfprof_python_layout layout;
	struct python_image python;

	cr_assert_eq(probe_built(offsets_314, "-DVERSION=0x030e0af0", &python), 0);
	layout = python.layout;
	python_image_fini(&python);
	return layout;
}

Test(python_layout, check)
{
	struct bpfprof_python_layout good = good_layout(), bad;

	cr_assert_eq(python_layout_check(&good), 0);
#define BAD(field, value)                                                                          \
	bad = good;                                                                                \
	bad.field = (value);                                                                       \
	cr_assert_eq(python_layout_check(&bad), -EBADMSG, #field)
	BAD(chain, 0);
	BAD(chain, 5);
	BAD(lines, 0);
	BAD(lines, PYTHON_LINES_RANGES);
	BAD(lines, 4);
	BAD(version, 0x207);
	BAD(free_threaded, 2);
	BAD(runtime_interpreters, 0);
	BAD(runtime_interpreters, 4);
	BAD(runtime_interpreters, 1U << 31);
	BAD(runtime_current, (1U << 20));
	BAD(interpreter_next, 0xfffffff8);
	BAD(gil, 1U << 20);
	BAD(gil, 12);
	BAD(gil_holder, PYTHON_GIL_BYTES);
	BAD(interpreter_threads, 1U << 20);
	BAD(tstate_next, good.tstate_bytes);
	BAD(tstate_next, good.tstate_bytes - 8U);
	BAD(tstate_thread, BPFPROF_PYTHON_TSTATE_BYTES - 8);
	BAD(tstate_thread, 0);
	BAD(tstate_frame, 12);
	BAD(tstate_status, good.tstate_bytes);
	BAD(tstate_bytes, BPFPROF_PYTHON_TSTATE_BYTES);
	BAD(frame_code, good.frame_bytes - 4);
	BAD(frame_previous, good.frame_code);
	BAD(frame_lasti, 58);
	BAD(frame_owner, 0);
	BAD(frame_owner, good.frame_bytes);
	BAD(frame_bytes, BPFPROF_PYTHON_FRAME_BYTES);
	BAD(frame_bytes, 76);
	BAD(shim_owner, 0);
	BAD(shim_owner, 256);
	BAD(code_mask, 8);
	BAD(code_name, 0);
	BAD(code_qualname, 65528);
	BAD(code_filename, good.code_bytes);
	BAD(code_linetable, 140);
	BAD(code_firstlineno, 66);
	BAD(code_flags, good.code_bytes);
	BAD(code_version, good.code_bytes);
	BAD(code_bytes, BPFPROF_PYTHON_CODE_BYTES);
	BAD(code_adaptive, 0);
	BAD(code_adaptive, 2048);
	BAD(code_adaptive, 209);
	BAD(unicode_length, 0);
	BAD(unicode_length, 124);
	BAD(unicode_hash, 128);
	BAD(unicode_state, 128);
	BAD(unicode_kind_shift, 28);
	BAD(ascii_data, 32);
	BAD(ascii_data, 136);
	BAD(compact_data, good.ascii_data);
	BAD(compact_data, 136);
	BAD(bytes_size, 124);
	BAD(bytes_data, 16);
	BAD(bytes_data, 136);
	BAD(cframe_previous, 8);
	bad = good;
	bad.chain = PYTHON_CHAIN_OBJECTS; /* which has no instructions inside of code objects */
	cr_assert_eq(python_layout_check(&bad), -EBADMSG);
}
