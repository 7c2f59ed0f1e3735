// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/deadline.h"
#include "base/strtab.h"
#include "base/time.h"
#include "proc/images.h"
#include "proc/origins.h"
#include "profile/aggregate.h"
#include "profile/live.h"
#include "profile/live_symbolizer.h"
#include "profile/profile.h"
#include "profile/stats.h"
#include "profile/symbolize.h"
#include "test_elf_fixture.h"
#include "stack_frames.h"

#define KIND(kind) ((uint64_t)BPFPROF_FRAME_##kind << BPFPROF_FRAME_SHIFT)

static struct deadline_runner *runner;
static struct images *images;
static struct profile profile;
static struct stats_reasons files;
static int hidden;

static void setup(void)
{
	files = (struct stats_reasons){ 0 };
	profile = (struct profile){ 0 };
	hidden = 0;
	cr_assert_eq(deadline_runner_new(&runner), 0);
	cr_assert_eq(images_new(&images, runner, NULL, 16), 0);
}

static void teardown(void)
{
	profile_fini(&profile);
	images_free(images);
	deadline_runner_free(runner);
}

TestSuite(symbolize, .init = setup, .fini = teardown);

int symbolize_probe(int x);
__attribute__((noinline)) int symbolize_probe(int x)
{
	return x * 3;
}

static uint32_t generation_of(const char *path)
{
	uint32_t generation[2] = { 0 };
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || ioctl(fd, FS_IOC_GETVERSION, generation))
		generation[0] = 0;
	if (fd >= 0)
		close(fd);
	return generation[0];
}

/* The frame that BPF would send for an address of ours: by /proc/self/maps. */
static uint64_t frame_of(const void *address)
{
	unsigned long va = (unsigned long)address, start, end, off;
	FILE *maps = fopen("/proc/self/maps", "re");
	struct bpfprof_vma vma = { 0 };
	char line[4400], *path;
	uint64_t frame = 0;
	struct stat st;

	cr_assert(maps);
	while (!frame && fgets(line, sizeof(line), maps)) {
		start = strtoul(line, &path, 16);
		end = strtoul(path + 1, &path, 16);
		if (va < start || va >= end || !(path = strchr(line, '/')))
			continue;
		off = strtoul(line + strcspn(line, " ") + 6, NULL, 16);
		path[strcspn(path, "\n")] = 0;
		cr_assert_eq(stat(path, &st), 0);
		vma.ino = st.st_ino;
		vma.dev = major(st.st_dev) << 20 | minor(st.st_dev);
		vma.size = (uint64_t)st.st_size;
		vma.mtime_sec = st.st_mtim.tv_sec;
		vma.ino_gen = generation_of(path);
		frame = KIND(NATIVE) |
			(uint64_t)images_add(images, &vma, path, 1) << BPFPROF_OFF_BITS |
			(va - start + off);
	}
	fclose(maps);
	cr_assert(frame, "%p", address);
	return frame;
}

static const char *text(uint32_t id)
{
	return strtab_get(profile.strings, id);
}

static uint32_t program; /* image of process 1 */

/* One stack of these frames under one sample of process 1. */
static void resolve(const uint64_t *frames, size_t nr, const char *kallsyms)
{
	static struct aggregate_process processes[2];
	static const char threads[][BPFPROF_COMM_LEN] = { "", "worker" };
	static struct stacks_made stacks;
	struct aggregate_sample samples[] = {
		{ .process = 1, .tid = 12, .thread = 1, .count = 3, .value_ns = 30 },
	};
	struct aggregate_view view = { .processes = processes,
				       .nr_processes = 2,
				       .samples = samples,
				       .nr_samples = 1,
				       .threads = threads,
				       .nr_threads = 2 };
	struct symbolize_options options = { .kallsyms = kallsyms, .now_ns = time_monotonic_ns() };

	stacks_free(&stacks);
	samples[0].stack = stack_make(&stacks, frames, nr);
	stacks_view(&stacks, &view);
	processes[0].pid = (uint32_t)getpid();
	memcpy(processes[0].comm, "zero", 5);
	processes[1].agent_pid = 7;
	processes[1].pid = 4194305; /* over every pid_max */
	processes[1].nr_threads = 2;
	processes[1].program = program;
	memcpy(processes[1].comm, "one", 4);
	cr_assert_eq(symbolize(&profile, &view, images, &options, &files, &hidden), 0);
}

static const struct profile_location *location(size_t i)
{
	return &profile.locations[stack_location(&profile, profile.samples[0].stack, i)];
}

Test(symbolize, real_images)
{
	const char *in_libc = (const char *)dlsym(RTLD_DEFAULT, "a64l");
	uint64_t probe = frame_of((const void *)symbolize_probe), libc = frame_of(in_libc + 1);
	const uint64_t frames[] = { probe, libc, probe, KIND(MARKER) | BPFPROF_STOP_DEPTH };
	const struct profile_mapping *mapping;
	Dl_info info;

	cr_assert(dladdr(in_libc, &info));
	resolve(frames, 4, "/proc/kallsyms");
	cr_expect_str_eq(text(location(0)->name), "symbolize_probe");
	cr_expect_eq(location(0)->kind, LOCATION_NATIVE);
	cr_expect(location(0)->has_symbol);
	cr_expect_eq(location(0), location(2), "equal frames share a location");
	cr_expect_eq(profile.nr_locations, 3);
	cr_expect_str_eq(text(location(1)->name), "a64l");
	mapping = &profile.mappings[location(1)->mapping - 1];
	cr_expect(strstr(text(mapping->path), "libc.so.6"), "%s", text(mapping->path));
	cr_expect_eq(strlen(text(mapping->build_id)), 40);
	cr_expect(mapping->has_functions);
	cr_expect(location(1)->address >= mapping->start && location(1)->address < mapping->limit);
	/* An image-relative address is one relative to where the image was loaded. */
	cr_expect_eq(location(1)->address, (uint64_t)in_libc + 1 - (uint64_t)info.dli_fbase);
	cr_expect_eq(location(3)->kind, LOCATION_MARKER);
	cr_expect_str_eq(text(location(3)->name), "[truncated]");
	cr_expect_eq(location(3)->mapping, 0);
	/* The rest is copied. */
	cr_assert_eq(profile.nr_samples, 1);
	cr_expect(profile.samples[0].count == 3 && profile.samples[0].value_ns == 30);
	cr_expect(profile.samples[0].tid == 12 && profile.samples[0].process == 1);
	cr_expect_str_eq(text(profile.samples[0].thread), "worker");
	cr_expect_eq(profile.processes[1].pid, 7);
	cr_expect_eq(profile.processes[1].kernel_pid, 4194305);
	cr_expect_eq(profile.processes[1].nr_threads, 2);
	cr_expect_str_eq(text(profile.processes[0].title), "zero");
}

/* Its threads run in a library alone: it is a mapping all the same, and the first one. */
Test(symbolize, program_without_frames)
{
	const char *in_libc = (const char *)dlsym(RTLD_DEFAULT, "a64l");
	uint64_t probe = frame_of((const void *)symbolize_probe);
	const uint64_t frames[] = { frame_of(in_libc + 1), frame_of(in_libc + 2) };
	char exe[4096] = "";

	cr_assert_gt(readlink("/proc/self/exe", exe, sizeof(exe) - 1), 0);
	program = (uint32_t)((probe & BPFPROF_FRAME_MASK) >> BPFPROF_OFF_BITS);
	resolve(frames, 2, "/proc/kallsyms");
	cr_assert_eq(profile.nr_mappings, 2);
	cr_expect_eq(profile.processes[0].program, 0);
	cr_expect_eq(profile.processes[1].program, 2);
	profile_lead(&profile, NULL, 0);
	cr_expect_eq(profile.processes[1].program, 1);
	cr_expect_str_eq(text(profile.mappings[0].path), exe);
	cr_expect_str_eq(text(location(0)->name), "a64l");
	cr_expect(strstr(text(profile.mappings[location(0)->mapping - 1].path), "libc.so.6"));
}

/* One that is gone from the images, or never was one of them. */
Test(symbolize, program_not_known)
{
	const char *in_libc = (const char *)dlsym(RTLD_DEFAULT, "a64l");
	const uint64_t frames[] = { frame_of(in_libc + 1) };

	program = 4711;
	resolve(frames, 1, "/proc/kallsyms");
	cr_expect_eq(profile.processes[1].program, 0);
	profile_lead(&profile, NULL, 0);
	cr_assert_eq(profile.nr_mappings, 1);
	cr_expect(strstr(text(profile.mappings[0].path), "libc.so.6"));
}

Test(symbolize, files_that_cannot_be_read)
{
	struct bpfprof_vma vma = { .ino = 77, .dev = 0xfff00001 };
	uint64_t named = images_add(images, &vma, "/usr/lib/libgone.so.1 (deleted)", 1), nameless;
	uint64_t frames[3];

	vma.ino++;
	nameless = images_add(images, &vma, "", 1);
	frames[0] = KIND(NATIVE) | named << BPFPROF_OFF_BITS | 0x1f2e;
	frames[1] = KIND(NATIVE) | nameless << BPFPROF_OFF_BITS | 0x10;
	frames[2] = KIND(NATIVE) | named << BPFPROF_OFF_BITS | BPFPROF_OFF_MASK;
	resolve(frames, 3, "/proc/kallsyms");
	cr_expect_str_eq(text(location(0)->name), "libgone.so.1+0x1f2e");
	cr_expect_not(location(0)->has_symbol);
	cr_expect_str_eq(text(location(1)->name), "[inode 78]+0x10");
	cr_expect_str_eq(text(location(2)->name), "libgone.so.1+0xffffffffff");
	cr_expect_eq(profile.nr_mappings, 2);
	cr_expect_str_eq(text(profile.mappings[0].path), "/usr/lib/libgone.so.1");
	cr_expect_eq(images_nr_problem(images, IMAGE_GONE), 2);
}

/* A library of two functions that are not exported, stripped and then changed by a script. */
static char *library_make(const char *name, const char *change)
{
	char script[640];

	fixture_write("l.c",
		      "static __attribute__((noinline)) int inner(int x) { return x * x + 3; }\n"
		      "static __attribute__((noinline)) int middle(int x)\n"
		      "{ return inner(x) * 5 + inner(x + 1); }\n"
		      "int outer(int x); int outer(int x) { return middle(x) + 1; }\n");
	fixture_write("bare.S", ".text\n.skip 64\n.globl bare_end\nbare_end: ret\n"
				".section .note.GNU-stack,\"\",@progbits\n");
	snprintf(script, sizeof(script),
		 "gcc -O1 -shared -fPIC -o full.so l.c bare.S; strip -o %s full.so; f=%s; %s", name,
		 name, change);
	fixture_run(script);
	return fixture_path(name);
}

static const char *load(const char *path)
{
	void *lib = dlopen(path, RTLD_NOW);

	cr_assert(lib, "%s", dlerror());
	return (const char *)dlsym(lib, "outer") - fixture_value("full.so", "outer");
}

/* One name for all addresses of a function: where it begins, by the unwind table. */
Test(symbolize, functions_without_a_symbol)
{
	char *path = library_make("l.so", ":"), want[64];
	uint64_t middle = fixture_value("full.so", "middle");
	uint64_t inner = fixture_value("full.so", "inner");
	uint64_t bare = fixture_value("full.so", "bare_end") - 32;
	const char *base = load(path);
	const uint64_t frames[] = { frame_of(base + middle), frame_of(base + middle + 1),
				    frame_of(base + middle + 9), frame_of(base + inner + 2),
				    frame_of(base + bare) };
	size_t i;

	resolve(frames, 5, "/proc/kallsyms");
	for (i = 0; i < 4; i++) {
		snprintf(want, sizeof(want), "l.so+0x%lx", i < 3 ? middle : inner);
		cr_expect_str_eq(text(location(i)->name), want);
		cr_expect(!location(i)->has_symbol && location(i)->has_start);
	}
	cr_expect_eq(location(0)->name, location(2)->name);
	cr_expect_eq(location(2)->address, middle + 9, "the address stays");
	/* No table covers the code: the address names it. */
	snprintf(want, sizeof(want), "l.so+0x%lx", bare);
	cr_expect_str_eq(text(location(4)->name), want);
	cr_expect(!location(4)->has_symbol && !location(4)->has_start);
	cr_expect_eq(profile_nameless(&profile), 5 * 3);
	free(path);
}

static uint64_t count_of(const char *reason)
{
	size_t i;

	for (i = 0; i < STATS_MAX_REASONS && files.reasons[i].name; i++)
		if (!strcmp(files.reasons[i].name, reason))
			return files.reasons[i].count;
	return 0;
}

/* A file that gives no names says why. */
Test(symbolize, errors_of_symbols_are_counted)
{
	static const struct {
		const char *change, *reason;
	} cases[] = {
		{ ":", NULL },
		/* The section headers are beyond the end. */
		{ "truncate -s -100 $f", "symbols_malformed" },
		/* e_shnum 0, and a size of section 0 that is over our limit. */
		{ "python3 -c 'import struct, sys; d = bytearray(open(sys.argv[1], \"rb\").read());"
		  "o = struct.unpack_from(\"<Q\", d, 40)[0]; struct.pack_into(\"<H\", d, 60, 0);"
		  "struct.pack_into(\"<Q\", d, o + 32, 1 << 20); open(sys.argv[1], "
		  "\"wb\").write(d)' $f",
		  "symbols_too_many" },
	};
	char name[16], *path;
	uint64_t frame;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(name, sizeof(name), "l%zu.so", i);
		path = library_make(name, cases[i].change);
		frame = frame_of(load(path) + fixture_value("full.so", "middle") + 1);
		files = (struct stats_reasons){ 0 };
		profile_fini(&profile);
		resolve(&frame, 1, "/proc/kallsyms");
		if (cases[i].reason)
			cr_expect_eq(count_of(cases[i].reason), 1, "case %zu", i);
		cr_expect_eq(stats_total(&files), cases[i].reason != NULL);
		cr_expect_eq(!symbolize_problem(&files), !cases[i].reason);
		free(path);
	}
}

Test(symbolize, files_for_which_there_is_no_time_are_counted)
{
	struct symbolize_options options = { .kallsyms = "/proc/kallsyms",
					     .now_ns = time_monotonic_ns(),
					     .deadline_ns = 1 };
	uint64_t frame = frame_of((const void *)symbolize_probe);

	cr_assert_eq(
		symbolize_frames(&profile, &frame, 1, NULL, 0, images, &options, &files, &hidden),
		0);
	cr_expect_eq(count_of("symbols_no_time"), 1);
	cr_expect_not(profile.locations[0].has_symbol);
}

static uint64_t kernel(uint64_t va)
{
	return KIND(KERNEL) | (va & BPFPROF_FRAME_MASK);
}

Test(symbolize, kernel)
{
	const uint64_t frames[] = { kernel(0xffffffffc0000010),
				    kernel(0xffffffff81000104),
				    kernel(0xffffffff810001ff),
				    kernel(0xffffffff00000000),
				    kernel(0x1234),
				    kernel(UINT64_MAX) };
	const struct profile_mapping *mapping;
	char *path;

	fixture_write("kallsyms", "ffffffff81000000 T _stext\n"
				  "ffffffff81000100 T do_thing\n"
				  "ffffffff81000200 T next_thing\n"
				  "ffffffffc0000000 t mod_fn\t[mod]\n");
	path = fixture_path("kallsyms");
	resolve(frames, 6, path);
	free(path);
	cr_expect_eq(hidden, 0);
	cr_expect_eq(files.nr, 0);
	cr_expect_str_eq(text(location(0)->name), "mod_fn");
	cr_expect_str_eq(text(location(1)->name), "do_thing");
	cr_expect_str_eq(text(location(2)->name), "do_thing");
	cr_expect_str_eq(text(location(3)->name), "[kernel]");
	cr_expect_not(location(3)->has_symbol);
	cr_expect_eq(location(1)->kind, LOCATION_KERNEL);
	cr_expect_eq(location(1)->address, 0xffffffff81000104);
	cr_expect_eq(location(4)->address, 0x1234, "an address that is not the kernel's stays so");
	mapping = &profile.mappings[location(1)->mapping - 1];
	cr_expect_str_eq(text(mapping->path), "[kernel.kallsyms]");
	cr_expect(mapping->start == 0x1000 && mapping->limit == UINT64_MAX);
}

Test(symbolize, kernel_hidden)
{
	const uint64_t frames[] = { kernel(0xffffffff81000104) };
	char *path;

	fixture_write("kallsyms", "0000000000000000 T _stext\n0000000000000000 T do_thing\n");
	path = fixture_path("kallsyms");
	resolve(frames, 1, path);
	free(path);
	cr_expect_eq(hidden, 1);
	cr_expect_str_eq(text(location(0)->name), "[kernel]");
}

Test(symbolize, no_kallsyms)
{
	const uint64_t frames[] = { kernel(0xffffffff81000104) };

	resolve(frames, 1, "/nonexistent/kallsyms");
	cr_expect_eq(hidden, 0);
	cr_expect_str_eq(text(location(0)->name), "[kernel]");
	cr_assert_eq(files.nr, 1);
	cr_expect_str_eq(files.reasons[0].name, "kallsyms_unreadable");
}

static uint64_t jit(uint64_t process, uint64_t va)
{
	return KIND(NATIVE_VA) | process << AGGREGATE_VA_BITS | va;
}

/* The facts of this process, as when its mappings were read; its map may have any age. */
static void origin_set(uint32_t ancestor)
{
	struct origin origin = { .pid = (uint32_t)getpid(), .pod_pid = (uint32_t)getpid() };

	origin.facts.uid = getuid();
	origin.facts.flags = BPFPROF_ORIGIN_OUR_MOUNTS | BPFPROF_ORIGIN_OUR_ROOT;
	origin.facts.ancestors[0].pod_pid = ancestor;
	origins_set(images_origins(images), &origin);
}

Test(symbolize, jit)
{
	/* Processes by index + 1: ours has a map, the other none, 0 and 9 are no processes. */
	const uint64_t frames[] = { jit(1, 0x7f0000001010), jit(1, 0x7f0000002000),
				    jit(2, 0x7f0000001010), jit(0, 0x7f0000001010),
				    jit(9, 0x7f0000001010) };
	char path[64];
	FILE *map;

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	unlink(path); /* of an earlier process with this number */
	map = fopen(path, "wxe");
	cr_assert(map);
	fputs("7f0000001000 20 jitted one\nnonsense\n", map);
	fclose(map);
	origin_set(0);
	resolve(frames, 5, "/proc/kallsyms");
	unlink(path);
	cr_expect_str_eq(text(location(0)->name), "jitted one");
	cr_expect(location(0)->has_symbol && location(0)->kind == LOCATION_NATIVE);
	cr_expect_eq(location(0)->address, 0x7f0000001010);
	cr_expect_str_eq(text(location(1)->name), "[anon]+0x7f0000002000");
	for (int i = 2; i < 5; i++)
		cr_expect_str_eq(text(location((size_t)i)->name), "[anon]+0x7f0000001000");
	cr_expect_not(location(2)->has_symbol);
	/* The place of the other map is not known; addresses without a process have no map. */
	cr_assert_eq(files.nr, 1);
	cr_expect_str_eq(files.reasons[0].name, "perfmap_gone");
	cr_expect_eq(files.reasons[0].count, 1);
}

/* The process has ended in another mount namespace: its /tmp is not known any more. */
Test(symbolize, jit_of_a_process_that_has_ended)
{
	const uint64_t frames[] = { jit(1, 0x7f0000001010), jit(2, 0x7f0000002000) };
	const uint32_t gone = 4194305, here = (uint32_t)getpid(); /* higher than pids go */
	struct aggregate_process ended[] = { { .pid = gone }, { .pid = here } };
	struct symbolize_options options = { .kallsyms = "/dev/null" };
	struct origin origin = { .pid = gone, .pod_pid = gone };
	struct profile made;
	char path[64];

	snprintf(path, sizeof(path), "/tmp/perf-%u.map", here);
	unlink(path); /* an earlier process with this pid may have left one */
	origin.facts.ancestors[0].pod_pid = 1; /* asked for below the same /tmp */
	origins_set(images_origins(images), &origin);
	origin_set(0); /* runs, and wrote none */
	cr_assert_eq(
		symbolize_frames(&made, frames, 2, ended, 2, images, &options, &files, &hidden), 0);
	profile_fini(&made);
	cr_assert_eq(files.nr, 1);
	cr_expect_str_eq(files.reasons[0].name, "perfmap_gone");
	cr_expect_eq(files.reasons[0].count, 1);
}

/* Names that the process did not write may be in the map of its parent. */
Test(symbolize, jit_of_the_parent)
{
	const uint64_t frames[] = { jit(1, 0x7f0000001010), jit(1, 0x7f0000002000),
				    jit(1, 0x7f0000003000) };
	const uint32_t pids[] = { (uint32_t)getpid(), 4194305 }; /* higher than pids go */
	const char *maps[] = { "7f0000001000 20 own\n",
			       "7f0000001000 20 replaced\n7f0000002000 20 inherited\n" };
	char path[2][64];
	FILE *map;
	int i;

	for (i = 0; i < 2; i++) {
		snprintf(path[i], sizeof(path[i]), "/tmp/perf-%u.map", pids[i]);
		unlink(path[i]);
		map = fopen(path[i], "wxe");
		cr_assert(map);
		fputs(maps[i], map);
		fclose(map);
	}
	origin_set(pids[1]);
	resolve(frames, 3, "/proc/kallsyms");
	for (i = 0; i < 2; i++)
		unlink(path[i]);
	cr_expect_str_eq(text(location(0)->name), "own");
	cr_expect_str_eq(text(location(1)->name), "inherited");
	cr_expect_str_eq(text(location(2)->name), "[anon]+0x7f0000003000");
	cr_expect_eq(files.nr, 0);
}

/* The file with that name may be a trap. */
Test(symbolize, jit_map_is_a_fifo)
{
	const uint64_t frames[] = { jit(1, 0x7f0000001010) };
	uint64_t start = time_monotonic_ns();
	char path[64];

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	unlink(path); /* of an earlier process with this number */
	cr_assert_eq(mkfifo(path, 0600), 0);
	origin_set(0);
	resolve(frames, 1, "/proc/kallsyms");
	unlink(path);
	cr_expect_lt(time_monotonic_ns() - start, NS_PER_SECOND);
	cr_expect_eq(deadline_nr_stuck(runner), 0);
	cr_expect_str_eq(text(location(0)->name), "[anon]+0x7f0000001000");
	cr_assert_eq(files.nr, 1);
	cr_expect_str_eq(files.reasons[0].name, "perfmap_refused");
}

/* More than are collected at once, each twice, far from one another and in no order. */
Test(symbolize, many_frames)
{
	const size_t distinct = 100003, nr = 2 * distinct; /* a prime number of them */
	uint64_t *frames = malloc(nr * sizeof(*frames));
	size_t i, wrong = 0;
	uint32_t at;

	cr_assert(frames);
	for (i = 0; i < nr; i++)
		frames[i] = jit(9, 0x7f0000000000 + i * 7919 % distinct);
	resolve(frames, nr, "/proc/kallsyms");
	cr_expect_eq(profile.nr_locations, distinct, "%zu", profile.nr_locations);
	i = 0;
	stack_each(at, profile.stack_callers, profile.samples[0].stack) {
		cr_assert_lt(i, nr);
		wrong += profile_frame(&profile, at)->address != (frames[i++] & AGGREGATE_VA_MASK);
	}
	cr_expect_eq(i, nr);
	cr_expect_eq(wrong, 0, "%zu of %zu", wrong, nr);
	free(frames);
}

Test(symbolize, nothing)
{
	resolve(NULL, 0, "/proc/kallsyms");
	cr_expect(profile.nr_locations == 0 && profile.nr_mappings == 0);
	cr_expect_eq(profile.nr_samples, 1);
}

/* Labels become locations, the samples of calls come after the others with what they count. */
Test(symbolize, calls)
{
	const struct aggregate_call_labels labels = { .function = "cuLaunchKernel",
						      .kernel = "sgemm<128>",
						      .stream = "0x5" };
	struct bpfprof_sample sample = { .task = { .pid = 4194305, .tid = 4194306 },
					 .comm = "thread",
					 .leader_comm = "leader" };
	const uint64_t va = KIND(NATIVE_VA) | 0x1000;
	struct aggregate_input input = {
		.sample = &sample, .user = &va, .nr_user = 1, .stop = BPFPROF_STOP_COMPLETE
	};
	const uint64_t values[PROFILE_NR_CALL_VALUES] = { 5, 60, 7, 8, 9 };
	struct symbolize_options options = { .kallsyms = "/proc/kallsyms" };
	struct aggregate_call_at at;
	struct aggregate_view view;
	struct aggregate *a;
	uint64_t leaves[2];

	cr_assert_eq(aggregate_new(&a, false, 1 << 20), 0);
	leaves[0] = aggregate_label(a, labels.kernel);
	leaves[1] = aggregate_label(a, labels.function);
	aggregate_add_call(a, &input, leaves, 2, &at);
	aggregate_call_sample(a, &at, aggregate_call(a, &labels), values);
	input.nr_user = 0;
	input.stop = BPFPROF_STOP_INVALID;
	aggregate_add_call(a, &input, leaves + 1, 1, &at);
	aggregate_call_sample(a, &at, 0, values);
	aggregate_add(a, &input);
	aggregate_view_get(a, &view);
	cr_assert_eq(symbolize(&profile, &view, images, &options, &files, &hidden), 0);
	aggregate_free(a);

	cr_assert(profile.nr_samples == 3 && profile.nr_calls == 1 && profile.call_values);
	cr_expect(profile.samples[0].call == 0 && profile.call_values[0][PROFILE_CALLS] == 0);
	cr_expect(profile.samples[1].call == 1 && profile.samples[1].count == 5);
	cr_expect_eq(profile.samples[1].value_ns, 60);
	cr_expect_arr_eq(profile.call_values[1], values, sizeof(values));
	cr_expect(profile.samples[2].call == 0 && profile.samples[2].count == 5);
	cr_expect_str_eq(text(profile.samples[1].thread), "thread");
	cr_expect_str_eq(text(profile.calls[0].kernel), "sgemm<128>");
	cr_expect_str_eq(text(profile.calls[0].stream), "0x5");
	cr_expect_eq(profile.calls[0].comm, 0);
	profile.samples[0] = profile.samples[1];
	cr_assert_eq(stack_depth(profile.stack_callers, profile.samples[0].stack), 3);
	cr_expect(location(0)->kind == LOCATION_CALL && location(0)->has_symbol);
	cr_expect_str_eq(text(location(0)->name), "sgemm<128>");
	cr_expect_str_eq(text(location(1)->name), "cuLaunchKernel");
	cr_expect(location(1)->mapping == 0 && location(1)->address == 0);
	cr_expect_str_eq(text(location(2)->name), "[anon]+0x1000");
	profile.samples[0] = profile.samples[2];
	cr_assert_eq(stack_depth(profile.stack_callers, profile.samples[0].stack), 2);
	cr_expect_eq(location(1)->kind, LOCATION_MARKER);
	cr_expect_str_eq(text(location(1)->name), "[no stack]");
}

/* The frames of a live table, each a sample of its own, all of this process. */
static void live_frames(struct live *live, struct live_symbolizer *symbolizer,
			const uint64_t *frames, size_t nr)
{
	const struct aggregate_process process = { .pid = (uint32_t)getpid(), .start_ns = 1 };
	const struct live_names how = live_symbolizer_fill(symbolizer);
	struct stacks_made stacks = { .nr = 0 };
	struct aggregate_sample samples[8] = { 0 };
	struct aggregate_view view = {
		.processes = &process, .nr_processes = 1, .samples = samples, .nr_samples = nr
	};
	size_t i;

	for (i = 0; i < nr; i++) {
		samples[i].stack = stack_make(&stacks, &frames[i], 1);
		samples[i].value_ns = 1;
	}
	stacks_view(&stacks, &view);
	cr_assert_eq(live_feed(live, &view, &how), 0);
	stacks_free(&stacks);
}

static uint64_t live_own(const struct live *live, const char *name)
{
	const struct live_row *rows;
	uint64_t own = 0;
	size_t nr, i;

	rows = live_rows(live, &nr);
	for (i = 0; i < nr; i++)
		if (rows[i].kinds & LIVE_LINE &&
		    !strncmp(live_text(live, rows[i].text), name, strlen(name)))
			own += rows[i].now.own_ns[0];
	return own;
}

Test(symbolize, live_frames_are_named_by_file_and_once_per_function)
{
	uint64_t probe = frame_of((const void *)symbolize_probe);
	uint64_t libc = frame_of((const char *)dlsym(RTLD_DEFAULT, "a64l") + 1);
	const uint64_t first[] = { probe, libc, KIND(NATIVE_VA) | 1ULL << AGGREGATE_VA_BITS | 77 };
	const uint64_t second[] = { probe + 1, probe + 2, libc + 1 };
	struct live_symbolizer symbolizer = { .images = images, .runner = runner };
	struct live *live;

	cr_assert_eq(live_new(&live), 0);
	live_frames(live, &symbolizer, first, 3);
	cr_expect_eq(live_own(live, "symbolize_probe ("), 1);
	cr_expect_eq(live_own(live, "a64l (libc"), 1);
	cr_expect_eq(live_own(live, "[anon]+0x0"), 1);
	cr_expect_eq(symbolizer.nr_passes, 3);
	live_frames(live, &symbolizer, second, 3);
	cr_expect_eq(live_own(live, "symbolize_probe ("), 2);
	cr_expect_eq(live_own(live, "a64l (libc"), 1);
	cr_expect_eq(symbolizer.nr_passes, 3, "the functions are known");
	live_free(live);
}

Test(symbolize, names_that_take_too_long_come_later)
{
	uint64_t probe = frame_of((const void *)symbolize_probe);
	struct live_symbolizer symbolizer = { .images = images, .runner = runner };
	struct live *live;

	cr_assert_eq(live_new(&live), 0);
	symbolizer.passes.earned_ns = time_monotonic_ns();
	budget_spend(&symbolizer.passes, 3600 * NS_PER_SECOND);
	live_frames(live, &symbolizer, &probe, 1);
	cr_expect_eq(live_own(live, "symbolize_probe"), 0);
	cr_expect(symbolizer.nr_passes == 0 && symbolizer.nr_postponed == 1);
	symbolizer.passes.spent_ns = 0;
	live_frames(live, &symbolizer, &probe, 1);
	cr_expect_eq(live_own(live, "symbolize_probe ("), 1);
	cr_expect(symbolizer.nr_passes == 1 && symbolizer.nr_postponed == 1);
	live_free(live);
}
