// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/store.h"

#define START 1700000000ULL /* 2023-11-14 22:13:20 UTC */
#define BYTES 1000 /* of one file in these tests */

static const struct store_limits no_limits = { .age_seconds = UINT32_MAX, .bytes = UINT64_MAX / 4 };
static const struct store_access plain;
static char folder[] = "/tmp/bpfprof-store-XXXXXX";

static void setup(void)
{
	cr_assert(mkdtemp(folder));
	cr_assert_eq(chdir(folder), 0);
}

static void teardown(void)
{
	char *argv[] = { "rm", "-rf", folder, NULL };
	int status;
	pid_t pid;

	pid = fork();
	if (!pid) {
		execvp(argv[0], argv);
		_exit(1);
	}
	waitpid(pid, &status, 0);
}

TestSuite(store, .init = setup, .fini = teardown);

static void file_make(const char *name, size_t bytes)
{
	FILE *file = fopen(name, "w");

	cr_assert(file, "%s", name);
	while (bytes--)
		fputc('x', file);
	fclose(file);
}

static bool there(const char *name)
{
	struct stat st;

	return !lstat(name, &st);
}

static struct store *opened(void)
{
	struct store *store;

	cr_assert_eq(store_open(&store, ".", &plain), 0);
	return store;
}

static int set_write(struct store *store, uint64_t start, const struct store_limits *limits,
		     struct store_counts *counts)
{
	static char bytes[BYTES];
	struct store_set set;
	int err, i;

	err = store_begin(store, &set, 0, limits, start + 60, counts);
	for (i = 0; i < STORE_NR_CPU_FILES && !err; i++)
		cr_assert_eq(write(set.fds[i], bytes, sizeof(bytes)), (ssize_t)sizeof(bytes));
	return err ? err : store_commit(store, &set, start, 60, limits, start + 60, counts);
}

static void expect_latest(const char *set)
{
	static const char *const suffixes[] = { ".pb.gz", ".folded", ".html" };
	char name[64], wanted[64], target[64];
	struct stat st;
	ssize_t len;

	for (int i = 0; i < STORE_NR_CPU_FILES; i++) {
		snprintf(name, sizeof(name), "latest%s", suffixes[i]);
		snprintf(wanted, sizeof(wanted), "%s%s", set, suffixes[i]);
		len = readlink(name, target, sizeof(target) - 1);
		cr_assert_gt(len, 0, "%s", name);
		target[len] = 0;
		cr_expect_str_eq(target, wanted);
		cr_expect_eq(stat(name, &st), 0);
		cr_expect_eq(st.st_size, BYTES);
	}
}

Test(store, names)
{
	static const struct {
		const char *name;
		bool ours;
	} cases[] = {
		{ "cpu-20231114T221320Z-60s.pb.gz", true },
		{ "cpu-20231114T221320Z-60s.folded", true },
		{ "cpu-20231114T221320Z-60s.html", true },
		{ "cpu-20231114T221320Z-60s-1.html", true },
		{ "cpu-20231114T221320Z-60s-12.html", true },
		{ "cpu-20231114T221320Z-0s.html", true },
		{ "cpu-20231114T221320Z-60s-0.html", false },
		{ "cpu-20231114T221320Z-60s-01.html", false },
		{ "cpu-20231114T221320Z-060s.html", false },
		{ "cpu-20231114T221320Z-60s", false },
		{ "cpu-20231114T221320Z-60s.html.bak", false },
		{ "cpu-20231114T221320Z-60s.svg", false },
		{ "cpu-20231114T221320Z-s.html", false },
		{ "cpu-20231114T221320Z-60.html", false },
		{ "cpu-20231114T221320-60s.html", false },
		{ "cpu-20230231T221320Z-60s.html", false },
		{ "cpu-20231114T251320Z-60s.html", false },
		{ "cpu-20231114T221320Z-99999999999999999999s.html", false },
		{ "cpu-20231114T221320Z--60s.html", false },
		{ " cpu-20231114T221320Z-60s.html", false },
		{ "cpu-", false },
		{ "", false },
		{ "latest.html", false },
	};
	struct store_name name;
	char made[STORE_NAME_MAX];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cr_expect_eq(store_name_parse(&name, cases[i].name), cases[i].ours, "%s",
			     cases[i].name);
	cr_assert(store_name_parse(&name, "cpu-20231114T221320Z-60s-7.folded"));
	cr_expect_eq(name.start, START);
	cr_expect_eq(name.seconds, 60);
	cr_expect_eq(name.copy, 7);
	cr_expect_eq(name.file, STORE_FOLDED);
	store_name_make(made, START, 60, 7);
	cr_expect_str_eq(made, "cpu-20231114T221320Z-60s-7");
}

Test(store, writes_and_links)
{
	struct store_counts counts = { 0 };
	struct store *store = opened();

	cr_assert_eq(set_write(store, START, &no_limits, &counts), 0);
	expect_latest("cpu-20231114T221320Z-60s");
	cr_assert_eq(set_write(store, START + 60, &no_limits, &counts), 0);
	expect_latest("cpu-20231114T221420Z-60s");
	cr_expect_eq(counts.sets, 2);
	cr_expect_eq(counts.bytes, 2 * STORE_NR_CPU_FILES * BYTES);
	cr_expect_eq(counts.links_failed, 0);
	store_close(store);
}

Test(store, name_that_exists)
{
	struct store_counts counts = { 0 };
	struct store *store = opened();

	cr_assert_eq(set_write(store, START, &no_limits, &counts), 0);
	cr_assert_eq(set_write(store, START, &no_limits, &counts), 0);
	expect_latest("cpu-20231114T221320Z-60s-1");
	/* The name may belong to any kind of file. */
	cr_assert_eq(mkdir("cpu-20231114T221320Z-60s-2.folded", 0755), 0);
	cr_assert_eq(mkfifo("cpu-20231114T221320Z-60s-3.html", 0644), 0);
	cr_assert_eq(symlink("/dev/null", "cpu-20231114T221320Z-60s-4.pb.gz"), 0);
	cr_assert_eq(set_write(store, START, &no_limits, &counts), 0);
	expect_latest("cpu-20231114T221320Z-60s-5");
	cr_expect_eq(counts.sets, 3);
	store_close(store);
}

Test(store, retention_by_bytes)
{
	struct store_limits limits = { .age_seconds = UINT32_MAX,
				       .bytes = 3 * STORE_NR_CPU_FILES * BYTES };
	struct store_counts counts = { 0 };
	struct store *store = opened();

	for (uint64_t i = 0; i < 10; i++) {
		cr_assert_eq(set_write(store, START + 60 * i, &limits, &counts), 0);
		cr_expect_leq(counts.bytes, limits.bytes);
	}
	cr_expect_eq(counts.sets, 3);
	cr_expect_eq(counts.removed_sets, 7);
	cr_expect_eq(counts.removed_bytes, 7 * STORE_NR_CPU_FILES * BYTES);
	cr_expect(there("cpu-20231114T222020Z-60s.html"));
	cr_expect_not(there("cpu-20231114T221920Z-60s.html"));
	/* The newest is kept, however small the limit is. */
	limits.bytes = 1;
	cr_assert_eq(set_write(store, START + 600, &limits, &counts), 0);
	cr_expect_eq(counts.sets, 1);
	expect_latest("cpu-20231114T222320Z-60s");
	store_close(store);
}

Test(store, retention_by_age)
{
	struct store_limits limits = { .age_seconds = 120, .bytes = UINT64_MAX / 4 };
	struct store_counts counts = { 0 };
	struct store *store = opened();

	for (uint64_t i = 0; i < 5; i++)
		cr_assert_eq(set_write(store, START + 60 * i, &limits, &counts), 0);
	cr_expect_eq(counts.sets, 3); /* ended 0, 60 and 120 s ago */
	cr_assert_eq(store_prune(store, &limits, START + 100000, &counts), 0);
	cr_expect_eq(counts.sets, 1);
	expect_latest("cpu-20231114T221720Z-60s");
	store_close(store);
}

/* Sets of a clock that was ahead are not the newest ones. */
Test(store, clock_set_back)
{
	struct store_limits limits = { .age_seconds = UINT32_MAX,
				       .bytes = 4 * STORE_NR_CPU_FILES * BYTES };
	struct store_counts counts = { 0 };
	struct store *store = opened();

	for (uint64_t i = 0; i < 3; i++)
		cr_assert_eq(set_write(store, START + 86400 + 60 * i, &limits, &counts), 0);
	for (uint64_t i = 0; i < 3; i++)
		cr_assert_eq(set_write(store, START + 60 * i, &limits, &counts), 0);
	expect_latest("cpu-20231114T221520Z-60s");
	cr_expect(there("cpu-20231114T221320Z-60s.html"));
	cr_expect_not(there("cpu-20231115T221320Z-60s.html"));
	cr_expect_not(there("cpu-20231115T221420Z-60s.html"));
	cr_assert_eq(store_repair(store, START + 180, &counts), 0);
	expect_latest("cpu-20231114T221520Z-60s");
	store_close(store);
}

Test(store, others_are_left_alone)
{
	static const char *const files[] = { "notes.txt", ".bpfprof-0123456789abcdef.tmp",
					     "cpu-old.html", ".bpfprof-daemon-0123.tmp", "latest" };
	static const char folder_name[] = "cpu-20200101T000000Z-60s.html",
			  link_name[] = "cpu-20200101T000000Z-60s.folded",
			  fifo_name[] = "cpu-20200101T000000Z-60s.pb.gz";
	struct store_limits limits = { .age_seconds = 1, .bytes = 1 };
	struct store_counts counts = { 0 };
	struct store *store = opened();

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		file_make(files[i], 5000);
	cr_assert_eq(mkdir(folder_name, 0755), 0);
	file_make("cpu-20200101T000000Z-60s.html/inside", 10);
	cr_assert_eq(symlink("notes.txt", link_name), 0);
	cr_assert_eq(mkfifo(fifo_name, 0644), 0);
	cr_assert_eq(mkdir(".bpfprof-daemon-0123456789abcdef.tmp", 0755), 0);
	cr_assert_eq(store_repair(store, START, &counts), 0);
	cr_assert_eq(set_write(store, START, &limits, &counts), 0);
	cr_expect_eq(counts.sets, 1);
	cr_expect_eq(counts.bytes, STORE_NR_CPU_FILES * BYTES);
	cr_expect_eq(counts.stale, 0);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		cr_expect(there(files[i]), "%s", files[i]);
	cr_expect(there(folder_name) && there(link_name) && there(fifo_name));
	cr_expect(there(".bpfprof-daemon-0123456789abcdef.tmp"));
	store_close(store);
}

/* latest.* is only ever replaced where it is a link, and the link is not followed. */
Test(store, latest_of_somebody_else)
{
	struct store_counts counts = { 0 };
	struct store *store = opened();
	char target[64];
	struct stat st;

	file_make("precious", 10);
	cr_assert_eq(symlink("precious", "latest.html"), 0);
	file_make("latest.folded", 20);
	cr_assert_eq(mkdir("latest.pb.gz", 0755), 0);
	cr_assert_eq(set_write(store, START, &no_limits, &counts), 0);
	cr_expect_eq(counts.links_failed, 2);
	cr_expect_eq(counts.links_error, -EEXIST);
	cr_assert_gt(readlink("latest.html", target, sizeof(target)), 0);
	cr_expect_eq(strncmp(target, "cpu-2023", 8), 0);
	cr_expect_eq(stat("precious", &st), 0);
	cr_expect_eq(st.st_size, 10);
	cr_expect_eq(stat("latest.folded", &st), 0);
	cr_expect_eq(st.st_size, 20);
	store_close(store);
}

/* A daemon was killed: temporaries, a set with one file, links to the set before or to nothing. */
Test(store, repair)
{
	struct store_counts counts = { 0 };
	struct store *store = opened();

	cr_assert_eq(set_write(store, START, &no_limits, &counts), 0);
	cr_assert_eq(set_write(store, START + 60, &no_limits, &counts), 0);
	file_make(".bpfprof-daemon-0123456789abcdef.tmp", 10);
	cr_assert_eq(symlink("precious", ".bpfprof-daemon-fedcba9876543210.tmp"), 0);
	file_make("precious", 10);
	cr_assert_eq(unlink("latest.html"), 0);
	cr_assert_eq(unlink("latest.folded"), 0);
	cr_assert_eq(symlink("cpu-20231114T221320Z-60s.folded", "latest.folded"), 0);
	cr_assert_eq(store_repair(store, START + 180, &counts), 0);
	cr_expect_eq(counts.stale, 2);
	cr_expect_not(there(".bpfprof-daemon-0123456789abcdef.tmp"));
	cr_expect(there("precious"));
	expect_latest("cpu-20231114T221420Z-60s");
	store_close(store);
}

Test(store, abort_leaves_nothing)
{
	struct store_counts counts = { 0 };
	struct store *store = opened();
	struct store_set set;

	cr_assert_eq(store_begin(store, &set, 0, &no_limits, START, &counts), 0);
	cr_expect(there(set.temporary[STORE_HTML]));
	store_abort(store, &set);
	cr_assert_eq(store_repair(store, START, &counts), 0);
	cr_expect_eq(counts.stale, 0);
	store_abort(store, &set); /* once more does no harm */
	store_close(store);
}

Test(store, one_at_a_time)
{
	struct store *store = opened(), *other = NULL;

	cr_expect_eq(store_open(&other, ".", &plain), -EBUSY);
	cr_expect_null(other);
	store_close(store);
	cr_assert_eq(store_open(&other, ".", &plain), 0);
	store_close(other);
}

Test(store, makes_folders)
{
	struct store_counts counts = { 0 };
	struct store *store;

	cr_assert_eq(store_open(&store, "a/b/c", &plain), 0);
	cr_assert_eq(set_write(store, START, &no_limits, &counts), 0);
	cr_expect(there("a/b/c/cpu-20231114T221320Z-60s.html"));
	/* The folder is replaced under us. */
	cr_assert_eq(rename("a", "old"), 0);
	cr_assert_eq(set_write(store, START + 60, &no_limits, &counts), 0);
	cr_expect(there("a/b/c/cpu-20231114T221420Z-60s.html"));
	store_close(store);
	file_make("file", 1);
	cr_expect_eq(store_open(&store, "file", &plain), -ENOTDIR);
	cr_expect_eq(store_open(&store, "file/below", &plain), -ENOTDIR);
}

static unsigned int mode_of(const char *name)
{
	struct stat st;

	cr_assert_eq(stat(name, &st), 0, "%s", name);
	return st.st_mode & 07777;
}

/* Files and all folders on the way, also those of pods. The user's wish counts more than the umask. */
Test(store, modes)
{
	static const struct {
		unsigned int file_mode, umask, file, folder;
	} cases[] = {
		{ 0, 022, 0640, 0750 },	   { 0, 077, 0600, 0700 },    { 0, 0, 0640, 0750 },
		{ 0640, 077, 0640, 0750 }, { 0600, 022, 0600, 0700 }, { 0644, 077, 0644, 0755 },
	};
	const char *const names[] = { "ml", "pod-0" };
	struct store_counts counts = { 0 };
	struct store *store, *below;
	char path[32];
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		umask(cases[i].umask);
		snprintf(path, sizeof(path), "%zu/b", i);
		cr_assert_eq(store_open(&store, path,
					&(struct store_access){ .file_mode = cases[i].file_mode }),
			     0);
		cr_assert_eq(store_open_below(&below, store, names, 2, true), 0);
		cr_assert_eq(set_write(below, START, &no_limits, &counts), 0);
		store_close(below);
		store_close(store);
		cr_assert_eq(chdir(path), 0);
		cr_expect_eq(mode_of(".."), cases[i].folder, "%zu: %o", i, mode_of(".."));
		cr_expect_eq(mode_of("."), cases[i].folder, "%zu: %o", i, mode_of("."));
		cr_expect_eq(mode_of("ml"), cases[i].folder, "%zu: %o", i, mode_of("ml"));
		cr_expect_eq(mode_of("ml/pod-0"), cases[i].folder);
		cr_expect_eq(mode_of("ml/pod-0/latest.pb.gz"), cases[i].file, "%zu: %o", i,
			     mode_of("ml/pod-0/latest.pb.gz"));
		cr_assert_eq(chdir("../.."), 0);
	}
}

/* A folder that existed keeps its mode unless the user asks for another one. */
Test(store, modes_of_old_folders)
{
	static const struct {
		unsigned int before, file_mode, after;
		bool open;
	} cases[] = {
		{ 0755, 0, 0755, true },      { 0750, 0, 0750, false },
		{ 0700, 0, 0700, false },     { 0751, 0, 0751, true },
		{ 0755, 0640, 0750, false },  { 0755, 0600, 0700, false },
		{ 0750, 0644, 0755, false },  { 0755, 0644, 0755, false },
		{ 0757, 0644, 0755, false },  { 02777, 0640, 02750, false },
		{ 01777, 0640, 01777, true }, { 0711, 0644, 0755, false },
	};
	struct store_access access;
	struct store *store;
	struct stat st;
	size_t i;

	cr_assert_eq(mkdir("old", 0700), 0);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		access = (struct store_access){ .file_mode = cases[i].file_mode };
		cr_assert_eq(chmod("old", cases[i].before), 0);
		cr_assert_eq(store_open(&store, "old", &access), 0);
		cr_expect_eq(mode_of("old"), cases[i].after, "%zu: %o", i, mode_of("old"));
		cr_assert_eq(fstat(store_fd(store), &st), 0);
		cr_expect_eq(store_access_is_open(&access, &st), cases[i].open, "%zu", i);
		store_close(store);
	}
}

Test(store, group)
{
	struct store_access access = { .group = 12345, .has_group = true };
	struct store_counts counts = { 0 };
	struct store *store;
	struct stat st;

	umask(077);
	if (geteuid()) /* must be in it */
		access.group = getegid();
	cr_assert_eq(store_open(&store, "a/b", &access), 0);
	cr_expect_eq(store_check(store), 0);
	cr_assert_eq(set_write(store, START, &no_limits, &counts), 0);
	cr_expect(!stat("a", &st) && st.st_gid == access.group && (st.st_mode & 07777) == 0750);
	cr_expect(!stat("a/b", &st) && st.st_gid == access.group && (st.st_mode & 07777) == 0750);
	cr_expect(!stat("a/b/latest.html", &st) && st.st_gid == access.group &&
		  (st.st_mode & 07777) == 0640);
	store_close(store);
	if (geteuid())
		return;
	/* Of a user outside of that group. */
	access.group = 23456;
	cr_assert_eq(chown("a/b", 1000, 23456), 0);
	cr_assert_eq(chown("a", 1000, 23456), 0);
	cr_assert_eq(chown(".", 1000, 23456), 0);
	cr_assert_eq(setresgid(1000, 1000, 1000), 0);
	cr_assert_eq(setresuid(1000, 1000, 1000), 0);
	cr_assert_eq(store_open(&store, "a/b", &access), 0);
	cr_expect_eq(store_check(store), -EPERM);
	cr_expect_eq(set_write(store, START + 60, &no_limits, &counts), -EPERM);
	cr_expect(there("a/b/latest.pb.gz") && !there("a/b/cpu-20231114T221420Z-60s.pb.gz"));
	store_close(store);
	cr_expect_eq(store_open(&store, "new", &access), -EPERM);
}

/* A file that cannot be removed is reported, and the new set is still written. */
Test(store, removal_fails)
{
	struct store_limits limits = { .age_seconds = 1, .bytes = 1 };
	struct store_counts counts = { 0 };
	struct store *store = opened();
	char *argv[] = { "chattr", "+i", "cpu-20231114T221320Z-60s.html", NULL };
	int status;
	pid_t pid;

	cr_assert_eq(set_write(store, START, &limits, &counts), 0);
	pid = fork();
	if (!pid) {
		freopen("/dev/null", "w", stderr);
		execvp(argv[0], argv);
		_exit(1);
	}
	waitpid(pid, &status, 0);
	if (status) { /* no root, or a file system without: rights will do, but not for root */
		cr_assert_eq(rename(argv[2], "gone"), 0);
		cr_assert_eq(symlink("gone", argv[2]), 0);
	}
	cr_assert_eq(set_write(store, START + 60, &limits, &counts), 0);
	expect_latest("cpu-20231114T221420Z-60s");
	if (!status) {
		cr_expect_eq(counts.remove_error, -EPERM);
		argv[1] = "-i";
		pid = fork();
		if (!pid) {
			execvp(argv[0], argv);
			_exit(1);
		}
		waitpid(pid, &status, 0);
		cr_assert_eq(set_write(store, START + 120, &limits, &counts), 0);
		cr_expect_eq(counts.remove_error, 0);
		cr_expect_eq(counts.sets, 1);
	}
	store_close(store);
}

/* Killed at any moment, and started again: no file is cut, latest.* lead to whole ones. */
Test(store, killed, .timeout = 60)
{
	static const char *const latest[] = { "latest.pb.gz", "latest.folded", "latest.html" };
	struct store_limits limits = { .age_seconds = UINT32_MAX,
				       .bytes = 3 * STORE_NR_CPU_FILES * BYTES };
	struct store_counts counts;
	struct store *store;
	struct stat st;
	uint64_t n = 0;
	int round, i;
	pid_t pid;

	store = opened();
	cr_assert_eq(set_write(store, START, &limits, &counts), 0);
	store_close(store);
	for (round = 0; round < 30; round++) {
		n += 100;
		pid = fork();
		if (!pid) {
			store = opened();
			for (;;)
				set_write(store, START + 60 * n++, &limits, &counts);
		}
		usleep(1000 + (unsigned int)(round * 7919 % 13000));
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		for (i = 0; i < STORE_NR_CPU_FILES; i++) {
			cr_assert_eq(stat(latest[i], &st), 0, "%d", round);
			cr_assert_eq(st.st_size, BYTES, "%d", round);
		}
		store = opened();
		counts = (struct store_counts){ 0 };
		cr_assert_eq(store_repair(store, START + 60 * (n + 50), &counts), 0);
		cr_assert_eq(store_prune(store, &limits, START + 60 * (n + 50), &counts), 0);
		cr_expect_leq(counts.bytes, limits.bytes);
		for (i = 0; i < STORE_NR_CPU_FILES; i++)
			cr_assert_eq(stat(latest[i], &st), 0, "%d", round);
		store_close(store);
	}
}

/* Sets with files of calls beside sets without. */
Test(store, cuda)
{
	static const char *const links[] = { "latest.cuda.pb.gz", "latest.cuda.folded",
					     "latest.cuda.html" };
	struct store *store = opened();
	struct store_counts counts = { 0 };
	struct store_name name;
	struct store_set set;
	char target[64], file[STORE_NAME_MAX], memory[STORE_NAME_MAX], seconds[STORE_NAME_MAX];
	ssize_t len;

	cr_assert_eq(store_begin(store, &set, STORE_CUDA | STORE_MEMORY | STORE_SECONDS, &no_limits,
				 START, &counts),
		     0);
	for (int i = 0; i < STORE_NR_FILES; i++)
		cr_assert_eq(write(set.fds[i], "x", 1), 1);
	cr_assert_eq(store_commit(store, &set, START, 60, &no_limits, START + 60, &counts), 0);
	cr_expect_eq(set.files, (1U << STORE_NR_FILES) - 1);
	cr_expect_eq(set.bytes, STORE_NR_FILES);
	cr_expect_eq(counts.sets, 1);
	for (int i = 0; i < 3; i++) {
		len = readlink(links[i], target, sizeof(target) - 1);
		cr_assert_gt(len, 0, "%s", links[i]);
		target[len] = 0;
		cr_expect(store_is_latest(links[i]));
		cr_expect(store_name_parse(&name, target), "%s", target);
		cr_expect_eq(name.file, (enum store_file)(STORE_CUDA_PPROF + i));
		store_file_name(file, set.name, name.file);
		cr_expect_str_eq(file, target);
		cr_expect_eq(strncmp(target, "cuda-", 5), 0);
	}
	for (enum store_file kind = 0; kind < STORE_NR_FILES; kind++) {
		store_file_name(memory, set.name, kind);
		cr_expect(store_name_parse(&name, memory), "%s", memory);
		cr_expect_eq(name.file, kind);
	}
	store_file_name(memory, set.name, STORE_MEMORY_HTML);
	cr_expect_eq(access(memory, F_OK), 0);
	store_file_name(seconds, set.name, STORE_SECONDS_GZ);
	cr_expect_str_eq(seconds, "cpu-20231114T221320Z-60s.seconds.gz");
	cr_expect_eq(access(seconds, F_OK), 0);
	cr_expect_not(store_is_latest("latest.seconds.gz"));
	cr_expect_not(there("latest.seconds.gz"), "the file is of no use without its profile");
	cr_expect_not(store_is_latest("latest.cuda"));
	cr_expect_not(store_name_parse(&name, "cuda-20231114T221320Z-60s.svg"));
	cr_expect_not(store_name_parse(&name, "cud-20231114T221320Z-60s.html"));
	cr_expect_not(store_name_parse(&name, "cuda-20231114T221320Z-60s"));
	/* The next one has none: nothing leads to what may go now. */
	cr_assert_eq(set_write(store, START + 60, &no_limits, &counts), 0);
	for (int i = 0; i < 3; i++)
		cr_expect_lt(readlink(links[i], target, sizeof(target)), 0, "%s", links[i]);
	cr_assert_eq(store_prune(store,
				 &(struct store_limits){ .age_seconds = 1, .bytes = 1 << 30 },
				 START + 100, &counts),
		     0);
	cr_expect_eq(counts.sets, 1);
	cr_expect_lt(access(file, F_OK), 0);
	cr_expect_lt(access(memory, F_OK), 0);
	cr_expect_lt(access(seconds, F_OK), 0);
	store_close(store);
}

/* A killed daemon may have left links of calls to a set that is not the newest. */
Test(store, cuda_repair)
{
	struct store *store = opened();
	struct store_counts counts = { 0 };
	struct store_set set;
	char old[STORE_NAME_MAX];

	cr_assert_eq(store_begin(store, &set, STORE_CUDA | STORE_MEMORY | STORE_SECONDS, &no_limits,
				 START, &counts),
		     0);
	cr_assert_eq(store_commit(store, &set, START, 60, &no_limits, START + 60, &counts), 0);
	store_file_name(old, set.name, STORE_CUDA_HTML);
	cr_assert_eq(set_write(store, START + 60, &no_limits, &counts), 0);
	cr_assert_eq(symlink(old, "latest.cuda.html"), 0);
	cr_assert_eq(store_repair(store, START + 120, &counts), 0);
	cr_expect_lt(access("latest.cuda.html", F_OK), 0);
	cr_expect_eq(access("latest.html", F_OK), 0);
	store_close(store);
}
