// SPDX-License-Identifier: Apache-2.0
#include "python/pythons.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "elf/image.h"
#include "proc/images.h"
#include "proc/processes.h"
#include "test_elf_fixture.h"

TestSuite(pythons, .timeout = 60);

#define IMAGE 7
#define MAX_MAPPINGS 64

/* The symbols of a CPython 3.8; with VERSION, of a later one. */
static const char source[] = "__attribute__((noinline)) int _PyEval_EvalFrameDefault(int n) {\n"
			     "	volatile int sum = 0;\n"
			     "	for (int i = 0; i < n; i++) sum += i;\n"
			     "	return sum;\n"
			     "}\n"
			     "int PyMemoryView_FromObject(void) { return 1; }\n"
			     "int PyConfig_Clear(void) { return 2; }\n"
			     "const char before[5000] = { 1 };\n"
			     "unsigned long _PyRuntime[1024] = { 1 };\n"
			     "#ifdef VERSION\n"
			     "const unsigned long Py_Version = VERSION;\n"
			     "#endif\n";

static void build(const char *file, const char *options)
{
	char script[512];

	fixture_write("python.c", source);
	snprintf(script, sizeof(script), "gcc -O1 -fPIC -shared -nostdlib %s -o %s python.c",
		 options, file);
	fixture_run(script);
}

/* The results of the callback. */
struct seen {
	struct pythons *pythons;
	int nr_layouts, nr_unknown, refuse;
	uint32_t nr, version;
	struct bpfprof_python_layout layout;
	char path[64];
};

static int layout_seen(void *arg, uint32_t nr, const struct bpfprof_python_layout *layout)
{
	struct seen *seen = arg;

	seen->nr_layouts++;
	seen->nr = nr;
	seen->layout = *layout;
	return seen->refuse;
}

static void unknown_seen(void *arg, const char *path, uint32_t version)
{
	struct seen *seen = arg;

	seen->nr_unknown++;
	seen->version = version;
	snprintf(seen->path, sizeof(seen->path), "%s", path);
}

static void seen_init(struct seen *seen)
{
	memset(seen, 0, sizeof(*seen));
	cr_assert_eq(pythons_new(&seen->pythons, layout_seen, unknown_seen, seen), 0);
}

static const struct pythons_counts *counts(const struct seen *seen)
{
	return pythons_counts(seen->pythons);
}

static struct image image_of(uint32_t id, const char *file)
{
	static char path[] = "/usr/lib/libpython.so";

	return (struct image){
		.id = id, .path = path, .state = IMAGE_OPEN, .elf = fixture_open(file)
	};
}

static int look(struct seen *seen, uint32_t id, const char *file)
{
	struct image image = image_of(id, file);
	int err = pythons_scan(seen->pythons, &image);

	elf_image_free(image.elf);
	return err;
}

static bool find(const struct seen *seen, struct process_mapping *mappings, size_t nr,
		 uint64_t *runtime, uint32_t *layout)
{
	struct process_pythons places = { 0 };
	struct process process = { .mappings = mappings, .pythons = &places, .nr_mappings = nr };

	pythons_find(seen->pythons, &process);
	cr_assert_leq(places.nr, 1);
	*runtime = places.list[0].runtime;
	*layout = places.list[0].layout;
	return places.nr;
}

/* This process's executable mappings; those of path are of IMAGE. */
static size_t mappings_read(const char *path, struct process_mapping mappings[MAX_MAPPINGS])
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[4096 + 128], *at;
	size_t nr = 0;

	cr_assert(maps);
	while (fgets(line, sizeof(line), maps) && nr < MAX_MAPPINGS) {
		struct process_mapping *m = &mappings[nr];

		m->start = strtoull(line, &at, 16);
		m->end = strtoull(at + 1, &at, 16);
		if (at[3] != 'x')
			continue;
		m->off = strtoull(at + 5, NULL, 16);
		m->image = strstr(line, path) ? IMAGE : IMAGE + 1;
		nr++;
	}
	fclose(maps);
	return nr;
}

struct linking {
	char options[112];
};

ParameterizedTestParameters(pythons, loaded)
{
	static struct linking ways[] = {
		{ "" },
		{ "-Wl,-z,noseparate-code" },
		{ "-Wl,-z,separate-code,-z,max-page-size=65536" },
		{ "-Wl,-Ttext-segment=0x500000,-z,separate-code,-z,max-page-size=4096" },
		{ "-fuse-ld=lld" }, /* puts segments side by side in the file, apart in memory */
		{ "-fuse-ld=lld -Wl,--image-base=0x700000,-z,max-page-size=65536" },
		{ "-fuse-ld=lld -Wl,-z,separate-code" },
	};

	return cr_make_param_array(struct linking, ways, sizeof(ways) / sizeof(ways[0]));
}

/* The loader is right about where things are. */
ParameterizedTest(struct linking *way, pythons, loaded, .timeout = 60)
{
	struct process_mapping mappings[MAX_MAPPINGS];
	uint64_t runtime;
	struct seen seen;
	uint32_t layout;
	void *library;
	char *path;
	size_t nr;

	if (strstr(way->options, "lld") && access("/usr/bin/ld.lld", X_OK))
		cr_skip_test("no lld");
	build("libmade.so", way->options);
	path = fixture_path("libmade.so");
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	cr_assert(library, "%s", dlerror());
	nr = mappings_read(path, mappings);
	seen_init(&seen);
	cr_assert_eq(look(&seen, IMAGE, path), 0);
	cr_assert(find(&seen, mappings, nr, &runtime, &layout), "%s", way->options);
	cr_assert_eq(runtime, (uint64_t)(uintptr_t)dlsym(library, "_PyRuntime"), "%s: %lx",
		     way->options, (unsigned long)runtime);
	cr_assert_eq(layout, 1);
	pythons_free(seen.pythons);
	dlclose(library);
	free(path);
}

Test(pythons, wrong_mappings)
{
	struct process_mapping mappings[3];
	struct elf_segment text = { 0 };
	const struct elf_segment *segments;
	struct elf_image *img;
	uint64_t runtime, rva;
	struct seen seen;
	uint32_t layout;
	size_t nr, i;

	build("libmade.so", "-Wl,-z,separate-code,-z,max-page-size=4096");
	img = fixture_open("libmade.so");
	segments = elf_image_segments(img, &nr);
	for (i = 0; i < nr; i++)
		if (segments[i].type == 1 && segments[i].flags & 1)
			text = segments[i];
	elf_image_free(img);
	cr_assert(text.file_bytes && text.off >= 4096);
	rva = fixture_value("libmade.so", "_PyRuntime");
	seen_init(&seen);
	cr_assert_not(find(&seen, mappings, 0, &runtime, &layout), "nothing looked at");
	cr_assert_eq(look(&seen, IMAGE, "libmade.so"), 0);
	cr_assert_not(find(&seen, mappings, 0, &runtime, &layout), "no mappings");

	/* A mapping of another file; mappings of the right file before and behind its code. */
	mappings[0] =
		(struct process_mapping){ 0x10000000, 0x10001000, text.off, .image = IMAGE + 1 };
	mappings[1] = (struct process_mapping){ 0x20000000, 0x20001000, text.off - 4096, IMAGE };
	mappings[2] =
		(struct process_mapping){ 0x30000000, 0x30001000,
					  text.off + ((text.file_bytes + 4095) & ~4095ULL), IMAGE };
	cr_assert_not(find(&seen, mappings, 3, &runtime, &layout), "not its code");
	mappings[0].image = BPFPROF_IMAGE_NONE;
	cr_assert_not(find(&seen, mappings, 1, &runtime, &layout), "no file");
	mappings[0].image = IMAGE + 256;
	cr_assert_not(find(&seen, mappings, 1, &runtime, &layout), "an id that looks like it");

	/* The last of three is it, and not at the first byte of the code. */
	mappings[2].off = text.off;
	cr_assert(find(&seen, mappings, 3, &runtime, &layout));
	cr_assert_eq(runtime, 0x30000000 - text.va + rva);
	mappings[2].off = text.off - 4096;
	mappings[2].end += 4096;
	cr_assert(find(&seen, mappings, 3, &runtime, &layout));
	cr_assert_eq(runtime, 0x30000000 + 4096 - text.va + rva);
	pythons_free(seen.pythons);
}

/* The code of a made interpreter in its file and in memory, and its runtime. */
struct made_code {
	uint64_t off, va, rva;
};

static struct made_code code_of(const char *file)
{
	struct made_code code = { .rva = fixture_value(file, "_PyRuntime") };
	struct elf_image *img = fixture_open(file);
	const struct elf_segment *segments;
	size_t nr, i;

	segments = elf_image_segments(img, &nr);
	for (i = 0; i < nr; i++)
		if (segments[i].type == 1 && segments[i].flags & 1) {
			code.off = segments[i].off;
			code.va = segments[i].va;
		}
	elf_image_free(img);
	return code;
}

#define PAGE 4096ULL
#define FAR 0x10000000ULL

/* n mappings of nr pages of the code each, FAR bytes apart, the first at FAR. */
static size_t code_map(struct process_mapping *mappings, size_t n, uint64_t nr, uint64_t off)
{
	for (size_t i = 0; i < n; i++)
		mappings[i] = (struct process_mapping){ FAR * (i + 1), FAR * (i + 1) + nr * PAGE,
							off, IMAGE };
	return n;
}

static uint64_t runtime_of(const struct made_code *code, uint64_t n)
{
	return FAR * n - code->va + code->rva;
}

/*
 * A code page may be mapped twice, and nothing shows which mapping is the interpreter's: both
 * places are kept.
 */
Test(pythons, every_place)
{
	struct process_mapping mappings[4];
	struct process_pythons places = { 0 };
	struct process process = { .mappings = mappings, .pythons = &places };
	struct made_code code;
	struct seen seen;

	build("libmade.so", "-Wl,-z,separate-code,-z,max-page-size=4096");
	code = code_of("libmade.so");
	seen_init(&seen);
	cr_assert_eq(look(&seen, IMAGE, "libmade.so"), 0);
	process.nr_mappings = code_map(mappings, 2, 1, code.off);
	cr_assert(pythons_find(seen.pythons, &process));
	cr_assert_eq(places.nr, 2);
	cr_assert_eq(places.list[0].runtime, runtime_of(&code, 1));
	cr_assert_eq(places.list[1].runtime, runtime_of(&code, 2));
	cr_assert_eq(places.list[0].layout, 1);
	cr_assert_eq(places.list[1].image, IMAGE);
	cr_assert_not(pythons_find(seen.pythons, &process), "nothing has changed");

	/* Code that is mapped in pieces, one behind another, is one place. */
	mappings[1].start = mappings[0].end;
	mappings[1].end = mappings[1].start + PAGE;
	mappings[1].off = code.off + PAGE;
	cr_assert(pythons_find(seen.pythons, &process));
	cr_assert_eq(places.nr, 1);
	cr_assert_eq(places.list[0].runtime, runtime_of(&code, 1));
	process.nr_mappings = 0;
	cr_assert(pythons_find(seen.pythons, &process));
	cr_assert_eq(places.nr, 0);
	pythons_free(seen.pythons);
}

/* Of too many places, those with the most mapped code stay; the rest is counted. */
Test(pythons, too_many_places)
{
	struct process_mapping mappings[BPFPROF_MAX_RUNTIMES + 3];
	struct process_pythons places = { 0 };
	struct process process = { .mappings = mappings, .pythons = &places };
	struct made_code code;
	struct seen seen;
	bool found = false;

	build("libmade.so", "-Wl,-z,separate-code,-z,max-page-size=4096");
	code = code_of("libmade.so");
	seen_init(&seen);
	cr_assert_eq(look(&seen, IMAGE, "libmade.so"), 0);
	process.nr_mappings = code_map(mappings, BPFPROF_MAX_RUNTIMES + 3, 1, code.off + 16);
	mappings[BPFPROF_MAX_RUNTIMES + 1].off = code.off; /* has 16 bytes more of it */
	pythons_find(seen.pythons, &process);
	cr_assert_eq(places.nr, BPFPROF_MAX_RUNTIMES);
	for (uint32_t i = 0; i < places.nr; i++)
		found |= places.list[i].runtime == runtime_of(&code, BPFPROF_MAX_RUNTIMES + 2);
	cr_assert(found, "the one that has most is left out");
	cr_assert_eq(counts(&seen)->nr_beyond, 3);
	pythons_free(seen.pythons);
}

/* A library is loaded below what was there; the executable was there before all of them. */
Test(pythons, loaded_last_first)
{
	struct process_mapping mappings[3];
	struct process_pythons places = { 0 };
	struct process process = { .mappings = mappings, .pythons = &places, .program = IMAGE + 1 };
	struct made_code code;
	struct seen seen;

	build("libmade.so", "-Wl,-z,separate-code,-z,max-page-size=4096");
	code = code_of("libmade.so");
	seen_init(&seen);
	cr_assert_eq(look(&seen, IMAGE, "libmade.so"), 0);
	cr_assert_eq(look(&seen, IMAGE + 1, "libmade.so"), 0);
	process.nr_mappings = code_map(mappings, 3, 1, code.off);
	mappings[0].image = IMAGE + 1;
	pythons_find(seen.pythons, &process);
	cr_assert_eq(places.nr, 3);
	cr_assert_eq(places.list[0].runtime, runtime_of(&code, 2));
	cr_assert_eq(places.list[1].runtime, runtime_of(&code, 3));
	cr_assert_eq(places.list[2].runtime, runtime_of(&code, 1));
	pythons_free(seen.pythons);
}

Test(pythons, layouts_are_shared)
{
	struct process_mapping mapping = { 0x10000000, 0x10100000, 0, IMAGE + 1 };
	uint64_t runtime;
	struct seen seen;
	uint32_t layout;

	build("liba.so", "-Wl,-z,noseparate-code");
	build("libb.so", "-Wl,-z,noseparate-code -Dbefore=other");
	seen_init(&seen);
	cr_assert_null(pythons_layout(seen.pythons, 0));
	cr_assert_null(pythons_layout(seen.pythons, 1));
	cr_assert_eq(look(&seen, IMAGE, "liba.so"), 0);
	cr_assert_eq(look(&seen, IMAGE + 1, "libb.so"), 0);
	cr_assert_eq(seen.nr_layouts, 1);
	cr_assert_eq(seen.nr, 1);
	cr_assert_eq(seen.layout.version, 0x308);
	cr_assert(find(&seen, &mapping, 1, &runtime, &layout));
	cr_assert_eq(layout, 1);
	cr_assert(!memcmp(pythons_layout(seen.pythons, 1), &seen.layout, sizeof(seen.layout)));
	cr_assert_null(pythons_layout(seen.pythons, 2));
	cr_assert_null(pythons_layout(seen.pythons, UINT32_MAX));
	pythons_free(seen.pythons);
}

Test(pythons, layout_refused)
{
	struct process_mapping mapping = { 0x10000000, 0x10100000, 0, IMAGE };
	uint64_t runtime;
	struct seen seen;
	uint32_t layout;

	build("libmade.so", "-Wl,-z,noseparate-code");
	seen_init(&seen);
	seen.refuse = -ENOSPC;
	cr_assert_eq(look(&seen, IMAGE, "libmade.so"), 0);
	cr_assert_eq(counts(&seen)->nr_full, 1);
	cr_assert_not(find(&seen, &mapping, 1, &runtime, &layout));
	cr_assert_null(pythons_layout(seen.pythons, 1));
	pythons_free(seen.pythons);
}

Test(pythons, eval_ranges)
{
	const struct nm_symbol *eval = NULL;
	struct nm_symbol *symbols;
	struct elf_image *img;
	struct seen seen;
	uint64_t off;
	size_t nr, i;

	build("libmade.so", "-fuse-ld=bfd -Wl,-Ttext-segment=0x500000");
	img = fixture_open("libmade.so");
	symbols = fixture_nm("-S", "libmade.so", &nr);
	for (i = 0; i < nr; i++)
		if (!strcmp(symbols[i].name, "_PyEval_EvalFrameDefault"))
			eval = &symbols[i];
	cr_assert(eval && eval->bytes > 4);
	cr_assert_eq(elf_image_rva_to_off(img, eval->value, &off), 0);
	cr_assert_neq(off, eval->value);
	elf_image_free(img);
	seen_init(&seen);
	cr_assert_not(pythons_is_eval(seen.pythons, IMAGE, off));
	cr_assert_eq(look(&seen, IMAGE, "libmade.so"), 0);
	cr_assert(pythons_is_eval(seen.pythons, IMAGE, off));
	cr_assert(pythons_is_eval(seen.pythons, IMAGE, off + eval->bytes - 1));
	cr_assert_not(pythons_is_eval(seen.pythons, IMAGE, off - 1));
	cr_assert_not(pythons_is_eval(seen.pythons, IMAGE, off + eval->bytes));
	cr_assert_not(pythons_is_eval(seen.pythons, IMAGE, eval->value));
	cr_assert_not(pythons_is_eval(seen.pythons, IMAGE, 0));
	cr_assert_not(pythons_is_eval(seen.pythons, IMAGE, UINT64_MAX));
	cr_assert_not(pythons_is_eval(seen.pythons, IMAGE + 1, off));
	free(symbols);
	pythons_free(seen.pythons);
}

/* A file, the times it is read, and how that fails. */
struct counted {
	int fd;
	int nr_reads;
	uint64_t nr_bytes;
	int err;
};

static ssize_t counted_read(void *arg, void *dst, size_t len, uint64_t off)
{
	struct counted *counted = arg;
	ssize_t n;

	counted->nr_reads++;
	if (counted->err)
		return counted->err;
	counted->nr_bytes += len;
	n = pread(counted->fd, dst, len, (off_t)off);
	return n < 0 ? -errno : n;
}

static struct elf_image *counted_open(struct counted *counted, const char *file)
{
	struct elf_source from = { .read = counted_read, .arg = counted };
	char *path = fixture_path(file);
	struct elf_image *img;

	counted->fd = open(path, O_RDONLY | O_CLOEXEC);
	cr_assert(counted->fd >= 0);
	from.size = (uint64_t)lseek(counted->fd, 0, SEEK_END);
	cr_assert_eq(elf_image_new(&img, &from), 0);
	free(path);
	return img;
}

Test(pythons, looked_at_once)
{
	static const char *const options[] = { "", "-D_PyRuntime=other", "-DVERSION=0x031000f0" };
	struct counted counted = { 0 };
	struct image image;
	struct seen seen;
	char file[32];

	for (uint32_t i = 0; i < 3; i++) {
		snprintf(file, sizeof(file), "lib%u.so", i);
		build(file, options[i]);
		seen_init(&seen);
		image = (struct image){ .id = 5000 * (i + 1), .path = file };
		image.elf = counted_open(&counted, file);
		elf_image_drop_cache(image.elf);
		counted.nr_reads = 0;
		cr_assert_eq(pythons_scan(seen.pythons, &image), 0);
		cr_assert_eq(counted.nr_reads, 0, "not open");
		image.state = IMAGE_OPEN;
		image.id = BPFPROF_IMAGE_VDSO;
		cr_assert_eq(pythons_scan(seen.pythons, &image), 0);
		cr_assert_eq(counted.nr_reads, 0, "no file");
		image.id = 5000 * (i + 1);
		cr_assert_eq(pythons_scan(seen.pythons, &image), 0);
		cr_assert_gt(counted.nr_reads, 0, "%s", file);
		counted.nr_reads = 0;
		elf_image_drop_cache(image.elf);
		for (int k = 0; k < 5; k++)
			cr_assert_eq(pythons_scan(seen.pythons, &image), 0);
		cr_assert_eq(counted.nr_reads, 0, "%s: read again", file);
		cr_assert_eq(seen.nr_layouts, i == 0);
		cr_assert_eq(seen.nr_unknown, i == 2);
		cr_assert_eq(counts(&seen)->nr_unknown, i == 2);
		cr_assert_eq(counts(&seen)->nr_malformed, 0);
		elf_image_free(image.elf);
		close(counted.fd);
		pythons_free(seen.pythons);
	}
}

/* A library that looks like a Python, with more than 32 MiB of names: exported symbols are enough. */
Test(pythons, large_symbol_tables_are_not_read)
{
	struct counted counted = { 0 };
	struct image image = { .id = IMAGE, .path = "large.so", .state = IMAGE_OPEN };
	struct seen seen;

	fixture_run("awk 'BEGIN { x = sprintf(\"%01000d\", 0); print \".text\";"
		    "for (i = 0; i < 35000; i++) printf \"x%d%s: nop\\n\", i, x }' > x.S;"
		    "gcc -c -o x.o x.S");
	build("large.so", "x.o -Wl,-z,noexecstack");
	seen_init(&seen);
	image.elf = counted_open(&counted, "large.so");
	cr_assert_gt(elf_image_size(image.elf), 33U << 20);
	cr_assert_eq(pythons_scan(seen.pythons, &image), 0);
	cr_assert_eq(seen.nr_layouts, 1);
	cr_assert_lt(counted.nr_bytes, 1U << 20);
	elf_image_free(image.elf);
	close(counted.fd);
	pythons_free(seen.pythons);
}

/* Said once for each file. */
Test(pythons, unknown_version)
{
	struct process_mapping mapping = { 0x10000000, 0x10100000, 0, IMAGE };
	uint64_t runtime;
	struct seen seen;
	uint32_t layout;

	build("libmade.so", "-DVERSION=0x031000f0 -Wl,-z,noseparate-code");
	seen_init(&seen);
	for (int i = 0; i < 4; i++)
		cr_assert_eq(look(&seen, IMAGE, "libmade.so"), 0);
	cr_assert_eq(seen.nr_unknown, 1);
	cr_assert_eq(seen.version, 0x031000f0);
	cr_assert_str_eq(seen.path, "/usr/lib/libpython.so");
	cr_assert_not(find(&seen, &mapping, 1, &runtime, &layout));
	cr_assert_eq(look(&seen, IMAGE + 1, "libmade.so"), 0);
	cr_assert_eq(seen.nr_unknown, 2);
	cr_assert_eq(counts(&seen)->nr_unknown, 2);
	cr_assert_eq(seen.nr_layouts, 0);
	pythons_free(seen.pythons);
}

/* 3.14 says how it is laid out; this one does not. */
Test(pythons, malformed)
{
	struct seen seen;

	build("libmade.so", "-DVERSION=0x030e00f0");
	seen_init(&seen);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(look(&seen, IMAGE, "libmade.so"), 0);
	cr_assert_eq(counts(&seen)->nr_malformed, 1);
	cr_assert_eq(counts(&seen)->nr_unknown, 0);
	cr_assert_eq(seen.nr_layouts + seen.nr_unknown, 0);
	pythons_free(seen.pythons);
}

/* A file that cannot be read now may be another time, but not for ever. */
Test(pythons, unreadable)
{
	static const int errors[] = { -EIO, -ETIMEDOUT };
	struct image image = { .id = IMAGE, .path = "libmade.so", .state = IMAGE_OPEN };
	struct counted counted = { 0 };
	struct seen seen;
	int tries;

	build("libmade.so", "");
	for (size_t i = 0; i < 2; i++) {
		seen_init(&seen);
		counted.err = 0;
		image.elf = counted_open(&counted, "libmade.so");
		elf_image_drop_cache(image.elf);
		counted.err = errors[i];
		for (tries = 0; tries < 10; tries++) {
			int err = pythons_scan(seen.pythons, &image);

			if (!err)
				break;
			cr_assert_eq(err, errors[i]);
		}
		cr_assert(tries >= 2 && tries < 10, "%d tries", tries);
		counted.nr_reads = 0;
		cr_assert_eq(pythons_scan(seen.pythons, &image), 0);
		cr_assert_eq(counted.nr_reads, 0);

		/* The second time it can be. */
		pythons_free(seen.pythons);
		seen_init(&seen);
		cr_assert_eq(pythons_scan(seen.pythons, &image), errors[i]);
		counted.err = 0;
		cr_assert_eq(pythons_scan(seen.pythons, &image), 0);
		cr_assert_eq(seen.nr_layouts, 1);
		elf_image_free(image.elf);
		close(counted.fd);
		pythons_free(seen.pythons);
	}
}

/* There was no time to read a file, again and again: it is looked at later all the same. */
Test(pythons, no_time)
{
	static const int errors[] = { -EAGAIN, -EBUSY };
	struct image image = { .id = IMAGE, .path = "libmade.so", .state = IMAGE_OPEN };
	struct counted counted = { 0 };
	struct seen seen;
	int tries;

	build("libmade.so", "");
	for (size_t i = 0; i < 2; i++) {
		seen_init(&seen);
		counted.err = 0;
		image.elf = counted_open(&counted, "libmade.so");
		elf_image_drop_cache(image.elf);
		counted.err = errors[i];
		for (tries = 0; tries < 300; tries++)
			cr_assert_eq(pythons_scan(seen.pythons, &image), -EBUSY);
		counted.err = 0;
		cr_assert_eq(pythons_scan(seen.pythons, &image), 0);
		cr_assert_eq(seen.nr_layouts, 1);
		elf_image_free(image.elf);
		close(counted.fd);
		pythons_free(seen.pythons);
	}
}
