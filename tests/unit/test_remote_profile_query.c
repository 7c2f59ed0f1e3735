// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "daemon/remote_profile.h"
#include "daemon/remote_profile_query.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

TestSuite(remote_profile_query);

Test(remote_profile_query, values)
{
	struct buf why = { .max = 1000 };
	struct remote_profile_query query;

	remote_profile_query_init(&query);
	cr_expect_eq(query.duration_ns, 30000000000);
	cr_expect_eq(query.format, OUTPUT_PPROF);
	cr_expect_eq(
		remote_profile_query_take(&query, REMOTE_PROFILE_PROFILE, "duration", "1.5", &why),
		0);
	cr_expect_eq(remote_profile_query_take(&query, REMOTE_PROFILE_PROFILE, "pid", "7,8", &why),
		     0);
	cr_expect_eq(remote_profile_query_take(&query, REMOTE_PROFILE_PROFILE, "pid", "8", &why),
		     0);
	cr_expect_eq(
		remote_profile_query_take(&query, REMOTE_PROFILE_PROFILE, "pod", "ml/a-*", &why),
		0);
	cr_expect_eq(
		remote_profile_query_take(&query, REMOTE_PROFILE_PROFILE, "worker", "A, b*", &why),
		0);
	cr_expect_eq(remote_profile_query_take(&query, REMOTE_PROFILE_PROFILE, "native", "", &why),
		     0);
	cr_expect_eq(
		remote_profile_query_take(&query, REMOTE_PROFILE_PROFILE, "format", "svg", &why),
		0);
	cr_expect_eq(query.duration_ns, 1500000000);
	cr_expect_eq(query.choice.nr_pids, 2);
	cr_expect_eq(query.choice.pids[1], 8);
	cr_expect_str_eq(query.choice.containers.pods[0], "ml/a-*");
	cr_expect_eq(query.choice.nr_workers, 2);
	cr_expect_str_eq(query.choice.workers[1], "b*");
	cr_expect(query.native);
	cr_expect_eq(query.format, OUTPUT_SVG);
	cr_expect_eq(remote_profile_query_check(&query, REMOTE_PROFILE_DUMP, &why), 0);
	cr_expect_eq(why.len, 0);
	remote_profile_query_fini(&query);
}

Test(remote_profile_query, wrong)
{
	static const struct {
		enum remote_profile_kind kind;
		const char *name, *value, *says;
	} cases[] = {
		{ REMOTE_PROFILE_PROFILE, "seconds", "", "seconds=: must be" },
		{ REMOTE_PROFILE_PROFILE, "seconds", "3601", "up to 3600" },
		{ REMOTE_PROFILE_PROFILE, "seconds", "-1", "must be" },
		{ REMOTE_PROFILE_PROFILE, "seconds", "1e9", "must be" },
		{ REMOTE_PROFILE_PROFILE, "Seconds", "1", "no such parameter" },
		{ REMOTE_PROFILE_PROFILE, "", "1", "no such parameter" },
		{ REMOTE_PROFILE_PROFILE, "pid", "0", "process id" },
		{ REMOTE_PROFILE_PROFILE, "pid", "99999999999999999999", "process id" },
		{ REMOTE_PROFILE_PROFILE, "native", "2", "1 or 0" },
		{ REMOTE_PROFILE_PROFILE, "format", "pdf", "pprof, folded" },
		{ REMOTE_PROFILE_PROFILE, "worker", ",", "patterns" },
		{ REMOTE_PROFILE_PROFILE, "worker", "*a*a*a*a*a*a*a*a*", "8 times" },
		{ REMOTE_PROFILE_PROFILE, "pod", "a/b/c", "pod's name" },
		{ REMOTE_PROFILE_PROFILE, "\033[31m", "x", "?[31m: no such" },
		{ REMOTE_PROFILE_DUMP, "seconds", "1", "no such parameter" },
		{ REMOTE_PROFILE_DUMP, "format", "raw", "no such parameter" },
		{ REMOTE_PROFILE_DUMP, "rate", "1", "no such parameter" },
		{ REMOTE_PROFILE_DUMP, "json", "2", "1 or 0" },
		{ REMOTE_PROFILE_DUMP, "locals", "9", "up to 8" },
		{ REMOTE_PROFILE_RECORD, "rate", "0", "1 to 1000" },
		{ REMOTE_PROFILE_RECORD, "rate", "1001", "1 to 1000" },
		{ REMOTE_PROFILE_RECORD, "start", "x", "number" },
		{ REMOTE_PROFILE_RECORD, "worker", "x", "no such parameter" },
		{ REMOTE_PROFILE_FILES, "pid", "1", "no such parameter" },
		{ REMOTE_PROFILE_ATTACH, "seconds", "901", "up to 900" },
		{ REMOTE_PROFILE_ATTACH, "native", "1", "no such parameter" },
		{ REMOTE_PROFILE_ATTACH, "format", "html", "no such parameter" },
		{ REMOTE_PROFILE_DETACH, "pod", "a/b", "no such parameter" },
		{ REMOTE_PROFILE_DETACH, "subprocesses", "1", "no such parameter" },
	};
	struct remote_profile_query query;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct buf why = { .max = 1000 };

		remote_profile_query_init(&query);
		cr_expect_eq(remote_profile_query_take(&query, cases[i].kind, cases[i].name,
						       cases[i].value, &why),
			     -EINVAL, "%s=%s", cases[i].name, cases[i].value);
		cr_expect(why.data && strstr(why.data, cases[i].says), "%s=%s: %s", cases[i].name,
			  cases[i].value, why.data);
		remote_profile_query_fini(&query);
		buf_fini(&why);
	}
}

Test(remote_profile_query, twice)
{
	static const char *const names[][2] = { { "seconds", "duration" },
						{ "native", "native" },
						{ "format", "format" } };
	static const char *const values[] = { "1", "1", "raw" };
	struct remote_profile_query query;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		struct buf why = { .max = 1000 };

		remote_profile_query_init(&query);
		cr_expect_eq(remote_profile_query_take(&query, REMOTE_PROFILE_PROFILE, names[i][0],
						       values[i], &why),
			     0);
		cr_expect_eq(remote_profile_query_take(&query, REMOTE_PROFILE_PROFILE, names[i][1],
						       values[i], &why),
			     -EINVAL);
		cr_expect(why.data && strstr(why.data, "twice"));
		remote_profile_query_fini(&query);
		buf_fini(&why);
	}
}

Test(remote_profile_query, whole)
{
	struct buf why = { .max = 1000 };
	struct remote_profile_query query;

	remote_profile_query_init(&query);
	cr_expect_eq(remote_profile_query_check(&query, REMOTE_PROFILE_PROFILE, &why), 0);
	cr_expect_eq(remote_profile_query_check(&query, REMOTE_PROFILE_FILES, &why), 0);
	cr_expect_eq(remote_profile_query_check(&query, REMOTE_PROFILE_DUMP, &why), -EINVAL);
	cr_expect(strstr(why.data, "which process"));
	buf_reset(&why);
	cr_expect_eq(remote_profile_query_check(&query, REMOTE_PROFILE_RECORD, &why), -EINVAL);
	cr_expect(strstr(why.data, "one process"));
	remote_profile_query_fini(&query);
	buf_fini(&why);
}

/* A token of pods asks about one process at a time. */
Test(remote_profile_query, bound)
{
	static const struct {
		enum remote_profile_kind kind;
		const char *name, *value;
		int err;
	} cases[] = {
		{ REMOTE_PROFILE_DUMP, "pid", "7", 0 },
		{ REMOTE_PROFILE_RECORD, "pid", "7", 0 },
		{ REMOTE_PROFILE_DUMP, "pid", "7,8", -EINVAL },
		{ REMOTE_PROFILE_DUMP, "pod", "a", -EINVAL },
		{ REMOTE_PROFILE_DUMP, "worker", "a", -EINVAL },
		{ REMOTE_PROFILE_PROFILE, "pid", "7", -EINVAL },
	};
	struct remote_profile_query query;
	struct buf why = { .max = 1000 };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		remote_profile_query_init(&query);
		cr_assert_eq(remote_profile_query_take(&query, cases[i].kind, cases[i].name,
						       cases[i].value, &why),
			     0);
		cr_expect_eq(remote_profile_query_check_bound(&query, cases[i].kind, &why),
			     cases[i].err, "%zu", i);
		remote_profile_query_fini(&query);
	}
	buf_fini(&why);
}

Test(remote_profile_query, paths)
{
	static const char *const good[] = {
		"",
		"latest.pb.gz",
		"latest.html",
		"cpu-20261121T144600Z-60s.pb.gz",
		"cpu-20261121T144600Z-60s-1.folded",
		"ml/",
		"ml/pod-0/",
		"ml/pod-0/latest.folded",
		"ml/cpu-20261121T144600Z-60s.html",
		"oom-20261121T144600Z-1.txt",
		"death-20261121T144600Z-a-1/",
		"death-20261121T144600Z-a-1/summary.txt",
	};
	static const char *const bad[] = {
		"/",
		"//",
		".",
		"..",
		"../",
		"./",
		"/etc/passwd",
		"ml/../",
		"ml/../../x",
		"../cpu-20261121T144600Z-60s.pb.gz",
		"ml//cpu-20261121T144600Z-60s.pb.gz",
		"latest",
		"cpu-20261131T144600Z-60s.pb.gz",
		"cpu-20261121T144600Z-60s",
		"cpu-20261121T144600Z-60s.pb.gz.tmp",
		".bpfprof-daemon-0123456789abcdef.tmp",
		".hidden/latest.html",
		"a/b/c/",
		"a/b/c/latest.html",
		"a\n/latest.html",
		"a\177/",
		"summary.txt",
		"ml/summary.txt",
		"death-20261121T144600Z-a-1",
		"death-20261121T144600Z-a-1/passwd",
		"death-20261121T144600Z-a-1/../summary.txt",
		"ml/death-20261121T144600Z-a-1/summary.txt",
	};
	char longest[400];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(good); i++)
		cr_expect_eq(remote_profile_path_check(good[i]), 0, "%s", good[i]);
	for (i = 0; i < ARRAY_SIZE(bad); i++)
		cr_expect_eq(remote_profile_path_check(bad[i]), -ENOENT, "%s", bad[i]);
	memset(longest, 'a', 256);
	snprintf(longest + 256, sizeof(longest) - 256, "/latest.html");
	cr_expect_eq(remote_profile_path_check(longest), -ENOENT);
	cr_expect_eq(remote_profile_path_check(longest + 1), 0);
}

Test(remote_profile_query, places_of_all_kinds_fit)
{
	size_t nr = 0;
	enum remote_profile_kind kind;

	for (kind = 0; kind < REMOTE_PROFILE_NR_KINDS; kind++) {
		nr += remote_profile_kinds[kind].places;
		cr_expect(remote_profile_kinds[kind].places_of_one <=
			  remote_profile_kinds[kind].places);
	}
	cr_expect(nr <= REMOTE_PROFILE_MAX_JOBS);
}
