// SPDX-License-Identifier: Apache-2.0
#include "cuda/kernel_names.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "cuda/registrations.h"
#include "elf/image.h"
#include "test_elf_fixture.h"

/* The CUDA runtime as far as a launch needs it; every launching function calls inner() first. */
static const char runtime[] =
	"#include <stddef.h>\n"
	"struct dim3 { unsigned x, y, z; };\n"
	"volatile int calls;\n"
	"static __attribute__((noinline)) int inner(void) { return calls++; }\n"
	"static __attribute__((noinline)) int driver(const void *f) { return f && calls++; }\n"
	"void **__cudaRegisterFatBinary(void *fat) { inner(); return fat; }\n"
	"void __cudaRegisterFatBinaryEnd(void **h) { inner(); *h = 0; }\n"
	"void __cudaRegisterFunction(void **h, const char *f, char *d, const char *n, int t, void "
	"*a,"
	" void *b, void *c, void *e, int *w) { inner(); calls += *n; }\n"
	"int __cudaPopCallConfiguration(struct dim3 *g, struct dim3 *b, size_t *m, void *s)"
	" { g->x = b->x = *m = 0; return inner(); }\n"
	"int __cudaGetKernel(const void **h, const void *f) { *h = f; return inner(); }\n"
	"int cudaFuncSetAttribute(const void *f, int a, int v) { return inner(); }\n"
	"int cudaLaunchKernel(const void *f, struct dim3 g, struct dim3 b, void **a, size_t m, "
	"void *s)"
	" { return inner() + driver(f); }\n"
	"int cudaLaunchKernelExC(const void *c, const void *f, void **a)"
	" { return inner() + driver(f); }\n"
	"__asm__(\".pushsection .text; .globl __cudaLaunchKernel; \" VISIBLE \"\\n\"\n"
	"\".type __cudaLaunchKernel,@function\\n\"\n"
	"\"__cudaLaunchKernel: .cfi_startproc; push %rbp; mov %rsp,%rbp; pop %rbp;\"\n"
	"\"jmp \" JUMP \"; .cfi_endproc; .popsection\");\n";

/*
 * The code that nvcc makes of kernels one, two and three, as C: STUB(name) is the host function.
 * The kernel's name begins with `dev_`; uncertain_* launch one of them.
 */
static const char program[] =
	"#include <stddef.h>\n"
	"struct dim3 { unsigned x, y, z; };\n"
	"void **__cudaRegisterFatBinary(void *); void __cudaRegisterFatBinaryEnd(void **);\n"
	"void __cudaRegisterFunction(void **, const char *, char *, const char *, int, void *, "
	"void *,"
	" void *, void *, int *);\n"
	"int __cudaPopCallConfiguration(struct dim3 *, struct dim3 *, size_t *, void *);\n"
	"int __cudaGetKernel(const void **, const void *);\n"
	"int cudaLaunchKernel(const void *, struct dim3, struct dim3, void **, size_t, void *);\n"
	"int __cudaLaunchKernel(const void *, struct dim3, struct dim3, void **, size_t, void *);\n"
	"int cudaLaunchKernelExC(const void *, const void *, void **);\n"
	"#if defined LEGACY\n"
	"#define LAUNCH(k) cudaLaunchKernel((const void *)k, g, b, args, m, s)\n"
	"#else\n"
	"#define LAUNCH(k) ({ static const void *h_##k; static char ready_##k;"
	" if (!__atomic_load_n(&ready_##k, __ATOMIC_ACQUIRE))"
	" ready_##k = !__cudaGetKernel(&h_##k, (const void *)k);"
	" __cudaLaunchKernel(h_##k, g, b, args, m, s); })\n"
	"#endif\n"
	"#define BEGIN void *args[] = { &p }; struct dim3 g = { 1, 1, 1 }, b = { 1, 1, 1 };"
	" size_t m; void *s;\n"
	"#define STUB(k) __attribute__((noinline)) int k(float *p) { BEGIN"
	" if (__cudaPopCallConfiguration(&g, &b, &m, &s)) return 1; return LAUNCH(k) + 1; }\n"
	"STUB(one) STUB(two) STUB(three)\n"
	/* Stubs that were inlined. */
	"int dev_one_dev_two(float *p, int n) { BEGIN\n"
	" if (__cudaPopCallConfiguration(&g, &b, &m, &s)) return 1;\n"
	" LAUNCH(one); while (n--) LAUNCH(two); return n; }\n"
	"int ex_three(float *p) { void *args[] = { &p }; long c[7] = { 0 };\n"
	" return cudaLaunchKernelExC(c, (const void *)three, args) + 1; }\n"
	"int uncertain_choice(float *p, int n) { void *args[] = { &p }; struct dim3 g = { 1, 1, 1 "
	"};\n"
	" return cudaLaunchKernel(n ? (const void *)one : (const void *)two, g, g, args, 0, 0) + "
	"1; }\n"
	"const void *volatile pointer;\n"
	"int uncertain_pointer(float *p) { void *args[] = { &p }; struct dim3 g = { 1, 1, 1 };\n"
	" return cudaLaunchKernel(pointer, g, g, args, 0, 0) + 1; }\n"
	/* This function passes its argument on. */
	"__attribute__((noinline)) int hand(int n, const void *f) { struct dim3 g = { 1, 1, 1 };\n"
	" return cudaLaunchKernel(f, g, g, 0, 0, 0) + n; }\n"
	"int handed_two(int n) { return hand(n, (const void *)two) + 1; }\n"
	"int other_two(int (*f)(int, const void *)) { return f(1, (const void *)two) + 1; }\n"
	/* nvcc's wrappers have names of other files when it links device code, too. */
	"#ifndef LINKED_DEVICE_CODE\n"
	"static\n"
	"#endif\n"
	"struct { int magic, version; const void *data, *more; } fat"
	" __attribute__((section(\".nvFatBinSegment\"), used)) = { 0x466243b1, 1, &fat, 0 };\n"
	"#define REGISTER(k) __cudaRegisterFunction(h, (const char *)k, (char *)\"dev_\" #k,"
	" \"dev_\" #k, -1, 0, 0, 0, 0, 0);\n"
	"static void callback(void **h) { REGISTER(one) REGISTER(two) REGISTER(three) }\n"
	"#ifdef LINKED_DEVICE_CODE\n"
	"__attribute__((noinline)) void linked(void (*f)(void **), void *w) { pointer = f; }\n"
	"__attribute__((constructor)) static void all(void) { linked(callback, &fat); }\n"
	"#else\n"
	"__attribute__((constructor)) static void all(void) {\n"
	" void **h = __cudaRegisterFatBinary(&fat); callback(h); __cudaRegisterFatBinaryEnd(h); }\n"
	"#endif\n";

struct call {
	char function[64];
	char callee[64];
	uint64_t end; /* return address */
};

/* The calls in file that objdump sees, of functions whose names contain `callee`. */
static size_t calls_of(const char *file, const char *callee, struct call *calls, size_t cap)
{
	char script[512], *text, *line, *next;
	size_t nr = 0, len;

	snprintf(script, sizeof(script),
		 "objdump -dw --no-show-raw-insn %s | awk '"
		 "/^[0-9a-f]+ </ { f = substr($2, 2, length($2) - 3) }"
		 "c != \"\" && /^ *[0-9a-f]+:/ { print f, c, $1; c = \"\" }"
		 "/[\t ]call / && /%s/ { c = $NF }' | tr -d '<>:' > calls.out",
		 file, callee);
	fixture_run(script);
	text = fixture_read("calls.out", &len);
	for (line = text; *line && nr < cap; line = next) {
		next = strchrnul(line, '\n');
		if (*next)
			*next++ = 0;
		cr_assert_eq(sscanf(line, "%63s %63s %lx", calls[nr].function, calls[nr].callee,
				    &calls[nr].end),
			     3, "%s", line);
		nr++;
	}
	free(text);
	return nr;
}

static struct kernel_names *names;

static void setup(void)
{
	cr_assert(!kernel_names_new(&names));
	fixture_write("runtime.c", runtime);
	fixture_write("program.c", program);
}

static void teardown(void)
{
	kernel_names_free(names);
}

TestSuite(gpu_kernel_names, .init = setup, .fini = teardown, .timeout = 120);

static uint64_t later(void)
{
	return time_monotonic_ns() + 60 * NS_PER_SECOND;
}

/* The name, or the error. */
static const char *ask_walk(struct elf_image *img, uint64_t rva, struct kernel_walk *walk)
{
	const char *name = NULL;
	int err = kernel_names_find(names, 1, img, rva, later(), walk, &name);

	switch (err) {
	case 0:
		return name;
	case -ENOENT:
		return walk->function ? "(handed on)" : "(no launch)";
	case -ENOTUNIQ:
		return "(uncertain)";
	default:
		return strerror(-err);
	}
}

static const char *ask(struct elf_image *img, uint64_t rva)
{
	struct kernel_walk walk = { 0 };

	return ask_walk(img, rva, &walk);
}

static void build(const char *flags, const char *link)
{
	char script[2048];

	snprintf(script, sizeof(script),
		 "gcc -w -fPIC -O2 -DVISIBLE='\"\"' -DJUMP='\"cudaLaunchKernel@plt\"' -shared -o "
		 "libruntime.so "
		 "runtime.c\n"
		 "gcc -w -fPIC -O2 -fvisibility=hidden -DVISIBLE='\".hidden __cudaLaunchKernel\"' "
		 "-DJUMP='\"cudaLaunchKernel\"' -c runtime.c\n"
		 "gcc -w -fPIC %s -shared -o full.so program.c %s\n"
		 "strip -o a.so full.so",
		 flags, link);
	fixture_run(script);
}

static const char *const shared = "-L. -lruntime", *const linked_in =
							   "-fvisibility=hidden runtime.o";

/* All launches of the program, without its symbols, in the order of the code. */
static void check_all(const char *what, bool is_linked_in)
{
	struct call calls[64];
	struct elf_image *img = fixture_open("a.so");
	size_t nr = calls_of("full.so", "cudaLaunchKernel", calls, 64), i, nr_named = 0;
	unsigned int in_both = 0;
	char expected[80];
	const char *got;

	for (i = 0; i < nr; i++) {
		const char *f = calls[i].function;

		if (strstr(f, "cudaLaunch") || strstr(f, "plt"))
			continue;
		if (!strcmp(f, "dev_one_dev_two"))
			snprintf(expected, sizeof(expected), in_both++ ? "dev_two" : "dev_one");
		else if (!strncmp(f, "uncertain_", 10))
			snprintf(expected, sizeof(expected), "(uncertain)");
		else if (!strcmp(f, "hand"))
			snprintf(expected, sizeof(expected), "(handed on)");
		else
			snprintf(expected, sizeof(expected), "dev_%.63s",
				 strncmp(f, "ex_", 3) ? f : f + 3);
		got = ask(img, calls[i].end);
		cr_expect_str_eq(got, expected, "%s: %s at %#lx launches %s, not %s", what, f,
				 calls[i].end, expected, got);
		nr_named += !strcmp(got, expected);
	}
	/* three stubs, two and more in one function, one by ExC, two uncertain, one that hands on */
	cr_expect_geq(nr_named, 9, "%s: %zu of %zu", what, nr_named, nr);
	nr = calls_of("full.so", is_linked_in ? "inner>" : "PopCall", calls, 64);
	cr_expect_gt(nr, 3);
	for (i = 0; i < nr; i++) {
		got = ask(img, calls[i].end);
		cr_expect(got[0] == '(' && strcmp(got, "(handed on)"), "%s: %s at %#lx: %s", what,
			  calls[i].function, calls[i].end, got);
		if (strstr(calls[i].function, "cudaLaunch"))
			cr_expect_str_eq(got, "(no launch)", "%s: frames in the runtime", what);
	}
	elf_image_free(img);
}

Test(gpu_kernel_names, every_shape_of_launch_and_registration)
{
	static const char *const shapes[] = {
		"-O2",
		"-O1",
		"-O0",
		"-O2 -DLEGACY",
		"-O0 -DLEGACY",
		"-O2 -fno-plt",
		"-O2 -fno-plt -DLEGACY",
		"-Os -DLEGACY",
		"-O2 -fcf-protection -Wl,-z,ibtplt",
		"-O2 -DLEGACY -fvisibility=hidden",
		"-O2 -fvisibility=hidden",
		"-O2 -DLINKED_DEVICE_CODE",
		"-O0 -DLINKED_DEVICE_CODE",
		"-O2 -Wl,-z,noseparate-code -Wl,-z,now",
	};
	char what[128];
	size_t i;

	for (i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		snprintf(what, sizeof(what), "imported, %s", shapes[i]);
		kernel_names_free(names);
		cr_assert(!kernel_names_new(&names));
		build(shapes[i], shared);
		check_all(what, false);
		snprintf(what, sizeof(what), "linked in, %s", shapes[i]);
		kernel_names_free(names);
		cr_assert(!kernel_names_new(&names));
		build(shapes[i], linked_in);
		check_all(what, true);
	}
}

Test(gpu_kernel_names, programs_that_are_not_moved)
{
	fixture_write("main.c", "int main(void) { return 0; }\n");
	build("-O2", shared);
	fixture_run("gcc -w -fno-pic -no-pie -O2 -o full.so main.c program.c -L. -lruntime\n"
		    "strip -o a.so full.so");
	check_all("not moved", false);
}

Test(gpu_kernel_names, what_is_handed_on_is_named_by_who_hands_it)
{
	struct kernel_walk walk = { 0 };
	struct call inner, outer[64];
	struct elf_image *img;
	size_t nr, i;

	build("-O2 -fvisibility=hidden", shared);
	img = fixture_open("a.so");
	nr = calls_of("full.so", "cudaLaunchKernel", outer, 64);
	for (i = 0; i < nr && strcmp(outer[i].function, "hand"); i++)
		;
	cr_assert_lt(i, nr);
	inner = outer[i];
	cr_assert_str_eq(ask_walk(img, inner.end, &walk), "(handed on)");
	cr_assert_eq(calls_of("full.so", "hand>", outer, 64), 1);
	cr_assert_str_eq(outer[0].function, "handed_two");
	cr_assert_str_eq(ask_walk(img, outer[0].end, &walk), "dev_two");
	cr_assert_str_eq(ask(img, outer[0].end), "(no launch)", "by itself it is none");
	/* Another function than the one that passes its argument: a frame is missing. */
	walk.function++;
	cr_assert_str_eq(ask_walk(img, outer[0].end, &walk), "(uncertain)");
	elf_image_free(img);
	img = fixture_open("/lib/x86_64-linux-gnu/libc.so.6");
	cr_assert_eq(
		kernel_names_find(names, 2, img, 0x30000, later(), &walk, &(const char *){ 0 }),
		-ENOTUNIQ);
	elf_image_free(img);
}

/* Each ra_ is the return address of a launch whose kernel is certain or uncertain. */
static const char hand_made[] =
	".macro kernel name\n .type \\name,@function\n"
	"\\name: .cfi_startproc; sub $8,%rsp; lea \\name(%rip),%rdi; call cudaLaunchKernel@plt;"
	" add $8,%rsp; ret; .cfi_endproc\n.endm\n"
	".macro begin name\n .balign 16\n .type \\name,@function\n"
	"\\name: .cfi_startproc; sub $40,%rsp\n.endm\n"
	".macro launch name\n call cudaLaunchKernel@plt\n\\name:\n.endm\n"
	".macro end\n add $40,%rsp; ret; .cfi_endproc\n.endm\n"
	".globl all\n.text\nkernel one\nkernel two\n"
	/* kept while something else is called */
	"begin kept; lea one(%rip),%rbx; call other@plt; mov %rbx,%rdi; launch dev_one_kept; end\n"
	"begin lost; lea one(%rip),%rdi; call other@plt; launch uncertain_lost; end\n"
	"begin spill; lea two(%rip),%rdi; mov %rdi,8(%rsp); mov 8(%rsp),%rdi;"
	" launch dev_two_spill; end\n"
	/* code elsewhere may know its address */
	"begin spilled; lea two(%rip),%rax; mov %rax,8(%rsp); lea 8(%rsp),%rdi; call other@plt;"
	" mov 8(%rsp),%rdi; launch uncertain_spilled; end\n"
	"begin written; lea two(%rip),%rax; mov %rax,8(%rsp); mov %rsi,(%rdx); mov 8(%rsp),%rdi;"
	" launch uncertain_written; end\n"
	"begin chosen; lea two(%rip),%rdi; lea one(%rip),%rax; test %esi,%esi; cmove %rax,%rdi;"
	" launch uncertain_chosen; end\n"
	"begin joined; lea two(%rip),%rdi; test %esi,%esi; je 1f; lea one(%rip),%rdi;\n"
	"1: launch uncertain_joined; end\n"
	"begin same; lea two(%rip),%rdi; test %esi,%esi; je 1f; lea two(%rip),%rdi; inc %ecx;\n"
	"1: launch dev_two_same; end\n"
	"begin loop; lea two(%rip),%rdi;\n1: launch uncertain_loop; lea one(%rip),%rdi;"
	" dec %ebx; jne 1b; end\n"
	/* where an exception lands: no jump leads there */
	"begin landing; lea two(%rip),%rdi; jmp 1f; lea one(%rip),%rdi;\n"
	"1: launch uncertain_landing; end\n"
	/* a case that falls through to the next */
	"begin switch; lea two(%rip),%rdi; mov %esi,%esi; lea table(%rip),%rdx;"
	" movslq (%rdx,%rsi,4),%rax; add %rdx,%rax; jmp *%rax;\n"
	"case1: lea one(%rip),%rdi; nop\ncase2: launch uncertain_switch; end\n"
	"begin switches; mov %esi,%esi; lea tables(%rip),%rdx;"
	" movslq (%rdx,%rsi,4),%rax; add %rdx,%rax; jmp *%rax;\n"
	"case3: lea one(%rip),%rdi; launch dev_one_case; jmp 1f\n"
	"case4: lea two(%rip),%rdi; launch dev_two_case;\n1: end\n"
	"begin jumps; lea two(%rip),%rdi; test %esi,%esi; je 1f; jmp *%rax\n"
	"1: launch uncertain_jumps; end\n"
	/* by a jump to another library, by one of many such places */
	"begin tail; lea one(%rip),%rdi; launch dev_one_tail; add $40,%rsp; jmp import7@plt;"
	" .cfi_endproc\n"
	".altmacro\n.macro import n\n call import\\n\\()@plt\n.endm\n.set i,0\n"
	"begin imports\n.rept 5000\n import %i\n.set i,i+1\n.endr\nend\n.noaltmacro\n"
	"begin no_kernel; lea begin_of_all(%rip),%rdi; launch uncertain_no_kernel; end\n"
	/* a part that was split off: unknown code leads there */
	".type part,@function\npart: .cfi_startproc; .cfi_def_cfa_offset 48; lea one(%rip),%rdi;"
	" launch uncertain_part; ret; .cfi_endproc\n"
	"lea one(%rip),%rdi; launch uncertain_no_frame; ret\n"
	".macro register host name\n"
	" push $0; push $0; push $0; push $0; xor %r9d,%r9d; mov $-1,%r8d; lea \\name(%rip),%rdx;"
	" mov %rdx,%rcx; lea \\host(%rip),%rsi; mov %rbx,%rdi; call __cudaRegisterFunction@plt;"
	" add $32,%rsp\n.endm\n"
	"begin_of_all: .cfi_startproc; push %rbx; lea fat(%rip),%rdi;"
	" call __cudaRegisterFatBinary@plt; mov %rax,%rbx\n"
	"register one dev_one\nregister two dev_two\nregister two dev_two_again\n#ifdef TWICE\n"
	"register two dev_other\n#endif\npop %rbx; ret; .cfi_endproc\n"
	".section .init_array,\"aw\"; .quad begin_of_all\n"
	".section .nvFatBinSegment,\"aw\"; fat: .long 0x466243b1,1; .quad 0,0\n"
	".section .rodata; dev_one: .string \"dev_one\"\ndev_two: .string \"dev_two\"\n"
	"dev_two_again: .string \"dev_two\"\ndev_other: .string \"dev_other\"\n"
	".balign 4\ntable: .long case1-table, case2-table\n"
	"tables: .long case3-tables, case4-tables, one-tables\n"
	".section .note.GNU-stack,\"\",@progbits\n";

Test(gpu_kernel_names, only_what_is_certain)
{
	struct elf_image *img;
	struct nm_symbol *nm;
	size_t nr, i, nr_named = 0, nr_uncertain = 0;
	char *path;

	build("-O2", shared);
	fixture_write("shapes.S", hand_made);
	fixture_run("gcc -shared -o shapes.so shapes.S -L. -lruntime; strip -o a.so shapes.so");
	path = fixture_path("shapes.so");
	img = fixture_open("a.so");
	nm = fixture_nm("", path, &nr);
	for (i = 0; i < nr; i++) {
		const char *name = nm[i].name, *got = ask(img, nm[i].value);

		if (!strncmp(name, "uncertain_", 10)) {
			cr_expect_str_eq(got, "(uncertain)", "%s: %s", name, got);
			nr_uncertain++;
		} else if (!strncmp(name, "dev_one_", 8) || !strncmp(name, "dev_two_", 8)) {
			if (!strcmp(name, "dev_two_again"))
				continue;
			cr_expect(!strncmp(got, name, 7) && !got[7], "%s: %s", name, got);
			nr_named++;
		}
	}
	cr_expect_eq(nr_uncertain, 12);
	cr_expect_eq(nr_named, 6);
	/* Between instructions, outside of everything. */
	cr_expect_str_eq(ask(img, fixture_value(path, "dev_one_kept") - 1), "(uncertain)");
	cr_expect_str_eq(ask(img, 0), "(uncertain)");
	cr_expect_str_eq(ask(img, UINT64_MAX), "(uncertain)");
	elf_image_free(img);
	free(nm);
	free(path);
}

Test(gpu_kernel_names, two_names_of_one_host_function_are_none)
{
	struct elf_image *img;
	char *path;

	build("-O2", shared);
	fixture_write("shapes.S", hand_made);
	fixture_run("gcc -DTWICE -shared -o shapes.so shapes.S -L. -lruntime");
	path = fixture_path("shapes.so");
	img = fixture_open("shapes.so");
	cr_expect_str_eq(ask(img, fixture_value(path, "dev_two_spill")), "(uncertain)");
	cr_expect_str_eq(ask(img, fixture_value(path, "dev_one_kept")), "dev_one");
	elf_image_free(img);
	free(path);
}

Test(gpu_kernel_names, goes_on_where_time_ran_out)
{
	struct kernel_walk walk = { 0 };
	struct elf_image *img;
	const char *name;
	unsigned int nr_late = 0;
	char *path;
	int err;

	build("-O2", linked_in);
	path = fixture_path("full.so");
	img = fixture_open("full.so");
	do {
		err = kernel_names_find(names, 1, img, fixture_value(path, "one"), 0, &walk, &name);
		nr_late += err == -ETIME;
	} while (err == -ETIME && nr_late < 100);
	cr_expect_eq(err, -ENOTUNIQ, "%d: no call returns to the begin of a function", err);
	cr_expect(nr_late > 2 && nr_late < 20, "%u", nr_late);
	cr_expect_eq(kernel_names_find(names, 1, img, fixture_value(path, "two"), 0, &walk, &name),
		     -ENOTUNIQ, "what is known needs no time");
	elf_image_free(img);
	free(path);
}

Test(gpu_kernel_names, memory_is_bounded)
{
	struct kernel_names_stats stats;
	struct kernel_walk walk = { 0 };
	struct elf_image *img, *libc;
	struct call calls[64];
	const char *name;
	uint32_t id;
	size_t nr, i;

	build("-O2", shared);
	img = fixture_open("a.so");
	libc = fixture_open("/lib/x86_64-linux-gnu/libc.so.6");
	nr = calls_of("full.so", "cudaLaunchKernel", calls, 64);
	for (i = 0; i < nr && strcmp(calls[i].function, "one"); i++)
		;
	cr_assert_lt(i, nr);
	for (id = 1; id <= KERNEL_NAMES_MAX_FILES + 100; id++)
		cr_assert_eq(kernel_names_find(names, id, id % 2 ? libc : img, calls[i].end,
					       later(), &walk, &name),
			     id % 2 ? -ENOENT : 0);
	kernel_names_stats(names, &stats);
	cr_expect_eq(stats.nr_files, KERNEL_NAMES_MAX_FILES);
	cr_expect_eq(stats.nr_evicted, 100);
	cr_expect_eq(stats.nr_kernels, 3 * KERNEL_NAMES_MAX_FILES / 2);
	cr_expect_leq(stats.bytes, KERNEL_NAMES_MAX_BYTES);
	/* Evicted tables are read again. */
	cr_assert_eq(kernel_names_find(names, 2, img, calls[i].end, later(), &walk, &name), 0);
	cr_expect_str_eq(name, "dev_one");
	/* Calls of one file. */
	for (i = 0; i < 3 * KERNEL_NAMES_MAX_SITES; i++)
		cr_assert_neq(
			kernel_names_find(names, 2, img, 0x10000000 + i, later(), &walk, &name), 0);
	kernel_names_stats(names, &stats);
	cr_expect_leq(stats.bytes, KERNEL_NAMES_MAX_BYTES);
	elf_image_free(img);
	elf_image_free(libc);
}

/* Files that are cut off or overwritten give an error or a name of the file, in bounded time. */
Test(gpu_kernel_names, broken_files)
{
	struct kernel_walk walk;
	struct elf_image *img;
	struct call calls[64];
	const char *name;
	size_t len, nr, i, k;
	uint32_t id = 1;
	char *data, *copy;

	build("-O2", linked_in);
	nr = calls_of("full.so", "cudaLaunchKernel", calls, 64);
	cr_assert_gt(nr, 6);
	data = fixture_read("a.so", &len);
	copy = malloc(len);
	for (i = 0; i < 600; i++) {
		memcpy(copy, data, len);
		if (i % 3)
			memset(copy + len * i / 600, i % 3 == 1 ? 0xff : (int)i, 24);
		if (elf_image_open_memory(&img, copy, i % 3 ? len : len * i / 600))
			continue;
		id++;
		for (k = 0; k < nr; k++) {
			walk = (struct kernel_walk){ 0 };
			if (!kernel_names_find(names, id, img, calls[k].end, later(), &walk, &name))
				cr_assert_lt(strlen(name), REGISTRATIONS_MAX_NAME);
		}
		elf_image_free(img);
	}
	free(copy);
	free(data);
}
