// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/deadline.h"
#include "base/time.h"
#include "elf/image.h"
#include "proc/images.h"
#include "proc/origins.h"
#include "test_elf_fixture.h"

#define SECOND NS_PER_SECOND
#define NOW (1000 * SECOND)

/*
 * An overlay over a dead server, as far as this program sees it: these stand in
 * front of the C library's.
 */
static atomic_int fake_remote, hang_reads, fail_reads;
static sem_t read_gate;

ssize_t pread(int fd, void *buf, size_t len, off_t off)
{
	if (atomic_load(&fail_reads)) {
		errno = atomic_load(&fail_reads);
		return -1;
	}
	if (atomic_load(&hang_reads))
		while (sem_wait(&read_gate))
			;
	return syscall(SYS_pread64, fd, buf, len, off);
}

int fstatfs(int fd, struct statfs *ret)
{
	int err = (int)syscall(SYS_fstatfs, fd, ret);

	if (!err && atomic_load(&fake_remote))
		ret->f_type = OVERLAYFS_SUPER_MAGIC;
	return err;
}

static struct deadline_runner *runner;
static struct images *images;

static void images_make(uint32_t cap, const char *root)
{
	sem_init(&read_gate, 0, 0);
	if (!runner)
		cr_assert_eq(deadline_runner_new(&runner), 0);
	cr_assert_eq(images_new(&images, runner, root, cap), 0);
}

static void setup(void)
{
	images_make(64, NULL);
}

static void teardown(void)
{
	images_free(images);
	deadline_runner_free(runner);
	images = NULL;
	runner = NULL;
}

static uint32_t kernel_dev(dev_t dev)
{
	return major(dev) << 20 | minor(dev);
}

TestSuite(images, .init = setup, .fini = teardown);

/* What the kernel would say of a mapping of that file. */
static struct bpfprof_vma vma_of(const char *file)
{
	struct bpfprof_vma vma = { .start = 0x1000, .end = 0x2000 };
	uint32_t generation[2] = { 0 };
	char *path = fixture_path(file);
	struct stat st;
	int fd;

	cr_assert_eq(stat(path, &st), 0, "%s", path);
	vma.ino = st.st_ino;
	vma.dev = kernel_dev(st.st_dev);
	vma.size = (uint64_t)st.st_size;
	vma.mtime_sec = st.st_mtim.tv_sec;
	fd = S_ISREG(st.st_mode) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd >= 0 && !ioctl(fd, FS_IOC_GETVERSION, generation))
		vma.ino_gen = generation[0];
	if (fd >= 0)
		close(fd);
	free(path);
	return vma;
}

static struct image *add_at(const struct bpfprof_vma *vma, const char *file)
{
	char *path = fixture_path(file);
	uint32_t id = images_add(images, vma, path);

	free(path);
	return images_get(images, id);
}

static struct image *add(const char *file)
{
	struct bpfprof_vma vma = vma_of(file);

	return add_at(&vma, file);
}

/* On a file system that no mount of ours tells anything of. */
static struct image *add_remote(const char *file)
{
	struct bpfprof_vma vma = vma_of(file);

	vma.dev = 0xfff00001;
	return add_at(&vma, file);
}

static int nr_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	int nr = 0;

	cr_assert(dir);
	while ((entry = readdir(dir)))
		nr += entry->d_name[0] != '.';
	closedir(dir);
	return nr;
}

static bool can_open_by_inode(void)
{
	char room[sizeof(struct file_handle) + MAX_HANDLE_SZ];
	struct file_handle *handle = (struct file_handle *)room;
	int mount_id, fd, root;

	handle->handle_bytes = MAX_HANDLE_SZ;
	root = open(fixture_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (name_to_handle_at(root, "", handle, &mount_id, AT_EMPTY_PATH)) {
		close(root);
		return false;
	}
	fd = open_by_handle_at(root, handle, O_PATH | O_CLOEXEC);
	close(root);
	if (fd >= 0)
		close(fd);
	return fd >= 0 && handle->handle_type == 1; /* ext4 and others of its form */
}

Test(images, identity)
{
	struct bpfprof_vma file = { .ino = 10, .dev = 0x100001, .ino_gen = 1, .size = 5 };
	struct bpfprof_vma none = { 0 }, vdso = { .flags = BPFPROF_VMA_VDSO };
	struct bpfprof_vma later = file, other_dev = file, other_ino = file;
	uint32_t id = images_add(images, &file, "");

	later.ino_gen++;
	other_dev.dev++;
	other_ino.ino++;
	cr_expect_eq(images_add(images, &none, "//anon"), BPFPROF_IMAGE_NONE);
	cr_expect_eq(images_add(images, &vdso, ""), BPFPROF_IMAGE_VDSO);
	cr_expect_eq(id, BPFPROF_IMAGE_FIRST_FILE);
	cr_expect_str_eq(images_get(images, id)->path, "");
	/* The first path that is not empty stays. */
	cr_expect_eq(images_add(images, &file, "/usr/lib/x.so (deleted)"), id);
	cr_expect_eq(images_add(images, &file, "/elsewhere"), id);
	cr_expect_eq(images_add(images, &file, NULL), id);
	cr_expect_str_eq(images_get(images, id)->path, "/usr/lib/x.so");
	cr_expect_eq(images_add(images, &later, "/usr/lib/x.so"), id + 1);
	cr_expect_eq(images_add(images, &other_dev, NULL), id + 2);
	cr_expect_eq(images_add(images, &other_ino, NULL), id + 3);
	cr_expect_str_eq(images_get(images, id + 3)->path, "");
	cr_expect_eq(images_count(images), id + 4);
	cr_expect_null(images_get(images, id + 4));
	cr_expect_null(images_get(images, UINT32_MAX));
}

Test(images, opens)
{
	struct image *image;

	fixture_run("cp /bin/true prog");
	image = add("prog");
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
	image = add("bare.so"); /* its code can be read */
	cr_expect_eq(images_open_cfi(images, image, NOW), 0);
	cr_expect_not(image->no_cfi);
	image = add("data.so");
	cr_expect_eq(images_open_cfi(images, image, NOW), -ENODATA);
	cr_expect_eq(images_open_cfi(images, image, NOW), -ENODATA);
	cr_expect(image->state == IMAGE_OPEN && image->no_cfi);
}

/* Deleted, or another file in its place: had by inode while somebody still has it mapped. */
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
	image = add("replaced");
	cr_assert_eq(images_open(images, image, NOW), 0);
	cr_assert_gt(elf_image_build_id(image->elf, true_id), 0);
	teardown();
	setup();
	gone = vma_of("gone");
	replaced = vma_of("replaced");
	path = fixture_path("replaced");
	held = open(path, O_RDONLY | O_CLOEXEC);
	free(path);
	cr_assert_geq(held, 0);
	fixture_run("rm gone; mv new replaced; touch -r /bin/true replaced");
	cr_expect_eq(images_open(images, add_at(&gone, "gone"), NOW), -EIO);
	image = add_at(&replaced, "replaced (deleted)");
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
	vma = vma_of("prog");
	vma.mtime_sec++;
	cr_expect_eq(images_open(images, add_at(&vma, "prog"), NOW), -EIO);
	vma = vma_of("prog");
	vma.ino++;
	vma.size++;
	cr_expect_eq(images_open(images, add_at(&vma, "prog"), NOW), -EIO);
	cr_expect_eq(images_nr_problem(images, IMAGE_GONE), 2);
	vma = vma_of("prog");
	if (!vma.ino_gen) {
		puts("images: generations: skipped: this file system has none");
		return;
	}
	vma.ino_gen ^= 1;
	cr_expect_eq(images_open(images, add_at(&vma, "prog"), NOW), -EIO);
	cr_expect_eq(images_nr_problem(images, IMAGE_GONE), 3);
}

/* Another program was copied over it in place: the old id must not show the new one's names. */
Test(images, written_anew)
{
	struct image *image, *again;

	fixture_run("cp /bin/true prog");
	image = add("prog");
	cr_expect_eq(add("prog"), image);
	fixture_run("touch -d 2001-01-01 prog");
	cr_expect_eq(add("prog"), image, "nothing was taken from it so far");
	cr_assert_eq(images_open_cfi(images, image, NOW), 0);
	cr_expect_eq(add("prog"), image);
	fixture_run("cat /bin/false > prog");
	again = add("prog");
	cr_expect_neq(again->id, image->id);
	cr_expect_str_eq(again->path, image->path);
	cr_expect(image->state == IMAGE_FAILED && !image->elf && !image->cfi);
	cr_expect_eq(images_open(images, image, NOW + 1000 * SECOND), -EIO);
	cr_expect_eq(images_open(images, again, NOW), 0);
	cr_expect_eq(add("prog"), again);
}

/* Whatever lies there now: it is looked at, never opened, and nothing is waited for. */
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
		image = add_at(&vma, files[i]);
		cr_expect_eq(images_open(images, image, NOW), -EIO, "%s", files[i]);
		cr_expect_eq(image->problem, IMAGE_GONE, "%s: %s", files[i],
			     image_problem_name(image->problem));
	}
	/* Even if it is the very inode. */
	cr_expect_eq(images_open(images, add("fifo"), NOW), -EIO);
	cr_expect_eq(images_open(images, add("dir"), NOW), -EIO);
	cr_expect_eq(read(notify, event, sizeof(event)), -1, "the FIFO was opened");
	cr_expect_eq(images_nr_problem(images, IMAGE_GONE), i + 2);
	cr_expect_lt(time_monotonic_ns() - start, SECOND);
	cr_expect_eq(deadline_nr_stuck(runner), 0);
	close(notify);
}

/* Files that the kernel makes up are not read: some do things when they are. */
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
		image = add(cases[i].file);
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
	image = add("prog");
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
	teardown();
	images_make(4, NULL);
	before = nr_fds();
	for (i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "p%d", i + 1);
		image[i] = add(name);
	}
	for (i = 0; i < 20; i++) {
		cr_assert_eq(images_open_cfi(images, image[i], NOW + (uint64_t)i), 0);
		cr_expect_leq(nr_fds(), before + 4);
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
	cr_expect_eq(nr_fds(), before);
}

static void held_while_others_open(uint32_t cap)
{
	struct image *image[60], *held;
	const struct cfi *cfi;
	char name[16];
	int i;

	teardown();
	images_make(cap, NULL);
	for (i = 0; i < 60; i++) {
		snprintf(name, sizeof(name), "h%d", i + 1);
		image[i] = add(name);
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

/* What is read in one image stays while others are opened, until it is released. */
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
		image[i] = add(name);
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
	vma = vma_of("aside");
	vma.dev++; /* so that it cannot be had by inode */
	image = add_at(&vma, "prog");
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
	struct bpfprof_vma vma = { .dev = 0x100001 };

	for (vma.ino = 1; vma.ino <= IMAGES_MAX_FILES; vma.ino++)
		cr_assert_neq(images_add(images, &vma, ""), BPFPROF_IMAGE_NONE);
	cr_expect_eq(images_add(images, &vma, ""), BPFPROF_IMAGE_NONE);
	cr_expect_eq(images_nr_problem(images, IMAGE_TOO_MANY), 1);
	vma.ino = 1;
	cr_expect_eq(images_add(images, &vma, ""), BPFPROF_IMAGE_FIRST_FILE);
	for (int i = IMAGE_FINE; i < IMAGE_NR_PROBLEMS; i++)
		cr_expect(image_problem_name((enum image_problem)i));
}

/* Paths are the node's, not ours: absolute links stay below its root, dots do not leave it. */
static bool is_even(void *arg, uint32_t id)
{
	(void)arg;
	return id % 2 == 0;
}

/* For ever: what nobody maps is forgotten, and there is room again; ids are not given twice. */
Test(images, sweep)
{
	struct bpfprof_vma vma = { .dev = 1 };
	uint32_t first, last = 0;
	uint64_t i;

	vma.ino = 1;
	first = images_add(images, &vma, "/some/path");
	for (i = 2; i <= IMAGES_MAX_FILES; i++) {
		vma.ino = i;
		last = images_add(images, &vma, "/some/path");
	}
	vma.ino = i++;
	cr_expect_eq(images_add(images, &vma, "/x"), BPFPROF_IMAGE_NONE);
	images_get(images, last)->used_ns = 2 * SECOND;
	images_get(images, last)->way = images_get(images, first)->way = IMAGE_WAY_LAYER;
	images_sweep(images, SECOND, SECOND, is_even, NULL, NULL);
	cr_expect_eq(images_nr_files(images), IMAGES_MAX_FILES / 2 + last % 2);
	cr_expect_eq(images_get(images, first) == NULL, first % 2);
	cr_expect(images_get(images, last));
	cr_expect_eq(images_nr_way(images, IMAGE_WAY_LAYER), 2, "forgotten ones count");
	cr_expect_eq(images_add(images, &vma, "/x"), last + 1);
	cr_expect_str_eq(images_get(images, last + 1)->path, "/x");
	/* One that was forgotten is a new one. */
	vma.ino = first % 2 ? 1 : 2;
	cr_expect_eq(images_add(images, &vma, "/again"), last + 2);
	images_sweep(images, 3 * SECOND, SECOND, is_even, NULL, NULL);
	cr_expect(images_get(images, last), "closed, not forgotten");
	images_sweep(images, 3 * SECOND, 3 * SECOND, is_even, NULL, NULL);
	vma.ino = first % 2 ? 2 : 1;
	cr_expect_eq(images_add(images, &vma, "/x"), first + first % 2);
}

Test(images, host_root)
{
	struct bpfprof_vma vma;
	char *root;

	fixture_run(
		"mkdir -p root/usr/bin; cp /bin/true root/usr/bin/prog; ln -s /usr/bin root/bin;"
		"cp /bin/true outside");
	teardown();
	root = fixture_path("root");
	images_make(4, root);
	free(root);
	vma = vma_of("root/usr/bin/prog");
	cr_expect_eq(
		images_open(images, images_get(images, images_add(images, &vma, "/bin/prog")), NOW),
		0);
	vma = vma_of("outside");
	vma.dev++;
	cr_expect_eq(images_open(images,
				 images_get(images, images_add(images, &vma, "/../outside")), NOW),
		     -EIO);
}

/* The owner of a file can hold up whoever opens it for 45 s, but not us. */
static int open_owned(const char *path, uint64_t since_ns)
{
	struct elf_source source;
	int err = images_open_owned(images, 77, path, since_ns, &source);

	if (!err)
		source.close(source.arg);
	return err;
}

/* A file that a process of some user writes: whose it is, what it is, and since when. */
Test(images, owned)
{
	struct origin origin = { .pid = 77 };
	char *path, *link, *name;
	struct timespec boot;
	uint64_t now_ns;

	fixture_write("map", "1000 10 f\n");
	path = fixture_path("map");
	link = fixture_path("map-link");
	name = fixture_path("map-name");
	origin.told.uid = getuid();
	origin.told.flags = BPFPROF_ORIGIN_OUR_MOUNTS | BPFPROF_ORIGIN_OUR_ROOT;
	origins_set(images_origins(images), &origin);
	clock_gettime(CLOCK_BOOTTIME, &boot);
	now_ns = (uint64_t)boot.tv_sec * NS_PER_SECOND;
	cr_expect_eq(open_owned(path, 0), 0);
	cr_expect_eq(open_owned(path, now_ns), 0, "made a moment ago");
	cr_expect_eq(open_owned(path, now_ns + 60 * NS_PER_SECOND), -EKEYEXPIRED);
	cr_expect_eq(open_owned("/proc", 0), -EPERM, "a folder");
	cr_expect_eq(open_owned("/nonexistent", 0), -ENOENT);
	cr_assert_eq(symlink(path, link), 0);
	cr_expect_eq(open_owned(link, 0), -EPERM, "a link");
	cr_assert_eq(linkat(AT_FDCWD, path, AT_FDCWD, name, 0), 0);
	cr_expect_eq(open_owned(path, 0), -EPERM, "has a second name");
	cr_expect_eq(open_owned(name, 0), -EPERM);
	unlink(name);
	cr_expect_eq(open_owned(path, 0), 0);
	origin.told.uid = getuid() + 1;
	origins_set(images_origins(images), &origin);
	cr_expect_eq(open_owned(path, 0), getuid() ? -EPERM : 0, "root's counts for everybody");
	if (!getuid()) {
		cr_assert_eq(chown(path, 12345, 12345), 0);
		cr_expect_eq(open_owned(path, 0), -EPERM);
	}
	unlink(link);
	unlink(path);
	free(path);
	free(link);
	free(name);
}

/* Of a process whose root is a folder of ours, and only as long as it is that folder. */
Test(images, owned_below_a_root)
{
	struct origin origin = { .pid = 77 };
	char *root = fixture_path(""), *path;
	struct stat st;

	fixture_write("map", "1000 10 f\n");
	path = fixture_path("map");
	cr_assert_eq(stat(root, &st), 0);
	origin.told.uid = getuid();
	origin.told.root_ino = st.st_ino;
	origin.told.root_dev = kernel_dev(st.st_dev);
	origin.told.flags = BPFPROF_ORIGIN_OUR_MOUNTS;
	origin.root = root;
	origins_set(images_origins(images), &origin);
	cr_expect_eq(open_owned("/map", 0), 0);
	cr_expect_neq(open_owned(path, 0), 0);
	origin.told.root_ino++;
	origins_set(images_origins(images), &origin);
	cr_expect_eq(open_owned("/map", 0), -ESTALE);
	origin.told.root_ino--;
	origin.told.root_dev++; /* the same number in another file system */
	origins_set(images_origins(images), &origin);
	cr_expect_eq(open_owned("/map", 0), -ESTALE);
	unlink(path);
	free(path);
	free(root);
}

#define NO_PID 4194305 /* higher than pids go */

/* What a folder holds is asked of the process that names it, and kept. */
Test(images, look)
{
	struct origin origin = { .pid = NO_PID, .mnt_ns = 1 };
	char *folder = fixture_path("package"), *init = fixture_path("package/__init__.py");
	struct stat st;

	cr_assert_eq(mkdir(folder, 0755), 0);
	cr_expect_lt(images_scan(images, NO_PID, folder, "__init__.py"), 0,
		     "nothing is known of it");
	origin.told.flags = BPFPROF_ORIGIN_OUR_MOUNTS | BPFPROF_ORIGIN_OUR_ROOT;
	origins_set(images_origins(images), &origin);
	cr_expect_eq(images_scan(images, NO_PID, folder, "__init__.py"), 0);
	cr_expect_lt(images_scan(images, NO_PID, "/nonexistent/package", "__init__.py"), 0);
	cr_expect_lt(images_scan(images, NO_PID, "package", "__init__.py"), 0, "relative to what?");
	fixture_write("package/__init__.py", "");
	cr_expect_eq(images_scan(images, NO_PID, folder, "__init__.py"), 0, "as it was found");
	origin.mnt_ns = 2; /* another's files */
	origins_set(images_origins(images), &origin);
	cr_expect_eq(images_scan(images, NO_PID, folder, "__init__.py"), 1);
	/* One of another mount namespace that is gone: its files are not ours of that name. */
	origin.mnt_ns = 3;
	origin.told.flags = 0;
	origins_set(images_origins(images), &origin);
	cr_expect_lt(images_scan(images, NO_PID, folder, "__init__.py"), 0);
	/* Below a root of its own. */
	cr_assert_eq(stat(fixture_dir(), &st), 0);
	origin.root = (char *)fixture_dir();
	origin.told.root_ino = st.st_ino;
	origin.told.root_dev = kernel_dev(st.st_dev);
	origins_set(images_origins(images), &origin);
	origin.mnt_ns = 4;
	origins_set(images_origins(images), &origin);
	cr_expect_eq(images_scan(images, NO_PID, "/package", "__init__.py"), 1);
	unlink(init);
	rmdir(folder);
	free(init);
	free(folder);
}

/* Memory that looks like a file and holds no ELF file is code, not a problem; a file on a disk is one. */
Test(images, made_code)
{
	struct bpfprof_vma vma;
	struct image *image;

	fixture_write("code", "no ELF file");
	vma = vma_of("code");
	image = add_at(&vma, "code");
	cr_assert_eq(images_open(images, image, 0), -EIO);
	cr_expect_not(image_is_made_code(image));
	cr_expect_eq(images_nr_problem(images, IMAGE_NOT_ELF), 1);
	vma.flags = BPFPROF_VMA_MEMORY;
	vma.ino_gen++;
	image = add_at(&vma, "code");
	images_fail(images, image, -ENOENT, 0);
	cr_expect_eq(images_nr_problem(images, IMAGE_GONE), 1);
	cr_expect_not(image_is_made_code(image), "not known yet");
	images_fail(images, image, -ENOEXEC, 0);
	cr_expect(image_is_made_code(image));
	cr_expect_eq(images_nr_problem(images, IMAGE_GONE), 0);
	cr_expect_eq(images_nr_problem(images, IMAGE_NOT_ELF), 1);
	vma.size++; /* it may be another one now */
	cr_expect_eq(add_at(&vma, "code"), image);
	cr_expect_not(image_is_made_code(image));
}

Test(images, leased)
{
	uint64_t start;
	struct image *image;
	char *path;
	int ready[2], fd;
	char byte = 0;
	pid_t pid;

	fixture_run("cp /bin/true prog");
	image = add("prog");
	path = fixture_path("prog");
	cr_assert_eq(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		signal(SIGIO, SIG_IGN);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		byte = fcntl(fd, F_SETLEASE, F_WRLCK) ? 'n' : 'y';
		if (write(ready[1], &byte, 1) == 1)
			pause();
		_exit(0);
	}
	free(path);
	cr_assert_eq(read(ready[0], &byte, 1), 1);
	if (byte == 'y') {
		start = time_monotonic_ns();
		cr_expect_eq(images_open(images, image, NOW), -EIO);
		cr_expect_lt(time_monotonic_ns() - start, SECOND / 10);
		cr_expect_eq(image->problem, IMAGE_UNREADABLE, "its file system does not block");
		cr_expect_eq(deadline_nr_stuck(runner), 0);
	} else {
		puts("images: leases: skipped: this file system has none");
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(ready[0]);
	close(ready[1]);
}

static void wait_unstuck(void)
{
	for (int i = 0; i < 5000 && deadline_nr_stuck(runner); i++)
		usleep(1000);
	cr_assert_eq(deadline_nr_stuck(runner), 0);
}

/* One dead server: one thread hangs, nothing else waits, and it is used again when it is back. */
Test(images, reads_hang)
{
	struct image *image, *second;
	uint64_t start;
	int before;

	fixture_run("cp /bin/true prog; cp /bin/false second");
	image = add_remote("prog");
	second = add_remote("second");
	before = nr_fds();
	atomic_store(&fake_remote, 1);
	atomic_store(&hang_reads, 1);
	start = time_monotonic_ns();
	cr_expect_eq(images_open(images, image, NOW), -EIO);
	cr_expect_lt(time_monotonic_ns() - start, 5 * SECOND);
	cr_expect_eq(image->problem, IMAGE_BLOCKED);
	cr_expect_eq(deadline_nr_stuck(runner), 1);
	start = time_monotonic_ns();
	cr_expect_eq(images_open(images, second, NOW), -EIO);
	cr_expect_eq(images_open(images, image, NOW + 100 * SECOND), -EIO);
	cr_expect_eq(images_open(images, second, NOW + 1000 * SECOND), -EIO);
	cr_expect_lt(time_monotonic_ns() - start, SECOND / 10);
	cr_expect_eq(deadline_nr_stuck(runner), 1, "the same server holds more than one thread");
	cr_expect_eq(images_nr_problem(images, IMAGE_BLOCKED), 2);
	atomic_store(&hang_reads, 0);
	sem_post(&read_gate);
	wait_unstuck();
	cr_expect_eq(nr_fds(), before, "the file was not closed");
	cr_expect_eq(images_open(images, second, NOW + 1 * SECOND), -EIO, "left alone for 10 s");
	cr_expect_eq(images_open(images, second, NOW + 10 * SECOND), 0);
	cr_expect_eq(images_open_cfi(images, image, NOW + 200 * SECOND), 0);
}

/* It was fine when it was opened, and hangs later. */
Test(images, later_reads_hang)
{
	struct image *image;
	int before;

	fixture_run("cp /bin/true prog");
	image = add_remote("prog");
	before = nr_fds();
	atomic_store(&fake_remote, 1);
	cr_assert_eq(images_open(images, image, NOW), 0);
	elf_image_drop_cache(image->elf);
	atomic_store(&hang_reads, 1);
	cr_expect_eq(images_open_cfi(images, image, NOW), -EIO);
	cr_expect_eq(image->problem, IMAGE_BLOCKED, "%s", image_problem_name(image->problem));
	cr_expect_eq(image->state, IMAGE_FAILED);
	atomic_store(&hang_reads, 0);
	sem_post(&read_gate);
	wait_unstuck();
	cr_expect_eq(nr_fds(), before);
}

/* A server's own errors are not taken for our deadline: what is open is closed. */
Test(images, reads_fail)
{
	static const int errors[] = { ETIMEDOUT, EIO, ESTALE, EBUSY };
	struct image *image;
	int before;

	fixture_run("cp /bin/true prog");
	image = add_remote("prog");
	before = nr_fds();
	atomic_store(&fake_remote, 1);
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		atomic_store(&fail_reads, errors[i]);
		cr_expect_eq(images_open(images, image, NOW + i * 100 * SECOND), -EIO);
		cr_expect_eq(nr_fds(), before, "%s", strerror(errors[i]));
	}
	cr_expect_eq(deadline_nr_stuck(runner), 0);
	atomic_store(&fail_reads, 0);
	cr_expect_eq(images_open(images, image, NOW + 1000 * SECOND), 0);
}
