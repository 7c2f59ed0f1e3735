// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/deadline.h"
#include "base/refusals.h"
#include "base/time.h"
#include "elf/image.h"
#include "proc/images.h"
#include "proc/copy_room.h"
#include "test_elf_fixture.h"
#include "images_made.h"

Test(images, identity)
{
	struct bpfprof_vma file = { .ino = 10, .dev = 0x100001, .ino_gen = 1, .size = 5 };
	struct bpfprof_vma none = { 0 }, vdso = { .flags = BPFPROF_VMA_VDSO };
	struct bpfprof_vma later = file, other_dev = file, other_ino = file;
	uint32_t id = images_add(images, &file, "", 1);

	later.ino_gen++;
	other_dev.dev++;
	other_ino.ino++;
	cr_expect_eq(images_add(images, &none, "//anon", 1), BPFPROF_IMAGE_NONE);
	cr_expect_eq(images_add(images, &vdso, "", 1), BPFPROF_IMAGE_VDSO);
	cr_expect_eq(id, BPFPROF_IMAGE_FIRST_FILE);
	cr_expect_str_eq(images_get(images, id)->path, "");
	/* The first path that is not empty stays. */
	cr_expect_eq(images_add(images, &file, "/usr/lib/x.so (deleted)", 1), id);
	cr_expect_eq(images_add(images, &file, "/elsewhere", 1), id);
	cr_expect_eq(images_add(images, &file, NULL, 1), id);
	cr_expect_str_eq(images_get(images, id)->path, "/usr/lib/x.so");
	cr_expect_eq(images_add(images, &later, "/usr/lib/x.so", 1), id + 1);
	cr_expect_eq(images_add(images, &other_dev, NULL, 1), id + 2);
	cr_expect_eq(images_add(images, &other_ino, NULL, 1), id + 3);
	cr_expect_str_eq(images_get(images, id + 3)->path, "");
	cr_expect_eq(images_count(images), id + 4);
	cr_expect_null(images_get(images, id + 4));
	cr_expect_null(images_get(images, UINT32_MAX));
}

Test(images, opens)
{
	struct image *image;

	fixture_run("cp /bin/true prog");
	image = image_add("prog");
	cr_assert_eq(images_open(images, image, NOW), 0);
	cr_expect_eq(image->state, IMAGE_OPEN);
	cr_expect_eq(elf_image_machine(image->elf), 62);
	cr_expect_eq(images_open_cfi(images, image, NOW), 0);
	cr_expect_neq(image->cfi, NULL);
	cr_expect_eq(image->problem, IMAGE_FINE);
}

Test(images, vdso_is_our_own)
{
	struct image *vdso = images_get(images, BPFPROF_IMAGE_VDSO);

	cr_assert_eq(images_open_cfi(images, vdso, NOW), 0);
	cr_expect_str_eq(vdso->path, "[vdso]");
	cr_expect_eq(images_open(images, images_get(images, BPFPROF_IMAGE_NONE), NOW), -EIO);
}

Test(images, no_tables)
{
	struct image *image;

	fixture_run("echo 'int f(void) { return 1; }' > f.c;"
		    "gcc -shared -fno-asynchronous-unwind-tables -nostdlib -o bare.so f.c;"
		    "objcopy -R .eh_frame -R .eh_frame_hdr bare.so;"
		    "echo 'int x = 1;' > x.c; gcc -shared -nostdlib -o data.so x.c");
	image = image_add("bare.so"); /* its code can be read */
	cr_expect_eq(images_open_cfi(images, image, NOW), 0);
	cr_expect_not(image->no_cfi);
	image = image_add("data.so");
	cr_expect_eq(images_open_cfi(images, image, NOW), -ENODATA);
	cr_expect_eq(images_open_cfi(images, image, NOW), -ENODATA);
	cr_expect(image->state == IMAGE_OPEN && image->no_cfi);
}

/* A deleted or replaced file is opened by inode, as long as a process maps it. */
Test(images, deleted_and_replaced)
{
	bool by_inode = can_open_by_inode();
	struct bpfprof_vma gone, replaced;
	struct image *image;
	uint8_t id[ELF_BUILD_ID_MAX], true_id[ELF_BUILD_ID_MAX];
	char *path;
	int held;

	if (!by_inode)
		puts("images: by inode: skipped: no CAP_DAC_READ_SEARCH, or not ext4");
	fixture_run("cp /bin/true gone; cp /bin/true replaced; cp /bin/false new");
	image = image_add("replaced");
	cr_assert_eq(images_open(images, image, NOW), 0);
	cr_assert_gt(elf_image_build_id(image->elf, true_id), 0);
	images_teardown();
	images_setup();
	gone = image_vma_of("gone");
	replaced = image_vma_of("replaced");
	path = fixture_path("replaced");
	held = open(path, O_RDONLY | O_CLOEXEC);
	free(path);
	cr_assert_geq(held, 0);
	fixture_run("rm gone; mv new replaced; touch -r /bin/true replaced");
	cr_expect_eq(images_open(images, image_add_at(&gone, "gone"), NOW), -EIO);
	image = image_add_at(&replaced, "replaced (deleted)");
	cr_expect_eq(images_open(images, image, NOW), by_inode ? 0 : -EIO);
	cr_expect_eq(images_nr_problem(images, IMAGE_GONE), by_inode ? 1 : 2);
	if (by_inode) {
		cr_assert_gt(elf_image_build_id(image->elf, id), 0);
		cr_expect_arr_eq(id, true_id, 20, "this is the file that took its place");
	}
	close(held);
}

/* Inode numbers are used again at once: size, time and generation must fit too. */
Test(images, inode_used_again)
{
	struct bpfprof_vma vma;

	fixture_run("cp /bin/true prog");
	vma = image_vma_of("prog");
	vma.mtime_sec++;
	cr_expect_eq(images_open(images, image_add_at(&vma, "prog"), NOW), -EIO);
	vma = image_vma_of("prog");
	vma.ino++;
	vma.size++;
	cr_expect_eq(images_open(images, image_add_at(&vma, "prog"), NOW), -EIO);
	cr_expect_eq(images_nr_problem(images, IMAGE_GONE), 2);
	vma = image_vma_of("prog");
	if (!vma.ino_gen) {
		puts("images: generations: skipped: this file system has none");
		return;
	}
	vma.ino_gen ^= 1;
	cr_expect_eq(images_open(images, image_add_at(&vma, "prog"), NOW), -EIO);
	cr_expect_eq(images_nr_problem(images, IMAGE_GONE), 3);
}

/* Another program was copied over it in place: the old id must not show the new one's names. */
Test(images, written_anew)
{
	struct image *image, *again;

	fixture_run("cp /bin/true prog");
	image = image_add("prog");
	cr_expect_eq(image_add("prog"), image);
	fixture_run("touch -d 2001-01-01 prog");
	cr_expect_eq(image_add("prog"), image, "nothing was taken from it so far");
	cr_assert_eq(images_open_cfi(images, image, NOW), 0);
	cr_expect_eq(image_add("prog"), image);
	fixture_run("cat /bin/false > prog");
	again = image_add("prog");
	cr_expect_neq(again->id, image->id);
	cr_expect_str_eq(again->path, image->path);
	cr_expect(image->state == IMAGE_FAILED && !image->elf && !image->cfi);
	cr_expect_eq(images_open(images, image, NOW + 1000 * SECOND), -EIO);
	cr_expect_eq(images_open(images, again, NOW), 0);
	cr_expect_eq(image_add("prog"), again);
}

/* Whatever kind of file has the path, it is checked and never opened, so nothing waits. */
Test(images, not_a_file)
{
	static const char *const files[] = { "fifo", "dir", "loop", "a_file/x", "null", "absent" };
	struct bpfprof_vma vma = { .ino = 1, .dev = 0x100001 };
	uint64_t start = time_monotonic_ns();
	char event[4096], *path;
	struct image *image;
	int notify;
	size_t i;

	fixture_run("mkfifo fifo; mkdir dir; ln -s loop loop; ln -s /dev/null null; : > a_file");
	notify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	path = fixture_path("fifo");
	cr_assert_geq(inotify_add_watch(notify, path, IN_OPEN), 0);
	free(path);
	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		vma.ino++;
		image = image_add_at(&vma, files[i]);
		cr_expect_eq(images_open(images, image, NOW), -EIO, "%s", files[i]);
		cr_expect_eq(image->problem, IMAGE_GONE, "%s: %s", files[i],
			     image_problem_name(image->problem));
	}
	/* Even if it is the very inode. */
	cr_expect_eq(images_open(images, image_add("fifo"), NOW), -EIO);
	cr_expect_eq(images_open(images, image_add("dir"), NOW), -EIO);
	cr_expect_eq(read(notify, event, sizeof(event)), -1, "the FIFO was opened");
	cr_expect_eq(images_nr_problem(images, IMAGE_GONE), i + 2);
	cr_expect_lt(time_monotonic_ns() - start, SECOND);
	cr_expect_eq(deadline_nr_stuck(runner), 0);
	close(notify);
}

/* Files of the kernel are not read: some have effects when they are read. */
Test(images, made_up_files)
{
	struct elf_source source;
	char *path;

	fixture_run("ln -s /proc/self/status link; echo 1 > plain");
	path = fixture_path("link");
	cr_expect_eq(images_open_source(images, 0, path, &source), -EACCES);
	free(path);
	cr_expect_eq(images_open_source(images, 0, "/proc/self/environ", &source), -EACCES);
	cr_expect_null(images_open_path(images, 0, "/proc/kallsyms"));
	path = fixture_path("plain");
	cr_expect_eq(images_open_source(images, 0, path, &source), 0);
	cr_expect_eq(source.size, 2);
	source.close(source.arg);
	cr_expect_null(images_open_path(images, 0, path), "not ELF");
	free(path);
}

Test(images, malformed)
{
	static const struct {
		const char *file;
		enum image_problem problem;
	} cases[] = { { "text", IMAGE_NOT_ELF },
		      { "empty", IMAGE_NOT_ELF },
		      { "short", IMAGE_NOT_ELF },
		      { "half", IMAGE_MALFORMED } };
	struct image *image;
	size_t i;

	fixture_run("echo hello > text; : > empty; head -c 40 /bin/true > short;"
		    "head -c 100 /bin/true > half");
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		image = image_add(cases[i].file);
		cr_expect_eq(images_open(images, image, NOW), -EIO, "%s", cases[i].file);
		cr_expect_eq(image->problem, cases[i].problem, "%s: %s", cases[i].file,
			     image_problem_name(image->problem));
	}
	cr_expect_eq(images_nr_problem(images, IMAGE_NOT_ELF), 3);
	cr_expect_eq(images_nr_problem(images, IMAGE_MALFORMED), 1);
}

/* Cut short while it is open: an error, not a signal. */
Test(images, truncated_while_open)
{
	struct image *image;
	char *path;

	fixture_run("cp /bin/true prog");
	image = image_add("prog");
	cr_assert_eq(images_open(images, image, NOW), 0);
	path = fixture_path("prog");
	cr_assert_eq(truncate(path, 4096), 0);
	free(path);
	cr_expect_eq(images_open_cfi(images, image, NOW), -EIO);
	cr_expect_eq(image->problem, IMAGE_MALFORMED);
	cr_expect_eq(image->state, IMAGE_FAILED);
}

Test(images, few_descriptors)
{
	struct image *image[20];
	int before, i, open = 0;
	char name[16];

	fixture_run("for i in $(seq 20); do cp /bin/true p$i; done");
	images_teardown();
	images_make(4, NULL);
	before = image_nr_fds();
	for (i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "p%d", i + 1);
		image[i] = image_add(name);
	}
	for (i = 0; i < 20; i++) {
		cr_assert_eq(images_open_cfi(images, image[i], NOW + (uint64_t)i), 0);
		cr_expect_leq(image_nr_fds(), before + 4);
		if (i >= 4) /* used again and again, so it stays */
			cr_assert_eq(images_open(images, image[1], NOW + (uint64_t)i), 0);
		cr_expect(i < 4 || image[1]->elf != NULL);
	}
	for (i = 0; i < 20; i++)
		open += image[i]->state == IMAGE_OPEN;
	cr_expect_eq(open, 4);
	cr_expect_eq(image[0]->state, IMAGE_UNOPENED);
	cr_expect_eq(images_open_cfi(images, image[0], NOW + 100), 0);
	cr_expect_eq(images_nr_problem(images, IMAGE_GONE), 0);
	images_free(images);
	images = NULL;
	cr_expect_eq(image_nr_fds(), before);
}

static void held_while_others_open(uint32_t cap)
{
	struct image *image[60], *held;
	const struct cfi *cfi;
	char name[16];
	int i;

	images_teardown();
	images_make(cap, NULL);
	for (i = 0; i < 60; i++) {
		snprintf(name, sizeof(name), "h%d", i + 1);
		image[i] = image_add(name);
	}
	held = image[0];
	cr_assert_eq(images_open_cfi(images, held, NOW), 0);
	cfi = held->cfi;
	images_hold(held);
	for (i = 1; i < 60; i++)
		cr_assert_eq(images_open_cfi(images, image[i], NOW + (uint64_t)i), 0);
	cr_assert_eq(held->cfi, cfi);
	cr_assert_not_null(held->elf);
	cr_expect_null(image[1]->cfi, "of others it was given back");
	images_fail(images, held, -EIO, NOW + 61);
	cr_assert_eq(held->cfi, cfi);
	images_release(images, held, NOW + 61);
	cr_expect_eq(held->state, IMAGE_FAILED);
	cr_expect_null(held->cfi);
	cr_expect_eq(held->problem, IMAGE_UNREADABLE);
}

/* Data of a held image stays while others are opened, until it is released. */
Test(images, held)
{
	fixture_run("for i in $(seq 60); do cp /bin/true h$i; done");
	held_while_others_open(64); /* too many tables */
	held_while_others_open(20); /* too many descriptors */
}

/* Files with a section for each function: the headers of those used last stay, of the others not. */
Test(images, very_many_sections)
{
	struct image *image[5];
	char name[16];
	size_t nr, i;

	fixture_run(
		"awk 'BEGIN { print \".globl f\\nf: ret\"; for (i = 0; i < 60000; i++)"
		"printf \".section .p%d,\\\"ax\\\"\\n.byte 1\\n\", i }' > a.S;"
		"gcc -c -o a.o a.S; ld -e f -s -o s0 a.o; for i in 1 2 3 4; do cp s0 s$i; done");
	for (i = 0; i < 5; i++) {
		snprintf(name, sizeof(name), "s%zu", i);
		image[i] = image_add(name);
		cr_assert_eq(images_open(images, image[i], NOW), 0);
		cr_assert(elf_image_sections(image[i]->elf, &nr) && nr > 60000);
		cr_assert_gt(elf_image_bytes(image[i]->elf), 60000 * 40);
	}
	cr_expect_eq(elf_image_bytes(image[0]->elf), 0);
	cr_expect_gt(elf_image_bytes(image[4]->elf), 0);
	/* They are read again when they are needed. */
	cr_assert_eq(images_open(images, image[0], NOW), 0);
	cr_assert_not_null(elf_image_section(image[0]->elf, ".p59999"));
}

Test(images, tried_again_later)
{
	struct bpfprof_vma vma;
	struct image *image;

	fixture_run("cp /bin/true aside");
	vma = image_vma_of("aside");
	vma.dev++; /* no file has this inode */
	image = image_add_at(&vma, "prog");
	cr_expect_eq(images_open(images, image, NOW), -EIO);
	cr_expect_eq(image->retry_ns, NOW + 5 * SECOND);
	vma.dev--;
	image->dev = vma.dev;
	fixture_run("mv aside prog");
	cr_expect_eq(images_open(images, image, NOW + 5 * SECOND - 1), -EIO);
	cr_expect_eq(images_nr_problem(images, IMAGE_GONE), 1, "counted once");
	cr_expect_eq(images_open(images, image, NOW + 5 * SECOND), 0);
	images_fail(images, image, -EIO, NOW);
	cr_expect_eq(images_nr_problem(images, IMAGE_UNREADABLE), 0, "counted before");
	cr_expect_eq(image->state, IMAGE_FAILED);
}

Test(images, too_many)
{
	struct bpfprof_vma vma = { .dev = 0x100001, .ino = 1 };

	while (images_add(images, &vma, "", 1) != BPFPROF_IMAGE_NONE)
		vma.ino++;
	cr_expect_gt(vma.ino, 4000);
	cr_expect_eq(images_nr_problem(images, IMAGE_TOO_MANY), 1);
	cr_expect_neq(images_add(images, &vma, "", 2), BPFPROF_IMAGE_NONE, "another tenant");
	vma.ino = 1;
	cr_expect_eq(images_add(images, &vma, "", 1), BPFPROF_IMAGE_FIRST_FILE);
	for (int i = IMAGE_FINE; i < IMAGE_NR_PROBLEMS; i++)
		cr_expect(image_problem_name((enum image_problem)i));
}

static bool none_is_used(void *arg, uint32_t id)
{
	(void)arg;
	(void)id;
	return false;
}

/* One tenant that meets new files for ever leaves ids to the others. */
Test(images, ids_are_shared, .timeout = 60)
{
	struct bpfprof_vma vma = { .dev = 0x100001, .ino = 1 };
	uint64_t now_ns = SECOND;
	uint32_t nr = 0;

	for (;; vma.ino++) {
		if (images_add(images, &vma, "", 1) != BPFPROF_IMAGE_NONE) {
			nr++;
			continue;
		}
		if (!images_nr_files(images))
			break;
		images_sweep(images, now_ns, now_ns, none_is_used, NULL, NULL);
	}
	cr_expect_leq(nr, IMAGES_MAX_IDS / 2);
	cr_expect_geq(nr, IMAGES_MAX_IDS / 2 - 8);
	vma.ino++;
	cr_expect_neq(images_add(images, &vma, "", 2), BPFPROF_IMAGE_NONE, "another tenant");
}

/* Takes room for a new file of the tenant. As the copies of memory, others give back what they have. */
static bool copy_take(uint64_t ino, uint32_t tenant, size_t bytes)
{
	const struct bpfprof_vma vma = { .dev = 0x100001, .ino = ino };
	struct image *image = images_get(images, images_add(images, &vma, "", tenant)), *victim;

	image->used_ns = ino;
	while (!images_copy_take(images, image, bytes)) {
		victim = copy_room_victim(images_copies(images), tenant, bytes);
		if (!victim)
			return false;
		images_copy_give(images, victim, victim->copy_used);
	}
	return true;
}

static uint64_t nr_copies_refused(const struct refusals *refusals, uint32_t tenant)
{
	const struct refused *row;

	hash_table_each(&refusals->rows, row)
		if (row->of.tenant == tenant && row->of.reason == REFUSAL_COPY)
			return row->count;
	return 0;
}

Test(images, copies_are_shared)
{
	struct refusals refusals;
	struct image *first;
	uint64_t ino;

	refusals_init(&refusals);
	images_set_refusals(images, &refusals);
	for (ino = 2; ino < 10; ino++)
		cr_assert(copy_take(ino, 1, 1 << 20));
	cr_expect_eq(refusals.rows.nr, 0);
	cr_expect_not(copy_take(ino++, 1, 1), "it has all");
	/* Other tenants take some of it. */
	cr_expect(copy_take(ino++, 2, 3 << 20));
	cr_expect_eq(nr_copies_refused(&refusals, 1), 3, "three made room");
	cr_expect_not(copy_take(ino++, 2, 2 << 20));
	cr_expect(copy_take(ino++, 3, 2 << 20));
	cr_expect_eq(nr_copies_refused(&refusals, 1), 3 + 2, "it still had most");
	cr_expect_eq(nr_copies_refused(&refusals, 2), 0);
	/* The files that were used longest ago made room. */
	first = images_get(images, BPFPROF_IMAGE_FIRST_FILE);
	cr_expect_eq(first->ino, 2);
	cr_expect_eq(first->copy_used, 0);
	images_copy_give(images, images_get(images, BPFPROF_IMAGE_FIRST_FILE + 7), 1 << 20);
	cr_expect(copy_take(ino++, 3, 1 << 20));
	images_set_refusals(images, NULL);
	refusals_fini(&refusals);
}

static bool is_even(void *arg, uint32_t id)
{
	(void)arg;
	return id % 2 == 0;
}

/*
 * A daemon forgets images that no process maps, so that there is room again; no id is given twice.
 */
Test(images, sweep)
{
	struct bpfprof_vma vma = { .dev = 1 };
	uint32_t first, last = 0, nr, id;

	vma.ino = 1;
	first = images_add(images, &vma, "/some/path", 1);
	do {
		vma.ino++;
		id = images_add(images, &vma, "/some/path", 1);
		last = id ? id : last;
	} while (id != BPFPROF_IMAGE_NONE);
	nr = images_nr_files(images);
	images_get(images, last)->used_ns = 2 * SECOND;
	images_get(images, last)->way = images_get(images, first)->way = IMAGE_WAY_LAYER;
	images_sweep(images, SECOND, SECOND, is_even, NULL, NULL);
	cr_expect_leq(images_nr_files(images), nr / 2 + 1);
	cr_expect_eq(images_get(images, first) == NULL, first % 2);
	cr_expect(images_get(images, last));
	cr_expect_eq(images_nr_way(images, IMAGE_WAY_LAYER), 2, "forgotten ones count");
	cr_expect_eq(images_add(images, &vma, "/x", 1), last + 1);
	cr_expect_str_eq(images_get(images, last + 1)->path, "/x");
	/* One that was forgotten is a new one. */
	vma.ino = first % 2 ? 1 : 2;
	cr_expect_eq(images_add(images, &vma, "/again", 1), last + 2);
	images_sweep(images, 3 * SECOND, SECOND, is_even, NULL, NULL);
	cr_expect(images_get(images, last), "closed, not forgotten");
	images_sweep(images, 3 * SECOND, 3 * SECOND, is_even, NULL, NULL);
	vma.ino = first % 2 ? 2 : 1;
	cr_expect_eq(images_add(images, &vma, "/x", 1), first + first % 2);
}
