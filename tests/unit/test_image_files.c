// SPDX-License-Identifier: Apache-2.0
/* Images below the root of a host, of other owners, of code made at run time, and files that do not answer. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/background.h"
#include "base/deadline.h"
#include "base/time.h"
#include "elf/image.h"
#include "proc/images.h"
#include "proc/origins.h"
#include "test_elf_fixture.h"
#include "images_made.h"

/* Paths are the node's, not ours: absolute links stay below its root, dots do not leave it. */
Test(images, host_root)
{
	struct bpfprof_vma vma;
	char *root;

	fixture_run(
		"mkdir -p root/usr/bin; cp /bin/true root/usr/bin/prog; ln -s /usr/bin root/bin;"
		"cp /bin/true outside");
	images_teardown();
	root = fixture_path("root");
	images_make(4, root);
	free(root);
	vma = image_vma_of("root/usr/bin/prog");
	cr_expect_eq(images_open(images,
				 images_get(images, images_add(images, &vma, "/bin/prog", 1)), NOW),
		     0);
	vma = image_vma_of("outside");
	vma.dev++;
	cr_expect_eq(images_open(images,
				 images_get(images, images_add(images, &vma, "/../outside", 1)),
				 NOW),
		     -EIO);
}

/* The owner of a file can block an open for 45 s, but not that of bpfprof. */
static int open_owned(const char *path, uint64_t since_ns)
{
	struct elf_source source;
	int err = images_open_owned(images, 77, path, since_ns, &source);

	if (!err)
		source.close(source.arg);
	return err;
}

/* A file that a process of some user writes: its owner, its type, and its age are checked. */
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
	origin.facts.uid = getuid();
	origin.facts.flags = BPFPROF_ORIGIN_OUR_MOUNTS | BPFPROF_ORIGIN_OUR_ROOT;
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
	origin.facts.uid = getuid() + 1;
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

/* A process has a folder of ours as its root. Its files count only as long as it is that folder. */
Test(images, owned_below_a_root)
{
	struct origin origin = { .pid = 77 };
	char *root = fixture_path(""), *path;
	struct stat st;

	fixture_write("map", "1000 10 f\n");
	path = fixture_path("map");
	cr_assert_eq(stat(root, &st), 0);
	origin.facts.uid = getuid();
	origin.facts.root_ino = st.st_ino;
	origin.facts.root_dev = image_kernel_dev(st.st_dev);
	origin.facts.flags = BPFPROF_ORIGIN_OUR_MOUNTS;
	origin.root = root;
	origins_set(images_origins(images), &origin);
	cr_expect_eq(open_owned("/map", 0), 0);
	cr_expect_neq(open_owned(path, 0), 0);
	origin.facts.root_ino++;
	origins_set(images_origins(images), &origin);
	cr_expect_eq(open_owned("/map", 0), -ESTALE);
	origin.facts.root_ino--;
	origin.facts.root_dev++; /* the same number in another file system */
	origins_set(images_origins(images), &origin);
	cr_expect_eq(open_owned("/map", 0), -ESTALE);
	unlink(path);
	free(path);
	free(root);
}

#define NO_PID 4194305 /* higher than pids go */

/* The content of a folder is read through the process that names it, and cached. */
Test(images, look)
{
	struct origin origin = { .pid = NO_PID, .mnt_ns = 1 };
	char *folder = fixture_path("package"), *init = fixture_path("package/__init__.py");
	struct stat st;

	cr_assert_eq(mkdir(folder, 0755), 0);
	cr_expect_lt(images_scan(images, NO_PID, folder, "__init__.py"), 0,
		     "nothing is known of it");
	origin.facts.flags = BPFPROF_ORIGIN_OUR_MOUNTS | BPFPROF_ORIGIN_OUR_ROOT;
	origins_set(images_origins(images), &origin);
	cr_expect_eq(images_scan(images, NO_PID, folder, "__init__.py"), 0);
	cr_expect_lt(images_scan(images, NO_PID, "/nonexistent/package", "__init__.py"), 0);
	cr_expect_lt(images_scan(images, NO_PID, "package", "__init__.py"), 0, "relative to what?");
	fixture_write("package/__init__.py", "");
	cr_expect_eq(images_scan(images, NO_PID, folder, "__init__.py"), 0, "as it was found");
	origin.mnt_ns = 2; /* another's files */
	origins_set(images_origins(images), &origin);
	cr_expect_eq(images_scan(images, NO_PID, folder, "__init__.py"), 1);
	/*
	 * A process of another mount namespace has ended: our files of the same name are not its
	 * files.
	 */
	origin.mnt_ns = 3;
	origin.facts.flags = 0;
	origins_set(images_origins(images), &origin);
	cr_expect_lt(images_scan(images, NO_PID, folder, "__init__.py"), 0);
	/* Below a root of its own. */
	cr_assert_eq(stat(fixture_dir(), &st), 0);
	origin.root = (char *)fixture_dir();
	origin.facts.root_ino = st.st_ino;
	origin.facts.root_dev = image_kernel_dev(st.st_dev);
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
	vma = image_vma_of("code");
	image = image_add_at(&vma, "code");
	cr_assert_eq(images_open(images, image, 0), -EIO);
	cr_expect_not(image_is_made_code(image));
	cr_expect_eq(images_nr_problem(images, IMAGE_NOT_ELF), 1);
	vma.flags = BPFPROF_VMA_MEMORY;
	vma.ino_gen++;
	image = image_add_at(&vma, "code");
	images_fail(images, image, -ENOENT, 0);
	cr_expect_eq(images_nr_problem(images, IMAGE_GONE), 1);
	cr_expect_not(image_is_made_code(image), "not known yet");
	images_fail(images, image, -ENOEXEC, 0);
	cr_expect(image_is_made_code(image));
	cr_expect_eq(images_nr_problem(images, IMAGE_GONE), 0);
	cr_expect_eq(images_nr_problem(images, IMAGE_NOT_ELF), 1);
	vma.size++; /* it may be another file now */
	cr_expect_eq(image_add_at(&vma, "code"), image);
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
	image = image_add("prog");
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
	image = image_add_remote("prog");
	second = image_add_remote("second");
	before = image_nr_fds();
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
	cr_expect_eq(image_nr_fds(), before, "the file was not closed");
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
	image = image_add_remote("prog");
	before = image_nr_fds();
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
	cr_expect_eq(image_nr_fds(), before);
}

/* A server's own errors are not taken for our deadline: what is open is closed. */
Test(images, reads_fail)
{
	static const int errors[] = { ETIMEDOUT, EIO, ESTALE, EBUSY };
	struct image *image;
	int before;

	fixture_run("cp /bin/true prog");
	image = image_add_remote("prog");
	before = image_nr_fds();
	atomic_store(&fake_remote, 1);
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		atomic_store(&fail_reads, errors[i]);
		cr_expect_eq(images_open(images, image, NOW + i * 100 * SECOND), -EIO);
		deadline_close_all(runner);
		cr_expect_eq(image_nr_fds(), before, "%s", strerror(errors[i]));
	}
	cr_expect_eq(deadline_nr_stuck(runner), 0);
	atomic_store(&fail_reads, 0);
	cr_expect_eq(images_open(images, image, NOW + 1000 * SECOND), 0);
}

static struct background *background;
static struct image *long_image, *bare_image;
static int long_results[3];

/* Opens the tables of a file, and a second file, once the job has taken too long. */
static void long_job(void *arg, const void *data, size_t bytes, bool late)
{
	(void)arg;
	(void)data;
	(void)bytes;
	(void)late;
	background_wait_begin();
	usleep(BACKGROUND_OVER_NS / 1000 + 50000);
	background_wait_end();
	long_results[0] = images_open_cfi(images, long_image, NOW);
	long_results[1] = images_open(images, image_add("second"), NOW);
	long_results[2] = images_open_cfi(images, bare_image, NOW);
}

/* A job that takes too long reads no more, but its file system does not count as hung, and files are soon tried again. */
Test(images, long_jobs_block_no_file_system, .timeout = 60)
{
	const struct background_job job = { .fn = long_job };

	fixture_run("cp /bin/true first; cp /bin/true second; cp /bin/true third;"
		    "echo 'int x = 1;' > x.c; gcc -shared -nostdlib -o data.so x.c");
	atomic_store(&fake_remote, 1);
	bare_image = image_add("data.so");
	cr_assert_eq(images_open(images, bare_image, NOW), 0);
	long_image = image_add("first");
	cr_assert_eq(images_open(images, long_image, NOW), 0);
	cr_assert_eq(background_new(&background, NULL, 1), 0);
	cr_assert_eq(background_post(background, &job), 0);
	cr_assert(background_finish(background, 20000));
	cr_expect_eq(long_results[0], -EIO);
	cr_expect_eq(long_results[1], -EIO);
	cr_expect_eq(long_results[2], -EIO, "not -ENODATA, which would be for ever");
	background_pause(background);
	cr_expect_eq(images_open(images, image_add("third"), NOW), 0);
	cr_expect_eq(images_open_cfi(images, long_image, NOW + SECOND / 4), 0);
	cr_expect_eq(images_open(images, image_add("second"), NOW + SECOND / 4), 0);
	cr_expect_eq(images_open_cfi(images, bare_image, NOW + SECOND / 4), -ENODATA);
	background_free(background);
}
