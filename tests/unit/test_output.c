// SPDX-License-Identifier: Apache-2.0
#include "formats/output.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/strtab.h"
#include "made_profile.h"

static char folder[] = "/tmp/bpfprof-test-XXXXXX";
static const struct output_options no_options;

static void setup(void)
{
	cr_assert(mkdtemp(folder));
	cr_assert(!chdir(folder));
	umask(022);
}

static void teardown(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf %s", folder);
	free(made_run(command, NULL, 0, NULL));
}

TestSuite(output, .init = setup, .fini = teardown, .timeout = 120);

/* Entries of a folder, hidden ones too. */
static size_t count_entries(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	size_t nr = 0;

	cr_assert(dir);
	while ((entry = readdir(dir)))
		nr += strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..");
	closedir(dir);
	return nr;
}

static void expect_file(const char *path, const char *want)
{
	char *have = made_read(path, NULL);

	cr_expect(have, "no %s", path);
	cr_expect_str_eq(have ? have : "", want, "%s holds %s", path, have);
	free(have);
}

Test(output, formats)
{
	static const struct {
		const char *path;
		enum output_format format;
	} cases[] = {
		{ "x.pb.gz", OUTPUT_PPROF },
		{ "a/b.folded", OUTPUT_FOLDED },
		{ "x.html", OUTPUT_HTML },
		{ "x.svg", OUTPUT_SVG },
		{ "x.speedscope.json", OUTPUT_SPEEDSCOPE },
		{ "x.y.raw", OUTPUT_RAW },
		{ "x.json", OUTPUT_INVALID },
		{ "x.gz", OUTPUT_INVALID },
		{ "html", OUTPUT_INVALID },
		{ ".html", OUTPUT_INVALID },
		{ "", OUTPUT_INVALID },
	};
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cr_expect_eq(output_format_by_path(cases[i].path), cases[i].format, "%s",
			     cases[i].path);
	cr_expect_eq(output_format_by_name("pprof"), OUTPUT_PPROF);
	cr_expect_eq(output_format_by_name("speedscope"), OUTPUT_SPEEDSCOPE);
	cr_expect_eq(output_format_by_name("raw"), OUTPUT_RAW);
	cr_expect_eq(output_format_by_name("RAW"), OUTPUT_INVALID);
	cr_expect_eq(output_format_by_name(""), OUTPUT_INVALID);
}

Test(output, expand_path)
{
	static const struct {
		const char *pattern;
		int err;
		const char *want;
	} cases[] = {
		{ "plain.html", 0, "plain.html" },
		{ "d/%h-%p-%t.folded", 0, "d/node-1-42-20240131T120000Z.folded" },
		{ "%w.html", 0, "__a_b.html" },
		{ "100%%.html", 0, "100%.html" },
		{ "%{BPFPROF_TEST}/%{BPFPROF_TEST}", 0, "x_y/x_y" },
		{ "%{BPFPROF_TEST_DOTS}/x", 0, "_./x" },
		{ "%{BPFPROF_TEST_UNSET}", -ENOENT, NULL },
		{ "%x", -EINVAL, NULL },
		{ "%", -EINVAL, NULL },
		{ "%{}", -EINVAL, NULL },
		{ "%{OPEN", -EINVAL, NULL },
	};
	const struct output_names names = { .host = "node-1",
					    .pid = 42,
					    .time_ns = 1706702400ULL * 1000000000,
					    .worker = "./a\nb" };
	struct buf path;
	size_t i;

	setenv("BPFPROF_TEST", "x/y", 1);
	setenv("BPFPROF_TEST_DOTS", "..", 1);
	buf_init(&path, PATH_MAX);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		buf_reset(&path);
		buf_add_str(&path, "");
		cr_expect_eq(output_expand_path(&path, cases[i].pattern, &names), cases[i].err,
			     "%s", cases[i].pattern);
		cr_expect_str_eq(path.data, cases[i].want ? cases[i].want : "", "%s gave %s",
				 cases[i].pattern, path.data);
	}
	buf_fini(&path);
}

Test(output, path_insert)
{
	static const char *const cases[][2] = {
		{ "x.pb.gz", "x.cuda.pb.gz" },
		{ "d.html/x", "d.html/x.cuda" },
		{ "a.b.speedscope.json", "a.b.cuda.speedscope.json" },
		{ "%{N}.svg", "%{N}.cuda.svg" },
		{ ".html", ".html.cuda" },
		{ "x.raw.txt", "x.raw.txt.cuda" },
	};
	struct buf path;

	buf_init(&path, PATH_MAX);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		buf_reset(&path);
		output_path_insert(&path, cases[i][0], ".cuda");
		cr_expect_str_eq(path.data, cases[i][1]);
	}
	buf_fini(&path);
}

Test(output, expand_path_is_bounded)
{
	const struct output_names names = { .host = "h" };
	static char pattern[2 * PATH_MAX];
	struct buf path;

	memset(pattern, 'x', sizeof(pattern) - 1);
	buf_init(&path, 1 << 20);
	cr_assert_eq(output_expand_path(&path, pattern, &names), -ENAMETOOLONG);
	cr_assert_eq(path.len, 0);
	buf_fini(&path);
}

Test(output, writes_what_the_writer_writes)
{
	struct profile *profile = made_golden();
	char *want = made_text(folded_write, profile, NULL, NULL);

	cr_assert_eq(output_write("deep/er/x.folded", OUTPUT_FOLDED, profile, &no_options), 0);
	expect_file("deep/er/x.folded", want);
	cr_assert_eq(count_entries("deep/er"), 1);
	cr_assert_eq(output_write("y", OUTPUT_INVALID, profile, &no_options), -EINVAL);
	cr_assert_eq(count_entries("."), 1);
	free(want);
	made_free(profile);
}

Test(output, permissions)
{
	struct stat st;

	umask(027);
	cr_assert_eq(output_write_bytes("new", "x", 1), 0);
	cr_assert(!stat("new", &st));
	cr_assert_eq(st.st_mode & 07777, 0640);
	/* Made private by its owner: stays so. */
	cr_assert(!chmod("new", 0600));
	cr_assert_eq(output_write_bytes("new", "yz", 2), 0);
	cr_assert(!stat("new", &st));
	cr_assert_eq(st.st_mode & 07777, 0600);
	expect_file("new", "yz");
}

Test(output, longest_name)
{
	char name[NAME_MAX + 2];

	memset(name, 'n', sizeof(name));
	name[NAME_MAX] = 0;
	cr_assert_eq(output_write_bytes(name, "x", 1), 0);
	name[NAME_MAX] = 'n';
	name[NAME_MAX + 1] = 0;
	cr_assert_eq(output_write_bytes(name, "x", 1), -ENAMETOOLONG);
	cr_assert_eq(count_entries("."), 1);
}

Test(output, refused_paths)
{
	cr_assert(!mkdir("folder", 0755));
	cr_assert_eq(output_write_bytes("file", "x", 1), 0);
	cr_assert_eq(output_write_bytes("folder", "x", 1), -EISDIR);
	cr_assert_eq(output_write_bytes("folder/", "x", 1), -EISDIR);
	cr_assert_eq(output_write_bytes("", "x", 1), -ENOENT);
	cr_assert_eq(output_write_bytes("file/x", "x", 1), -ENOTDIR);
	cr_assert_eq(output_check("folder"), -EISDIR);
	cr_assert_eq(output_check(""), -ENOENT);
	cr_assert_eq(output_check("file/x"), -ENOTDIR);
	cr_assert_eq(output_check("/proc/no/such.html"), -ENOENT);
	cr_assert_eq(count_entries("folder"), 0);
	cr_assert_eq(count_entries("."), 2);
}

Test(output, unwritable_folder)
{
	if (!geteuid())
		cr_assert(!chmod(folder, 0755) && !seteuid(65534));
	else
		cr_assert(!chmod(folder, 0555));
	cr_expect_eq(output_write_bytes("x.html", "x", 1), -EACCES);
	cr_expect_eq(output_check("x.html"), -EACCES);
	cr_expect_eq(output_check("sub/x.html"), -EACCES);
	if (!getuid())
		cr_assert(!seteuid(0));
	else
		cr_assert(!chmod(folder, 0755));
	cr_assert_eq(count_entries("."), 0);
}

Test(output, check_leaves_nothing)
{
	struct profile *profile = made_golden();

	cr_assert_eq(output_check("x.html"), 0);
	cr_assert_eq(count_entries("."), 0);
	cr_assert_eq(output_check("sub/x.html"), 0);
	cr_assert_eq(count_entries("sub"), 0);
	cr_assert_eq(output_check("-"), 0);
	cr_assert_eq(output_write_bytes("x.html", "old", 3), 0);
	cr_assert_eq(output_check("x.html"), 0);
	expect_file("x.html", "old");
	cr_assert_eq(count_entries("."), 2);
	made_free(profile);
}

/* RLIMIT_FSIZE is a disk that is full at some byte. */
Test(output, full_disk_leaves_the_old_file)
{
	const struct rlimit small = { 100, RLIM_INFINITY }, none = { RLIM_INFINITY, RLIM_INFINITY };
	struct profile *profile = made_golden();
	enum output_format format;

	signal(SIGXFSZ, SIG_IGN);
	cr_assert_eq(output_write_bytes("old.html", "old", 3), 0);
	for (format = OUTPUT_PPROF; format <= OUTPUT_RAW; format++) {
		cr_assert(!setrlimit(RLIMIT_FSIZE, &small));
		cr_expect_eq(output_write("new", format, profile, &no_options), -EFBIG, "format %d",
			     format);
		cr_expect_eq(output_write("old.html", format, profile, &no_options), -EFBIG);
		cr_assert(!setrlimit(RLIMIT_FSIZE, &none));
		cr_expect_eq(count_entries("."), 1, "format %d", format);
		expect_file("old.html", "old");
	}
	made_free(profile);
}

Test(output, full_file_system)
{
	struct profile *profile = made_golden();
	size_t nr;

	cr_assert(!mkdir("small", 0755));
	if (mount("none", "small", "tmpfs", 0, "size=8k"))
		cr_skip_test("may not mount a tmpfs");
	cr_expect_eq(output_write("small/x.html", OUTPUT_HTML, profile, &no_options), -ENOSPC);
	nr = count_entries("small");
	cr_expect_eq(output_write("small/x.folded", OUTPUT_FOLDED, profile, &no_options), 0);
	umount("small");
	cr_assert_eq(nr, 0);
	made_free(profile);
}

/*
 * A device of our own where we may make one: written by a broken program as
 * root, the system's own would be gone.
 */
static const char *device(const char *name, const char *system, unsigned int minor)
{
	if (geteuid())
		return system;
	if (mknod(name, S_IFCHR | 0666, makedev(1, minor)) || access(name, W_OK))
		cr_skip_test("may not make devices here");
	return name;
}

Test(output, devices)
{
	const char *full = device("full", "/dev/full", 7), *null = device("null", "/dev/null", 3);
	struct profile *profile = made_golden();
	struct stat st;

	cr_assert_eq(output_write(full, OUTPUT_HTML, profile, &no_options), -ENOSPC);
	cr_assert_eq(output_write(full, OUTPUT_RAW, profile, &no_options), -ENOSPC);
	cr_assert_eq(output_write(null, OUTPUT_HTML, profile, &no_options), 0);
	cr_assert_eq(output_check(null), 0);
	cr_assert(!stat(null, &st) && S_ISCHR(st.st_mode));
	cr_assert(!stat(full, &st) && S_ISCHR(st.st_mode));
	/* By way of a link as well. */
	cr_assert(!symlink(null, "link"));
	cr_assert_eq(output_write_bytes("link", "x", 1), 0);
	cr_assert(!lstat("link", &st) && S_ISLNK(st.st_mode));
	made_free(profile);
}

static void *read_fifo(void *arg)
{
	(void)arg;
	return made_read("fifo", NULL);
}

Test(output, fifo)
{
	struct profile *profile = made_golden();
	char *want = made_text(folded_write, profile, NULL, NULL);
	pthread_t reader;
	struct stat st;
	void *have;

	cr_assert(!mkfifo("fifo", 0600));
	cr_assert_eq(output_check("fifo"), 0, "waits for no reader");
	cr_assert(!pthread_create(&reader, NULL, read_fifo, NULL));
	cr_assert_eq(output_write("fifo", OUTPUT_FOLDED, profile, &no_options), 0);
	cr_assert(!pthread_join(reader, &have));
	cr_assert_str_eq(have, want);
	cr_assert(!stat("fifo", &st) && S_ISFIFO(st.st_mode));
	cr_assert_eq(count_entries("."), 1);
	free(have);
	free(want);
	made_free(profile);
}

/* Standard output may be a file: it is written on, not replaced. */
Test(output, standard_output)
{
	static const char *const names[] = { "-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1" };
	int saved = dup(STDOUT_FILENO), fd;
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		fd = open("out", O_RDWR | O_CREAT | O_TRUNC, 0644);
		fflush(stdout);
		dup2(fd, STDOUT_FILENO);
		printf("before ");
		/* If this fails, /dev/stdout must survive. */
		cr_assert(geteuid() || !seteuid(65534));
		cr_expect_eq(output_check(names[i]), 0);
		cr_expect_eq(output_write_bytes(names[i], "middle", 6), 0);
		cr_assert(getuid() || !seteuid(0));
		printf(" after");
		fflush(stdout);
		dup2(saved, STDOUT_FILENO);
		close(fd);
		expect_file("out", "before middle after");
		cr_expect_eq(count_entries("."), 1);
	}
	close(saved);
	cr_assert_eq(output_write_bytes("/dev/fd/987", "x", 1), -EBADF);
	cr_assert_eq(output_check("/dev/fd/987"), -EBADF);
}

Test(output, links)
{
	/* A link to a file is replaced by a file: its target may belong to another user. */
	cr_assert_eq(output_write_bytes("other", "other", 5), 0);
	cr_assert(!symlink("other", "link"));
	cr_assert_eq(output_write_bytes("link", "new", 3), 0);
	expect_file("other", "other");
	expect_file("link", "new");
}

Test(output, memory_is_that_of_the_profile)
{
	enum { NR_STACKS = 20000, DEPTH = 60 };
	struct profile *profile = made_new();
	const char *null = device("null", "/dev/null", 3);
	struct rusage before, after;
	uint32_t stack, i, j;
	enum output_format format;
	char name[32];

	made_process(profile, 1, "app", "");
	for (i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "function_%u", i);
		made_native(profile, name, 0, i);
	}
	cr_assert_eq(profile_stacks_fit(profile, (size_t)NR_STACKS * DEPTH), 0);
	for (i = 0; i < NR_STACKS; i++) {
		for (stack = 0, j = 0; j < DEPTH; j++)
			stack = profile_stack_put(profile, stack, (i >> (j / 8)) * 7919 % 1000);
		made_sample(profile, 0, stack, 1);
	}
	getrusage(RUSAGE_SELF, &before);
	for (format = OUTPUT_PPROF; format <= OUTPUT_RAW; format++)
		cr_assert_eq(output_write(null, format, profile, &no_options), 0);
	getrusage(RUSAGE_SELF, &after);
	cr_assert_lt(after.ru_maxrss - before.ru_maxrss, 8 << 10, "%ld KiB more",
		     after.ru_maxrss - before.ru_maxrss);
	made_free(profile);
}
