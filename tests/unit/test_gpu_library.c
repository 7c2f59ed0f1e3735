// SPDX-License-Identifier: Apache-2.0
#include "cuda/library.h"

#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda/functions.h"
#include "elf/image.h"
#include "test_elf_fixture.h"

#define LIBC "/lib/x86_64-linux-gnu/libc.so.6"

TestSuite(gpu_library, .timeout = 120);

/*
 * cuLaunchKernel to cuGraphLaunch_ptsz as libcuda has them, with and without endbr64; other ways to
 * begin a function; then what is no function in the file, however it is called.
 */
static const char assembly[] =
	"	.macro fn name\n"
	"	.globl \\name\n"
	"	.type \\name, @function\n"
	"\\name:\n"
	"	.endm\n"
	"	.macro trampoline\n"
	"	cmpl $0x321cba00, state(%rip)\n"
	"	je 1f\n"
	"	jmp *table(%rip)\n"
	"1:	jmp *table(%rip)\n"
	"	.endm\n"
	"	.text\n"
	"fn cuLaunchKernel\n	trampoline\n	.size cuLaunchKernel, . - cuLaunchKernel\n"
	"fn cuLaunchKernel_ptsz\n	endbr64\n	trampoline\n"
	"fn cuMemAlloc_v2\n	push %rbx\n	ret\n"
	"fn cuMemFree_v2\n	endbr64\n	push %rbx\n	ret\n"
	/* A cmpl with something else behind it; a je that is another function's; endbr64 alone. */
	"fn cuCtxSynchronize\n	cmpl $0x321cba00, state(%rip)\n	ret\n	nop\n"
	"fn cuGraphLaunch\n	cmpl $0x321cba00, state(%rip)\n"
	"	.size cuGraphLaunch, . - cuGraphLaunch\n	je 1b\n	ret\n"
	"fn cuEventSynchronize\n	endbr64\n	.size cuEventSynchronize, 4\n	ret\n"
	/* One place by three names. */
	"fn ncclAllReduce\nfn pncclAllReduce\nfn ncclReduceScatter\n	push %rbp\n	ret\n"
	"	.globl cuMemRelease, cuMemCreate, cuStreamSynchronize, ncclSend, cuMemcpyHtoD_v2\n"
	"	.type cuMemRelease, @object\n"
	"cuMemRelease: ret\n"
	"	.type cuMemcpyHtoD_v2, @gnu_indirect_function\n"
	"cuMemcpyHtoD_v2: ret\n"
	"	.data\n"
	"state:	.long 0\n"
	"	.type cuMemCreate, @function\n"
	"cuMemCreate: .quad 0\n"
	"	.section .rodata\n"
	"table:	.quad 0\n"
	"	.type cuStreamSynchronize, @function\n"
	"cuStreamSynchronize: .quad 0\n"
	"	.bss\n"
	"	.type ncclSend, @function\n"
	"ncclSend: .quad 0\n"
	"	.section .note.GNU-stack, \"\", @progbits\n";

struct wanted {
	const char *name;
	uint64_t behind; /* the first byte */
};

static const struct wanted wanted[] = {
	{ "cuLaunchKernel", 10 },    { "cuLaunchKernel_ptsz", 14 }, { "cuMemAlloc_v2", 0 },
	{ "cuMemFree_v2", 4 },	     { "cuCtxSynchronize", 0 },	    { "cuGraphLaunch", 0 },
	{ "cuEventSynchronize", 0 }, { "ncclAllReduce", 0 },
};

#define NR_WANTED (sizeof(wanted) / sizeof(wanted[0]))

static int hidden_read(struct gpu_library *ret, struct elf_image *img)
{
	struct gpu_hidden *hidden;
	int err = gpu_hidden_new(&hidden, img);

	if (err)
		return err;
	do
		err = gpu_hidden_step(hidden, ret, img);
	while (err == -EAGAIN);
	gpu_hidden_free(hidden);
	return err;
}

static int read_file(const char *file, struct gpu_library *ret)
{
	struct elf_image *img = fixture_open(file);
	int err = gpu_library_read(ret, img);

	if (err == -EAGAIN)
		err = hidden_read(ret, img);

	elf_image_free(img);
	return err;
}

static const struct gpu_hook *hook_find(const struct gpu_library *lib, const char *name)
{
	const struct gpu_function *functions;
	size_t nr, i;

	functions = gpu_functions(&nr);
	for (i = 0; i < lib->nr; i++)
		if (!strcmp(functions[lib->hooks[i].function].name, name))
			return &lib->hooks[i];
	return NULL;
}

static void check_places(const char *file)
{
	const struct gpu_hook *hook;
	struct gpu_library lib;
	size_t i;

	cr_assert_eq(read_file(file, &lib), 0);
	for (i = 0; i < NR_WANTED; i++) {
		hook = hook_find(&lib, wanted[i].name);
		cr_assert(hook, "%s", wanted[i].name);
		cr_assert_eq(hook->off, fixture_offset(file, wanted[i].name) + wanted[i].behind,
			     "%s", wanted[i].name);
	}
	cr_assert_eq(lib.nr, NR_WANTED);
	cr_assert_eq(lib.nr_bad, 5); /* object, ifunc, data, rodata, bss */
	cr_assert_eq(lib.layers, 1U << GPU_LAYER_DRIVER | 1U << GPU_LAYER_NCCL);
	cr_assert_eq(lib.comm_rank, 0);
}

Test(gpu_library, places)
{
	fixture_write("p.S", assembly);
	fixture_run("gcc -nostdlib -shared -Wl,-Bsymbolic -o gnu.so p.S;"
		    "gcc -nostdlib -shared -Wl,-Bsymbolic -Wl,--hash-style=sysv -o sysv.so p.S;"
		    "strip -o stripped.so gnu.so");
	check_places("gnu.so");
	check_places("sysv.so");
}

/* The code of the symbol in the executable segment ends with the segment in the file. */
Test(gpu_library, end_of_segment)
{
	const struct elf_segment *seg;
	struct gpu_library lib;
	struct elf_image *img;
	size_t len, nr, i;
	uint64_t off;
	char *data;

	fixture_write("e.S", ".globl cuLaunchKernel, cuMemAlloc_v2\n"
			     ".type cuMemAlloc_v2, @function\n.type cuLaunchKernel, @function\n"
			     "cuMemAlloc_v2: nop\ncuLaunchKernel: endbr64\n"
			     "cmpl $0x321cba00, cuMemAlloc_v2(%rip)\nje cuLaunchKernel\n");
	fixture_run("gcc -nostdlib -shared -Wl,-Bsymbolic -o e.so e.S");
	off = fixture_offset("e.so", "cuLaunchKernel");
	data = fixture_read("e.so", &len);
	/* Cut before the je, in the endbr64, before the symbol. */
	for (i = 14; i <= 14; i -= 7) {
		Elf64_Phdr *segments = (Elf64_Phdr *)(data + ((Elf64_Ehdr *)data)->e_phoff);
		size_t k;

		cr_assert_eq(elf_image_open_memory(&img, data, len), 0);
		seg = elf_image_segments(img, &nr);
		for (k = 0; k < nr; k++)
			if (seg[k].type == PT_LOAD && seg[k].flags & PF_X)
				segments[k].p_filesz = off + i - seg[k].off;
		elf_image_free(img);
		cr_assert_eq(elf_image_open_memory(&img, data, len), 0);
		cr_assert_eq(gpu_library_read(&lib, img), 0);
		elf_image_free(img);
		cr_assert_eq(lib.nr, i ? 2 : 1);
		cr_assert_eq(lib.nr_bad, i ? 0 : 1);
		if (i)
			cr_assert_eq(hook_find(&lib, "cuLaunchKernel")->off, off);
	}
	free(data);
}

struct counted {
	int fd;
	unsigned int reads;
};

static ssize_t counted_read(void *arg, void *dst, size_t len, uint64_t off)
{
	struct counted *counted = arg;
	ssize_t n = pread(counted->fd, dst, len, (off_t)off);

	counted->reads++;
	return n < 0 ? -errno : n;
}

/* Every mapped file is checked like this. */
Test(gpu_library, ordinary_files)
{
	struct gpu_library lib = { .nr = 77 };
	struct counted counted = { .reads = 0 };
	struct elf_source source = { .read = counted_read, .arg = &counted };
	struct elf_image *img;
	FILE *f = fopen(LIBC, "r");

	cr_assert(f && !fseek(f, 0, SEEK_END));
	source.size = (uint64_t)ftell(f);
	counted.fd = fileno(f);
	cr_assert_eq(elf_image_new(&img, &source), 0);
	counted.reads = 0;
	cr_assert_eq(gpu_library_read(&lib, img), -ENODATA);
	cr_assert_leq(counted.reads, 8, "%u", counted.reads);
	elf_image_free(img);
	fclose(f);

	fixture_write("i.c", "int cuLaunchKernel(void), ncclAllReduce(void);\n"
			     "int cuMemAlloc(void) { return cuLaunchKernel() + ncclAllReduce(); }");
	fixture_write("s.S", ".globl _start\n_start: ret\n");
	fixture_run(
		"gcc -fPIC -nostdlib -shared -o imports.so i.c; gcc -nostdlib -static -o s s.S");
	cr_assert_eq(read_file("imports.so", &lib), -ENODATA);
	cr_assert_eq(read_file("s", &lib), -ENODATA);
	cr_assert_eq(lib.nr, 77);
}

Test(gpu_library, broken_files)
{
	struct gpu_library lib = { .nr = 77 };
	const struct elf_section *sec;
	struct elf_image *img;
	uint64_t off;
	char *data;
	size_t len;

	fixture_write("b.S", ".globl cuLaunchKernel\n.data\ncuLaunchKernel: .quad 0\n");
	fixture_run("gcc -nostdlib -shared -Wl,--hash-style=gnu -o bad.so b.S");
	cr_assert_eq(read_file("bad.so", &lib), -EBADMSG);

	data = fixture_read("bad.so", &len);
	((Elf64_Ehdr *)data)->e_machine = EM_AARCH64;
	cr_assert_eq(elf_image_open_memory(&img, data, len), 0);
	cr_assert_eq(gpu_library_read(&lib, img), -ENODATA);
	((Elf64_Ehdr *)data)->e_machine = EM_X86_64;
	elf_image_free(img);

	cr_assert_eq(elf_image_open_memory(&img, data, len), 0);
	sec = elf_image_section(img, ".gnu.hash");
	cr_assert(sec);
	off = sec->off;
	elf_image_free(img);
	memset(data + off + 8, 0xff, 4); /* words of the bloom filter */
	cr_assert_eq(elf_image_open_memory(&img, data, len), 0);
	cr_assert_eq(gpu_library_read(&lib, img), -EBADMSG);
	elf_image_free(img);
	free(data);
	cr_assert_eq(lib.nr, 77);
}

/* Checks before the load, some of them inlined, as in NCCL. */
static const char accessors[] =
	"#include <stddef.h>\n"
	"struct comm { unsigned long magic, filler[FILLER]; int ready; unsigned long hash;\n"
	"	int rank, size, device; };\n"
	"extern int log_level, check(void *, const char *);\n"
	"extern void print(const char *, ...);\n"
	"static int ensure_ready(struct comm *c, int *state) {\n"
	"	*state = c->ready;\n"
	"	return *state == 7 ? 0 : *state; }\n"
	"#define ACCESSOR(name, field) \\\n"
	"	int name(struct comm *c, int *out) { \\\n"
	"		int state, r = check(c, #name); \\\n"
	"		if (r) { if (log_level > 2) print(#field, r); return r; } \\\n"
	"		if ((r = check(out, \"out\"))) return r; \\\n"
	"		if ((r = ensure_ready(c, &state))) { print(#name, r, state); return r; } "
	"\\\n"
	"		*out = c->field; \\\n"
	"		return 0; }\n"
	"int ncclAllReduce(void) { return 0; }\n"
	"_Static_assert(offsetof(struct comm, rank) == FILLER * 8 + 24, \"rank\");\n"
	"ACCESSOR(ncclCommUserRank, rank)\n"
	"ACCESSOR(ncclCommCount, COUNT)\n"
	"#ifndef LESS\n"
	"ACCESSOR(ncclCommCuDevice, device)\n"
	"#endif\n";

/* NCCL linked into something else, with code for a GPU as it has. */
static const char *const linked[] = { "-shared -DFATBIN", "-shared -DFATBIN -fvisibility=hidden",
				      "-static-pie -DFATBIN -DMAIN" };

Test(gpu_library, linked_statically)
{
	struct gpu_library lib;
	char script[256];
	size_t i;

	fixture_write("l.c", accessors);
	fixture_write("f.c", "#ifdef FATBIN\n"
			     "__asm__(\".section .nv_fatbin,\\\"a\\\"\\n.quad 0\\n.previous\");\n"
			     "#endif\n"
			     "int log_level;\n"
			     "int check(void *a, const char *b) { return a && b; }\n"
			     "void print(const char *format, ...) { (void)format; }\n"
			     "#ifdef MAIN\n"
			     "int ncclAllReduce(void);\n"
			     "void _start(void) { ncclAllReduce(); }\n"
			     "#endif\n");
	for (i = 0; i < sizeof(linked) / sizeof(linked[0]); i++) {
		snprintf(script, sizeof(script),
			 "gcc -O2 -fPIC -nostdlib %s -DCOUNT=size -DFILLER=9 -o l.so l.c f.c;"
			 "strip -o stripped.so l.so",
			 linked[i]);
		fixture_run(script);
		cr_assert_eq(read_file("l.so", &lib), 0, "%s", linked[i]);
		cr_expect_eq(lib.layers, 1U << GPU_LAYER_NCCL, "%s", linked[i]);
		cr_expect_eq(lib.nr, 1, "%s", linked[i]);
		cr_expect_eq(lib.comm_rank, 9 * 8 + 24, "%s", linked[i]);
		cr_expect_eq(hook_find(&lib, "ncclAllReduce")->off,
			     fixture_offset("l.so", "ncclAllReduce"), "%s", linked[i]);
		/* Without exports and other symbols nothing can be known. */
		cr_expect_eq(read_file("stripped.so", &lib), i ? -ENODATA : 0, "%s", linked[i]);
	}
	/* A file without relation to a GPU does not get all its symbols read. */
	fixture_run("gcc -O2 -fPIC -nostdlib -shared -fvisibility=hidden -DCOUNT=size -DFILLER=9 "
		    "-o l.so l.c f.c");
	cr_expect_eq(read_file("l.so", &lib), -ENODATA);
}

#define STRINGS_BYTES (8U << 20)
#define STEP_BYTES (192U << 10) /* of a chunk, and what lies around it */

struct measured {
	char *data;
	size_t len;
	uint64_t bytes; /* read since this was 0 */
};

static ssize_t measured_read(void *arg, void *dst, size_t len, uint64_t off)
{
	struct measured *file = arg;

	if (off >= file->len)
		return 0;
	if (len > file->len - off)
		len = file->len - off;
	memcpy(dst, file->data + off, len);
	file->bytes += len;
	return (ssize_t)len;
}

static struct elf_image *measured_open(struct measured *file)
{
	struct elf_source source = { .read = measured_read, .arg = file, .size = file->len };
	struct elf_image *img;

	cr_assert_eq(elf_image_new(&img, &source), 0);
	return img;
}

/* Offsets of .symtab, or of its strings, in the file. */
static Elf64_Shdr *section_of(char *data, bool strings)
{
	const Elf64_Ehdr *eh = (const Elf64_Ehdr *)data;
	Elf64_Shdr *sections = (Elf64_Shdr *)(data + eh->e_shoff);
	size_t i;

	for (i = 0; i < eh->e_shnum; i++)
		if (sections[i].sh_type == SHT_SYMTAB)
			return &sections[strings ? sections[i].sh_link : i];
	cr_assert(false, "no .symtab");
	return NULL;
}

/* NCCL is hidden in a library, and its file is available. */
static void hidden_make(struct measured *ret)
{
	fixture_write("h.c", accessors);
	fixture_write("i.c", "__asm__(\".section .nv_fatbin,\\\"a\\\"\\n.quad 0\\n.previous\");\n"
			     "int log_level;\n"
			     "int check(void *a, const char *b) { return a && b; }\n"
			     "void print(const char *format, ...) { (void)format; }\n");
	fixture_run("gcc -O2 -fPIC -nostdlib -shared -fvisibility=hidden -DCOUNT=size -DFILLER=9 "
		    "-o h.so h.c i.c");
	*ret = (struct measured){ 0 };
	ret->data = fixture_read("h.so", &ret->len);
}

/* Its strings are the last thing in the file then. */
static void strings_grow(struct measured *file, const char *filling)
{
	const Elf64_Shdr before = *section_of(file->data, true);
	size_t at = file->len, i;
	Elf64_Shdr *strings;

	file->data = realloc(file->data, at + STRINGS_BYTES);
	cr_assert(file->data);
	file->len = at + STRINGS_BYTES;
	for (i = at; i < file->len; i++)
		file->data[i] = filling[i % strlen(filling)];
	memcpy(file->data + at, file->data + before.sh_offset, before.sh_size);
	strings = section_of(file->data, true);
	strings->sh_offset = at;
	strings->sh_size = STRINGS_BYTES;
}

/* The search stops between two steps for other work, and reads everything once. */
Test(gpu_library, hidden_in_steps)
{
	struct gpu_library lib, small;
	struct gpu_hidden *hidden;
	struct measured file;
	struct elf_image *img;
	uint64_t all = 0;
	size_t steps = 0;
	int err;

	hidden_make(&file);
	cr_assert_eq(read_file("h.so", &small), 0);
	cr_assert_eq(small.comm_rank, 9 * 8 + 24);
	strings_grow(&file, "ncclAllReducf");
	img = measured_open(&file);
	cr_assert_eq(gpu_library_read(&lib, img), -EAGAIN);
	cr_assert_eq(gpu_hidden_new(&hidden, img), 0);
	do {
		file.bytes = 0;
		err = gpu_hidden_step(hidden, &lib, img);
		cr_expect_leq(file.bytes, STEP_BYTES, "%lu", (unsigned long)file.bytes);
		all += file.bytes;
		steps++;
	} while (err == -EAGAIN);
	gpu_hidden_free(hidden);
	cr_assert_eq(err, 0);
	cr_expect_geq(steps, STRINGS_BYTES / STEP_BYTES, "%zu", steps);
	cr_expect_leq(all, STRINGS_BYTES + STRINGS_BYTES / 8, "%lu", (unsigned long)all);
	cr_expect_eq(lib.nr, small.nr);
	cr_expect_eq(lib.hooks[0].off, small.hooks[0].off);
	cr_expect_eq(lib.comm_rank, small.comm_rank);
	elf_image_free(img);
	free(file.data);
}

static int hidden_error(struct measured *file)
{
	struct gpu_library lib = { .nr = 77 };
	struct elf_image *img = measured_open(file);
	int err = gpu_library_read(&lib, img);

	cr_assert_eq(err, -EAGAIN);
	err = hidden_read(&lib, img);
	elf_image_free(img);
	cr_assert(!err || lib.nr == 77);
	return err;
}

/* A failed search differs from a search that found no NCCL. */
Test(gpu_library, hidden_unsearched)
{
	struct measured file;
	Elf64_Shdr before, *symtab;

	hidden_make(&file);
	cr_assert_eq(hidden_error(&file), 0);
	before = *section_of(file.data, true);
	section_of(file.data, true)->sh_size = (256U << 20) + 1;
	cr_expect_eq(hidden_error(&file), -E2BIG);
	section_of(file.data, true)->sh_size = 255U << 20; /* beyond the end of the file */
	cr_expect_eq(hidden_error(&file), -EBADMSG);
	*section_of(file.data, true) = before;

	before = *section_of(file.data, false);
	section_of(file.data, false)->sh_size = 256U << 20;
	cr_expect_eq(hidden_error(&file), -E2BIG);
	section_of(file.data, false)->sh_size = 0;
	cr_expect_eq(hidden_error(&file), -ENODATA);
	section_of(file.data, false)->sh_size = before.sh_size;
	section_of(file.data, false)->sh_link = 0;
	cr_expect_eq(hidden_error(&file), -EBADMSG);
	symtab = section_of(file.data, false);
	symtab->sh_type = SHT_NULL;
	cr_expect_eq(hidden_error(&file), -ENODATA);
	*symtab = before;

	/* Two million times what each of the names may begin with. */
	strings_grow(&file, "nccl");
	cr_expect_eq(hidden_error(&file), -E2BIG);
	free(file.data);
}

static uint32_t rank_of(const char *compiler, const char *options)
{
	struct gpu_library lib;
	char script[256];

	fixture_write("r.c", accessors);
	snprintf(script, sizeof(script), "%s -fPIC -shared -nostdlib %s -o r.so r.c", compiler,
		 options);
	fixture_run(script);
	cr_assert_eq(read_file("r.so", &lib), 0);
	cr_assert_eq(lib.layers, 1U << GPU_LAYER_NCCL);
	return lib.comm_rank;
}

Test(gpu_library, comm_rank)
{
	static const char *const levels[] = { "-O0", "-O1", "-O2", "-O3", "-Os" };
	char options[64];
	size_t i;

	for (i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
		snprintf(options, sizeof(options), "%s -DCOUNT=size -DFILLER=133270", levels[i]);
		cr_expect_eq(rank_of("gcc", options), 133270 * 8 + 24, "gcc %s", options);
		cr_expect_eq(rank_of("clang", options), 133270 * 8 + 24, "clang %s", options);
	}
	cr_expect_eq(rank_of("gcc", "-O2 -DCOUNT=size -DFILLER=8"), 88);
	/* The checks disagree, one is missing, or the offset is too large. */
	cr_expect_eq(rank_of("gcc", "-O2 -DCOUNT=ready -DFILLER=133270"), 0);
	cr_expect_eq(rank_of("gcc", "-O2 -DCOUNT=size -DFILLER=133270 -DLESS"), 0);
	cr_expect_eq(rank_of("gcc", "-O2 -DCOUNT=size -DFILLER=3000000"), 0);
}
