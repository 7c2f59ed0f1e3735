// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proc/cgroup_limits.h"
#include "proc/cpus.h"
#include "proc/thread_time.h"

static char root[64];

static void make(const char *path, const char *text)
{
	char full[512], *at;
	FILE *file;

	snprintf(full, sizeof(full), "%s/sys/fs/cgroup/%s", root, path);
	for (at = strchr(full + 1, '/'); at; at = strchr(at + 1, '/')) {
		*at = 0;
		mkdir(full, 0777);
		*at = '/';
	}
	file = fopen(full, "w");
	cr_assert(file);
	fputs(text, file);
	fclose(file);
}

static int drop(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

static void begin(void)
{
	snprintf(root, sizeof(root), "/tmp/bpfprof-limits-XXXXXX");
	cr_assert(mkdtemp(root));
}

static void end(void)
{
	nftw(root, drop, 16, FTW_DEPTH | FTW_PHYS);
}

TestSuite(proc_limits, .init = begin, .fini = end);

/* A limit of the pod counts for a container without one of its own. */
Test(proc_limits, v2)
{
	struct cgroup_limits limits;
	struct cgroup_memory memory;
	struct cgroup_cpu cpu;

	make("kube/pod/cpu.max", "150000 100000\n");
	make("kube/pod/cpu.stat",
	     "usage_usec 9\nnr_periods 60\nnr_throttled 12\nthrottled_usec 34567\n");
	make("kube/pod/ctr/cpu.max", "max 100000\n");
	make("kube/pod/ctr/memory.max", "1000000\n");
	make("kube/pod/ctr/memory.current", "900000\n");
	make("kube/pod/ctr/memory.stat", "anon 5\nfile 300000\ninactive_file 200000\n");
	cgroup_limits_parse(&limits, root, "0::/kube/pod/ctr\n");
	cr_expect(strstr(limits.cpu, "/kube/pod") && !strstr(limits.cpu, "ctr"), "%s", limits.cpu);
	cr_expect(strstr(limits.memory, "/kube/pod/ctr"), "%s", limits.memory);
	cr_assert_eq(cgroup_cpu_read(&cpu, limits.cpu), 0);
	cr_expect(cpu.cpus > 1.49 && cpu.cpus < 1.51);
	cr_expect_eq(cpu.nr_periods, 60);
	cr_expect_eq(cpu.nr_throttled, 12);
	cr_expect_eq(cpu.throttled_ns, 34567000);
	cr_assert_eq(cgroup_memory_read(&memory, limits.memory), 0);
	cr_expect_eq(memory.max_bytes, 1000000);
	cr_expect_eq(memory.used_bytes, 700000);
}

Test(proc_limits, v1)
{
	struct cgroup_limits limits;
	struct cgroup_memory memory;
	struct cgroup_cpu cpu;

	make("cpu/a/cpu.cfs_quota_us", "50000\n");
	make("cpu/a/cpu.cfs_period_us", "100000\n");
	make("cpu/a/cpu.stat", "nr_periods 3\nnr_throttled 2\nthrottled_time 1000\n");
	make("memory/b/memory.limit_in_bytes", "4096000\n");
	make("memory/b/memory.usage_in_bytes", "4096000\n");
	make("memory/b/memory.stat", "inactive_file 1\ntotal_inactive_file 96000\n");
	make("memory/b/c/memory.limit_in_bytes", "9223372036854771712\n"); /* none */
	cgroup_limits_parse(&limits, root,
			    "5:memory:/b/c\n4:cpuset,cpu:/a\n1:name=systemd:/a\n0::/\n");
	cr_assert_eq(cgroup_cpu_read(&cpu, limits.cpu), 0);
	cr_expect(cpu.cpus > 0.49 && cpu.cpus < 0.51);
	cr_expect_eq(cpu.throttled_ns, 1000);
	cr_assert_eq(cgroup_memory_read(&memory, limits.memory), 0);
	cr_expect_eq(memory.used_bytes, 4000000);
}

Test(proc_limits, nothing_to_see)
{
	static const char *const texts[] = { "",
					     "\n\n",
					     "0::/",
					     "0::",
					     "0:",
					     "x",
					     "0::/../../pod\n",
					     "0::/none/there\n",
					     "1:cpu:relative\n" };
	struct cgroup_limits limits;
	char text[4096];
	size_t i;

	make("pod/cpu.max", "1000 1000\n");
	make("cpu.max", "1000 1000\n"); /* the root has no limit that it could pass on */
	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		cgroup_limits_parse(&limits, root, texts[i]);
		cr_expect_str_eq(limits.cpu, "", "%s: %s", texts[i], limits.cpu);
		cr_expect_str_eq(limits.memory, "");
		cr_expect_eq(limits.hidden, strstr(texts[i], "/..") != NULL, "%s", texts[i]);
	}
	memset(text, 'a', sizeof(text));
	memcpy(text, "0::/pod/", 8);
	text[sizeof(text) - 1] = 0;
	cgroup_limits_parse(&limits, root, text);
	cr_expect_str_eq(limits.cpu, "");
}

Test(proc_limits, odd_files)
{
	struct cgroup_memory memory;
	struct cgroup_limits limits;
	struct cgroup_cpu cpu;
	char dir[128];

	make("x/cpu.max", "100 0\n");
	make("x/y/cpu.max", "-5 100\n");
	make("x/y/memory.max", "0\n");
	make("x/y/cpu.stat", "");
	make("x/y/memory.stat", "inactive_file 99999999\n");
	cgroup_limits_parse(&limits, root, "0::/x/y\n");
	cr_expect_str_eq(limits.cpu, "");
	cr_expect_str_eq(limits.memory, "");
	snprintf(dir, sizeof(dir), "%s/sys/fs/cgroup/x/y", root);
	cr_expect_eq(cgroup_cpu_read(&cpu, dir), 0);
	cr_expect_eq(cpu.nr_periods, 0);
	cr_expect_eq(cgroup_memory_read(&memory, dir), -ENODATA);
	make("x/y/memory.current", "5\n");
	cr_expect_eq(cgroup_memory_read(&memory, dir), 0);
	cr_expect_eq(memory.used_bytes, 0);
	cr_expect_eq(cgroup_cpu_read(&cpu, root), -ENOENT);
}

Test(proc_limits, thread_time)
{
	static const char *const bad[] = { "",		"\n",
					   "1 2\n",	"1 2 3",
					   "1 2 3 4\n", "-1 2 3\n",
					   "1  2 3\n",	"99999999999999999999999 1 1\n",
					   "a b c\n" };
	struct thread_time time = { .run_ns = 77 };
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_expect_eq(thread_time_parse(&time, bad[i]), -EBADMSG, "%s", bad[i]);
	cr_expect_eq(time.run_ns, 77);
	cr_assert_eq(thread_time_parse(&time, "1063737 5267751 3\n"), 0);
	cr_expect_eq(time.run_ns, 1063737);
	cr_expect_eq(time.wait_ns, 5267751);
	cr_expect_eq(time.nr_runs, 3);
	cr_expect_eq(thread_time_read(&time, getpid(), getpid()), 0);
	cr_expect_eq(thread_time_read(&time, getpid(), 1), -ESRCH);
}

Test(proc_limits, cpus)
{
	uint32_t logical, cores;

	cpus_count(&logical, &cores);
	cr_expect_geq(logical, cores);
	cr_expect_geq(cores, 1);
	cr_expect_geq(logical, cpus_allowed(getpid()));
	cr_expect_geq(cpus_allowed(getpid()), 1);
	cr_expect_eq(cpus_allowed(0x3fffffff), 0);
}
