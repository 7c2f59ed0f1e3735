// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/sets.h"
#include "daemon/tree.h"

#define START 1700000000ULL /* 2023-11-14 22:13:20 UTC */
#define BYTES 1000 /* of one file in these tests */
#define SET (STORE_NR_CPU_FILES * BYTES)

static const struct store_limits no_limits = { .age_seconds = UINT32_MAX, .bytes = UINT64_MAX / 4 };
static char folder[] = "/tmp/bpfprof-tree-XXXXXX";
static struct store *root;

static void setup(void)
{
	cr_assert(mkdtemp(folder));
	cr_assert_eq(chdir(folder), 0);
	cr_assert_eq(store_open(&root, ".", &(struct store_access){ 0 }), 0);
}

static void teardown(void)
{
	char *argv[] = { "rm", "-rf", folder, NULL };
	pid_t pid;

	store_close(root);
	pid = fork();
	if (!pid) {
		execvp(argv[0], argv);
		_exit(1);
	}
	waitpid(pid, NULL, 0);
}

TestSuite(tree, .init = setup, .fini = teardown);

static bool there(const char *name)
{
	struct stat st;

	return !lstat(name, &st);
}

/* Does the link lead to a file? */
static bool whole(const char *name)
{
	struct stat st;

	return !stat(name, &st) && st.st_size == BYTES;
}

static void set_write(struct tree *tree, const char *namespace, const char *pod, uint64_t start)
{
	struct store_counts counts = { 0 };
	static char bytes[BYTES];
	struct tree_name name;
	const char *const names[] = { name.namespace, name.pod };
	struct store *store = root;
	struct store_set set;

	if (pod) {
		tree_name_make(&name, namespace, pod);
		cr_assert_eq(store_open_below(&store, root, names, 2, true), 0);
	}
	cr_assert_eq(store_begin(store, &set, 0, NULL, start, &counts), 0);
	for (int i = 0; i < STORE_NR_CPU_FILES; i++)
		cr_assert_eq(write(set.fds[i], bytes, BYTES), BYTES);
	cr_assert_eq(store_commit(store, &set, start, 60, NULL, start + 60, &counts), 0);
	cr_assert_eq(tree_add(tree, pod ? &name : NULL, &set), 0);
	if (pod)
		store_close(store);
}

/* Writes as the daemon does: pods first, then the node. */
static void interval(uint64_t start, const struct store_limits *limits, struct store_counts *counts,
		     const char *const pods[], size_t nr)
{
	struct tree *tree;

	*counts = (struct store_counts){ 0 };
	cr_assert_eq(tree_open(&tree, root, start + 60, counts), 0);
	tree_prune(tree, limits, tree_last_bytes(tree), start + 60, counts);
	for (size_t i = 0; i < nr; i++) {
		set_write(tree, "ml", pods[i], start);
		tree_prune(tree, limits, 0, start + 60, counts);
	}
	set_write(tree, NULL, NULL, start);
	tree_prune(tree, limits, 0, start + 60, counts);
	tree_close(tree);
}

Test(tree, names)
{
	static const struct {
		const char *namespace, *pod, *wanted; /* NULL: any that is harmless */
	} cases[] = {
		{ "ml", "train-0", "ml/train-0" },
		{ "kube-system", "coredns-5d78c9869d-abcde",
		  "kube-system/coredns-5d78c9869d-abcde" },
		{ "a", "b.example.com", "a/b.example.com" },
		{ "a", "latest.html", "a/latest.html" },
		{ "", "x", NULL },
		{ "latest.html", "x", NULL },
		{ "a", "..", NULL },
		{ "..", "..", NULL },
		{ "a", ".", NULL },
		{ "a", ".bpfprof-daemon-0123456789abcdef.tmp", NULL },
		{ "a", "b/c", NULL },
		{ "a", "b_c", NULL },
		{ "a", "/etc", NULL },
		{ "a", "b\nc", NULL },
		{ "a", "b\x1b[2Jc", NULL },
		{ "a", "\xc3\xa4", NULL },
		{ "a", " b", NULL },
	};
	struct tree_name names[sizeof(cases) / sizeof(cases[0])], big;
	char text[TREE_PART_MAX * 2 + 2], *long_name = malloc(10241);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		tree_name_make(&names[i], cases[i].namespace, cases[i].pod);
		snprintf(text, sizeof(text), "%s/%s", names[i].namespace, names[i].pod);
		if (cases[i].wanted) {
			cr_expect_str_eq(text, cases[i].wanted);
			continue;
		}
		cr_expect(strchr(text, '_'), "%s could be an honest one", text);
		cr_expect_eq(strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_."
					  "0123456789/"),
			     strlen(text), "%s", text);
		cr_expect_null(strchr(names[i].pod, '/'));
		cr_expect_neq(names[i].pod[0], '.');
		cr_expect_null(strchr(names[i].namespace, '.'));
		for (size_t k = 0; k < i; k++)
			cr_expect(strcmp(names[i].namespace, names[k].namespace) ||
					  strcmp(names[i].pod, names[k].pod),
				  "%zu and %zu: %s", i, k, text);
	}
	memset(long_name, 'x', 10240);
	long_name[10240] = 0;
	tree_name_make(&big, long_name, long_name);
	cr_expect_lt(strlen(big.namespace), TREE_PART_MAX);
	long_name[10239] = 'y';
	tree_name_make(&names[0], long_name, long_name);
	cr_expect_str_neq(names[0].pod, big.pod);
	long_name[253] = 0;
	tree_name_make(&names[0], "a", long_name);
	cr_expect_str_eq(names[0].pod, long_name);
	long_name[252] = '/';
	tree_name_make(&names[0], "a", long_name);
	cr_expect_lt(strlen(names[0].pod), 254);
	cr_expect(strchr(names[0].pod, '_'));
	free(long_name);
}

/* The oldest sets are removed, in every folder, and their links and folders with them. */
Test(tree, retention_by_bytes)
{
	static const char *const both[] = { "one", "two" };
	struct store_limits limits = { .age_seconds = UINT32_MAX, .bytes = 7 * SET };
	struct store_counts counts;

	interval(START, &limits, &counts, both, 2);
	interval(START + 60, &limits, &counts, both, 2);
	cr_expect_eq(counts.sets, 6);
	cr_expect(whole("latest.html") && whole("ml/one/latest.html"));
	/* From now on there is one pod. */
	interval(START + 120, &limits, &counts, both, 1);
	cr_expect_eq(counts.sets, 6); /* room was made for three */
	cr_expect_leq(counts.bytes, limits.bytes);
	cr_expect(whole("ml/two/latest.html"));
	for (uint64_t i = 3; i < 6; i++) {
		interval(START + 60 * i, &limits, &counts, both, 1);
		cr_expect_leq(counts.bytes, limits.bytes);
		cr_expect(whole("latest.pb.gz") && whole("ml/one/latest.folded"));
		cr_expect(!there("ml/two") || whole("ml/two/latest.html"));
	}
	cr_expect_not(there("ml/two"));
	limits.bytes = 1;
	interval(START + 600, &limits, &counts, NULL, 0);
	cr_expect_eq(counts.sets, 1);
	cr_expect(whole("latest.html"));
	cr_expect_not(there("ml"));
}

Test(tree, retention_by_age)
{
	static const char *const both[] = { "one", "two" };
	struct store_limits limits = { .age_seconds = 120, .bytes = UINT64_MAX / 4 };
	struct store_counts counts;

	for (uint64_t i = 0; i < 5; i++)
		interval(START + 60 * i, &limits, &counts, both, i ? 1 : 2);
	cr_expect_eq(counts.sets, 6); /* of two folders, ended 0, 60 and 120 s ago */
	cr_expect_not(there("ml/two"));
	cr_expect(whole("ml/one/latest.html"));
	interval(START + 100000, &limits, &counts, NULL, 0);
	cr_expect_eq(counts.sets, 1);
	cr_expect_not(there("ml"));
}

/* A clock that was a day ahead. */
Test(tree, clock_set_back)
{
	static const char *const one[] = { "one" };
	struct store_limits limits = { .age_seconds = UINT32_MAX, .bytes = 5 * SET };
	struct store_counts counts;

	interval(START + 86400, &no_limits, &counts, one, 1);
	interval(START, &limits, &counts, one, 1);
	cr_expect_eq(counts.sets, 4);
	interval(START + 60, &limits, &counts, one, 1);
	cr_expect_leq(counts.bytes, limits.bytes);
	cr_expect_not(there("ml/one/cpu-20231115T221320Z-60s.html"));
	cr_expect(there("ml/one/cpu-20231114T221320Z-60s.html"));
	cr_expect(whole("latest.html") && whole("ml/one/latest.html"));
}

/* Folders of another owner, links out of the tree, and other files in the way. */
Test(tree, others_are_left_alone)
{
	struct store_limits limits = { .age_seconds = 1, .bytes = 1 };
	const char *const names[] = { "ml", "linked" }, *const below[] = { "file", "x" };
	struct store_counts counts = { 0 };
	struct store *store;

	cr_assert_eq(mkdir("saved", 0755), 0);
	cr_assert_eq(mkdir("saved/monday", 0755), 0);
	cr_assert_eq(close(creat("saved/monday/cpu-20200101T000000Z-60s.html", 0644)), 0);
	cr_assert_eq(mkdir("saved/links", 0755), 0);
	cr_assert_eq(symlink("/etc/passwd", "saved/links/latest.pb.gz"), 0);
	cr_assert_eq(close(creat("saved/links/cpu-20200101T000000Z-60s.pb.gz", 0644)), 0);
	cr_assert_eq(close(creat("file", 0644)), 0);
	cr_assert_eq(mkdir("ml", 0755), 0);
	cr_assert_eq(symlink("../saved/monday", "ml/linked"), 0);
	interval(START, &limits, &counts, NULL, 0);
	cr_expect_eq(counts.sets, 1);
	cr_expect(there("saved/monday/cpu-20200101T000000Z-60s.html"));
	cr_expect(there("saved/links/cpu-20200101T000000Z-60s.pb.gz"));
	cr_expect_eq(store_open_below(&store, root, names, 2, true), -ENOTDIR);
	cr_expect_eq(store_open_below(&store, root, below, 2, true), -ENOTDIR);
}

/* Killed: temporaries go, also where nothing else is; links lead to the newest. */
Test(tree, repair)
{
	static const char *const one[] = { "one" };
	struct store_counts counts;
	struct tree *tree;

	interval(START, &no_limits, &counts, one, 1);
	interval(START + 60, &no_limits, &counts, one, 1);
	cr_assert_eq(unlink("ml/one/latest.html"), 0);
	cr_assert_eq(unlink("latest.folded"), 0);
	cr_assert_eq(symlink("cpu-20231114T221320Z-60s.folded", "latest.folded"), 0);
	cr_assert_eq(mkdir("ml/new", 0755), 0);
	cr_assert_eq(close(creat("ml/new/.bpfprof-daemon-0123456789abcdef.tmp", 0644)), 0);
	cr_assert_eq(close(creat("ml/one/.bpfprof-daemon-0123456789abcdef.tmp", 0644)), 0);
	cr_assert_eq(close(creat(".bpfprof-daemon-0123456789abcdef.tmp", 0644)), 0);
	counts = (struct store_counts){ 0 };
	cr_assert_eq(tree_open(&tree, root, START + 120, &counts), 0);
	tree_repair(tree, START + 120, &counts);
	tree_close(tree);
	cr_expect_eq(counts.stale, 3);
	cr_expect_not(there("ml/new/.bpfprof-daemon-0123456789abcdef.tmp"));
	cr_expect(whole("ml/one/latest.html"));
	char target[64] = "";

	cr_assert_gt(readlink("latest.folded", target, sizeof(target) - 1), 0);
	cr_expect_str_eq(target, "cpu-20231114T221420Z-60s.folded");
}

/* No folder at all: nothing is left in what the caller brings, and nothing to be freed. */
Test(tree, sets_of_nothing)
{
	struct sets sets;

	memset(&sets, 0xa5, sizeof(sets));
	cr_expect_eq(sets_read(&sets, -1, START), -EBADF);
	cr_expect_null(sets.sets);
	cr_expect_eq(sets.nr, 0);
	cr_expect_eq(sets.bytes, 0);
	sets_fini(&sets);
}

/* Known sets, and folders that are not to be read: the result has all sets, or is an error. */
static uint64_t counted(rlim_t nr_files, int *ret_err, struct store_counts *counts)
{
	struct rlimit before, limit;
	struct tree *tree;

	*counts = (struct store_counts){ 0 };
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	limit = before;
	limit.rlim_cur = nr_files;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	*ret_err = tree_open(&tree, root, START, counts);
	if (!*ret_err) {
		tree_prune(tree, &no_limits, 0, START, counts);
		tree_close(tree);
	}
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	return counts->sets + counts->folders_unread;
}

/* With few descriptors left some folders cannot be opened: the error is reported. */
Test(tree, too_few_descriptors)
{
	static const char *const both[] = { "one", "two" };
	struct store_counts counts;
	int first = dup(STDIN_FILENO), err, nr_errors = 0, nr_unread = 0, nr_whole = 0;

	cr_assert_geq(first, 0);
	cr_assert_eq(close(first), 0);
	interval(START, &no_limits, &counts, both, 2);
	for (int left = 0; left < 8; left++) {
		uint64_t nr = counted((rlim_t)(first + left), &err, &counts);

		nr_errors += err == -EMFILE;
		nr_unread += !err && counts.folders_unread;
		nr_whole += !err && counts.sets == 3;
		cr_expect(err == -EMFILE || nr == 3, "%d left: %d, %llu sets, %llu unread", left,
			  err, (unsigned long long)counts.sets,
			  (unsigned long long)counts.folders_unread);
		cr_expect(!counts.folders_unread || counts.unread_error == -EMFILE, "%d",
			  counts.unread_error);
	}
	cr_expect(nr_errors && nr_unread && nr_whole, "%d errors, %d in part, %d whole", nr_errors,
		  nr_unread, nr_whole);
}

/* There are so few descriptors that links in the folders of pods cannot be read. */
Test(tree, too_few_descriptors_for_repair)
{
	static const char *const both[] = { "one", "two" };
	struct rlimit before, limit;
	struct store_counts counts;
	struct tree *tree;
	int first;

	interval(START, &no_limits, &counts, both, 2);
	counts = (struct store_counts){ 0 };
	cr_assert_eq(tree_open(&tree, root, START, &counts), 0);
	first = dup(STDIN_FILENO);
	cr_assert_eq(close(first), 0);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	limit = before;
	limit.rlim_cur = (rlim_t)first + 1;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	tree_repair(tree, START, &counts);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	tree_close(tree);
	cr_expect_eq(counts.folders_unread, 2);
	cr_expect_eq(counts.unread_error, -EMFILE);
}

/* From now on the folder open as fd cannot be listed, as on a disk that fails. */
static void listing_fails(int fd)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getdents64, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned int)fd, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EIO),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { .len = sizeof(code) / sizeof(code[0]), .filter = code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog))
		_exit(100);
}

/* In a child: the nth descriptor after those that are open cannot be listed. What it has found. */
static int read_with_bad_disk(int nth)
{
	struct store_counts counts = { 0 }, begun = { 0 };
	struct store_set set;
	struct tree *tree;
	int fds[4], i, err;

	for (i = 0; i < 4; i++)
		fds[i] = dup(STDIN_FILENO);
	for (i = 0; i < 4; i++)
		close(fds[i]);
	listing_fails(fds[nth]);
	err = tree_open(&tree, root, START, &counts);
	if (err)
		return err == -EIO ? 1 : 2;
	tree_prune(tree, &no_limits, 0, START, &counts);
	tree_repair(tree, START, &counts);
	tree_close(tree);
	/* The sets of the root are not known, so none is removed, and the error is reported. */
	if (store_begin(root, &set, 0, &no_limits, START, &begun))
		return 3;
	store_abort(root, &set);
	if (begun.remove_error != (nth ? 0 : -EIO))
		return 4;
	if (counts.folders_unread != 1 || counts.unread_error != -EIO)
		return 5;
	return counts.sets == 1 ? 0 : 6;
}

/* A folder that cannot be listed to its end is not taken for a shorter one. */
Test(tree, bad_disk)
{
	static const struct {
		int nth, wanted;
	} cases[] = {
		{ 0, 0 }, /* the list of namespaces */
		{ 1, 1 }, /* the node's own sets */
		{ 3, 0 }, /* a pod's */
	};
	static const char *const one[] = { "one" };
	struct store_counts counts;
	int status;
	pid_t pid;

	interval(START, &no_limits, &counts, one, 1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		pid = fork();
		if (!pid)
			_exit(read_with_bad_disk(cases[i].nth));
		cr_assert_eq(waitpid(pid, &status, 0), pid);
		cr_expect(WIFEXITED(status));
		cr_expect_eq(WEXITSTATUS(status), cases[i].wanted, "%d: %d", cases[i].nth,
			     WEXITSTATUS(status));
	}
}

/* A folder with the name of a namespace, without access; links and files are ignored. */
Test(tree, namespace_without_access)
{
	static const char *const one[] = { "one" };
	struct store_counts counts;
	bool was_root = !geteuid();
	struct tree *tree;

	interval(START, &no_limits, &counts, one, 1);
	cr_assert_eq(symlink("ml", "linked"), 0);
	cr_assert_eq(close(creat("ml/file", 0644)), 0);
	cr_assert_eq(mkdir("closed", 0), 0);
	counts = (struct store_counts){ 0 };
	cr_assert_eq(chmod(folder, 0755), 0);
	if (was_root)
		cr_assert_eq(seteuid(65534), 0);
	cr_expect_eq(tree_open(&tree, root, START, &counts), 0);
	if (was_root)
		cr_assert_eq(seteuid(0), 0);
	tree_close(tree);
	cr_expect_eq(counts.folders_unread, 1);
	cr_expect_eq(counts.unread_error, -EACCES);
	cr_assert_eq(chmod("closed", 0755), 0);
}

/* Is the set of the nth interval there? */
static bool set_there(const char *in, unsigned int n)
{
	char name[STORE_NAME_MAX], path[STORE_NAME_MAX + 64];

	store_name_make(name, START + 60ULL * n, 60, 0);
	snprintf(path, sizeof(path), "%s/%s.html", in, name);
	return there(path);
}

/*
 * There are more sets than can be known one by one: they are removed in the same order, in several
 * steps.
 */
Test(tree, more_than_can_be_known)
{
	static const char *const both[] = { "one", "two" };
	static const char *const all[] = { ".", "ml/one", "ml/two" };
	struct store_limits limits = { .age_seconds = UINT32_MAX, .bytes = 27 * SET };
	unsigned int i, k, oldest, removed_upto, nr = 30;
	struct store_counts counts;
	struct tree *tree;

	for (i = 0; i < 10; i++)
		interval(START + 60ULL * i, &no_limits, &counts, both, 2);
	while (nr > 1) {
		counts = (struct store_counts){ 0 };
		cr_assert_eq(tree_open_max(&tree, root, 8, START + 600, &counts), 0);
		tree_prune(tree, &limits, 0, START + 600, &counts);
		tree_close(tree);
		cr_assert_eq(counts.removed_sets, nr == 30 ? 3 : nr > 8 ? 4 : nr - 1, "of %u", nr);
		nr -= (unsigned int)counts.removed_sets;
		cr_assert_eq(counts.sets, nr);
		cr_assert_eq(counts.bytes, (uint64_t)nr * SET);
		oldest = 10;
		removed_upto = 0;
		for (i = 0; i < 10; i++) {
			for (k = 0; k < 3; k++) {
				if (!set_there(all[k], i))
					removed_upto = i;
				else if (i < oldest)
					oldest = i;
			}
		}
		cr_expect_leq(removed_upto, oldest, "%u sets: one of %u is gone, one of %u is left",
			      nr, removed_upto, oldest);
		cr_expect(whole("latest.html"));
		limits.bytes = 1;
	}
	cr_expect(set_there(".", 9));
	cr_expect_not(there("ml"));
}
