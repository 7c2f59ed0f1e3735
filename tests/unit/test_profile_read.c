// SPDX-License-Identifier: Apache-2.0
#include "formats/profile_read.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/strtab.h"
#include "formats/output.h"
#include "report/profile_report.h"
#include "made_profile.h"

TestSuite(profile_read, .timeout = 120);

static struct profile_read filled;
static struct profile result;
static struct buf why;

static void setup(void)
{
	cr_assert_eq(profile_read_init(&filled, NULL), 0);
	buf_init(&why, 4096);
}

static void teardown(void)
{
	if (result.strings)
		profile_fini(&result);
	profile_read_fini(&filled);
	buf_fini(&why);
}

static int add(const char *path, const char *text)
{
	return profile_read_add(&filled, path, text, strlen(text), &why);
}

static const struct profile *finish(void)
{
	profile_read_finish(&filled, &result);
	return &result;
}

/* A profile is written, read, and written again: both outputs are equal. */
static void expect_same(int (*write)(FILE *out, const struct profile *profile,
				     const struct output_options *options),
			const struct profile *profile, const char *path,
			const struct output_options *options)
{
	size_t len, len_again;
	char *text = made_text(write, profile, options, &len), *again;

	cr_assert_eq(profile_read_add(&filled, path, text, len, &why), 0, "%s: %s", path, why.data);
	again = made_text(write, finish(), options, &len_again);
	if (write != pprof_write)
		cr_expect_str_eq(again, text);
	cr_expect_eq(len_again, len);
	cr_expect(!memcmp(again, text, len), "%s is another", path);
	free(text);
	free(again);
}

Test(profile_read, pprof_again, .init = setup, .fini = teardown)
{
	struct profile *profile = made_golden();

	expect_same(pprof_write, profile, "x.pb.gz", NULL);
	made_free(profile);
}

Test(profile_read, calls_again, .init = setup, .fini = teardown)
{
	struct profile *profile = made_calls();
	char *text, *again;

	expect_same(pprof_write, profile, "x.pb.gz", NULL);
	text = made_text(folded_write, profile, NULL, NULL);
	again = made_text(folded_write, &result, NULL, NULL);
	cr_expect_str_eq(again, text);
	cr_expect_eq(result.locations[0].kind, LOCATION_CALL);
	free(text);
	free(again);
	made_free(profile);
}

Test(profile_read, folded_again, .init = setup, .fini = teardown)
{
	struct run_stats stats = { .samples = 15, .user = 10, .duration_seconds = 10 };
	struct profile *profile = made_golden();

	stats_add(&stats.lost, "ring_full", 3);
	stats.clock_name = "perf";
	stats.bpf_ns_source = "self";
	profile->stats = &stats;
	expect_same(folded_write, profile, "x.folded", NULL);
	cr_expect_eq(result.duration_ns, 10000000000);
	cr_expect_eq(result.time_ns, 0);
	cr_expect(result.value.only_counts);
	made_free(profile);
}

Test(profile_read, raw_again, .init = setup, .fini = teardown)
{
	const struct output_options options = { .native = true, .several = true };
	struct profile *profile = made_golden();

	expect_same(raw_write, profile, "x.raw", &options);
	cr_expect(filled.raw_only);
	made_free(profile);
}

/* A pprof has all facts of collapsed stacks. */
Test(profile_read, pprof_to_folded, .init = setup, .fini = teardown)
{
	struct profile *profile = made_golden();
	char *packed, *text, *want;
	size_t len;

	/* A file in a package folder that does not exist here keeps its base name. */
	for (size_t i = 0; i < profile->nr_locations; i++)
		if (profile->locations[i].short_file)
			profile->locations[i].short_file = strtab_add(
				profile->strings,
				strrchr(strtab_get(profile->strings, profile->locations[i].file),
					'/') +
					1);
	packed = made_text(pprof_write, profile, NULL, &len);
	want = made_text(folded_write, profile, NULL, NULL);
	cr_assert_eq(profile_read_add(&filled, "x.pb.gz", packed, len, &why), 0);
	text = made_text(folded_write, finish(), NULL, NULL);
	cr_expect_str_eq(text, want);
	cr_expect_eq(result.hz, 99);
	cr_expect_eq(result.duration_ns, profile->duration_ns);
	free(packed);
	free(text);
	free(want);
	made_free(profile);
}

/* The same file twice: the same stacks, twice the numbers; two hosts remain two. */
Test(profile_read, several, .init = setup, .fini = teardown)
{
	struct profile *profile = made_golden();
	uint64_t count = 0;
	char *packed;
	size_t len;

	packed = made_text(pprof_write, profile, NULL, &len);
	cr_assert_eq(profile_read_add(&filled, "a.pb.gz", packed, len, &why), 0);
	free(packed);
	profile->time_ns += 4000000000; /* overlaps by 6 s */
	profile->host = strtab_add(profile->strings, "node-2");
	packed = made_text(pprof_write, profile, NULL, &len);
	cr_assert_eq(profile_read_add(&filled, "b.pb.gz", packed, len, &why), 0);
	cr_assert_eq(profile_read_add(&filled, "b.pb.gz", packed, len, &why), 0);
	free(packed);
	finish();
	cr_expect_eq(result.nr_stacks, 11, "%zu", result.nr_stacks);
	cr_expect_eq(result.nr_samples, 10);
	cr_expect_eq(result.nr_processes, 4);
	cr_expect_eq(result.duration_ns, 14000000000);
	cr_expect_eq(result.time_ns, profile->time_ns - 4000000000);
	cr_expect_eq(result.host, 0);
	cr_expect_neq(result.processes[0].kernel_pid, result.processes[2].kernel_pid);
	cr_expect_str_eq(strtab_get(result.strings, result.processes[2].host), "node-2");
	for (size_t i = 0; i < result.nr_samples; i++)
		count += result.samples[i].count;
	cr_expect_eq(count, 45);
	made_free(profile);
}

Test(profile_read, counters_add_up, .init = setup, .fini = teardown)
{
	static const char text[] =
		"# "
		"{\"samples\":{\"total\":5,\"user\":4},\"lost\":{\"ring_full\":2,\"\\u001b[31m\":1}"
		","
		"\"clock\":{\"name\":9,\"late\":1},"
		"\"agent\":{\"cpu_seconds\":0.5,\"memory_bytes\":7},\"duration_seconds\":2.5}\n"
		"python3;f (x.py:1) 5\n";
	const struct run_stats *stats;

	cr_assert_eq(add("a.folded", text), 0);
	cr_assert_eq(add("b.folded", text), 0);
	stats = finish()->stats;
	cr_assert_not_null(stats);
	cr_expect_eq(stats->samples, 10);
	cr_expect_eq(stats->user, 8);
	cr_expect_eq(stats->memory_bytes, 7);
	cr_expect_eq(stats->lost.nr, 2);
	cr_expect_eq(stats->lost.reasons[0].count, 4);
	cr_expect_str_eq(stats->lost.reasons[1].name, "??31m");
	cr_expect_eq(stats->clock.nr, 1, "the name of the clock is no counter of it");
	cr_expect_eq(result.duration_ns, 5000000000);
	cr_expect_eq(result.nr_samples, 1);
}

/* The earliest start of several recordings counts in any order of theirs; a time that no clock has counts as no start. */
Test(profile_read, starts_are_the_earliest, .init = setup, .fini = teardown)
{
	const struct run_stats *stats;

	cr_assert_eq(add("a.folded",
			 "# {\"start_seconds\":1796000005.25,\"start_at_seconds\":1796000005}\n"
			 "p;f (x.py:1) 5\n"),
		     0);
	cr_assert_eq(add("b.folded", "# {\"start_seconds\":1796000003.5}\np;f (x.py:1) 5\n"), 0);
	cr_assert_eq(add("c.folded",
			 "# {\"start_seconds\":1796000009,\"start_at_seconds\":1796000009}\n"
			 "p;f (x.py:1) 5\n"),
		     0);
	cr_assert_eq(add("d.folded",
			 "# {\"start_seconds\":-1,\"start_at_seconds\":1e300}\np;f (x.py:1) 5\n"),
		     0);
	stats = finish()->stats;
	cr_assert_not_null(stats);
	cr_expect_eq(stats->start_ns, 1796000003500000000);
	cr_expect_eq(stats->start_at_ns, 1796000005000000000);
}

/* The kinds of frames in files of several tools. */
Test(profile_read, dialects, .init = setup, .fini = teardown)
{
	static const struct {
		const char *path, *text, *folded;
	} cases[] = {
		/* Ours. */
		{ "a.folded", "ns/pod/main;python3;f (x.py:1) 2\n",
		  "ns/pod/main;python3;f (x.py:1) 2\n" },
		{ "a.folded", "ray::T.f;T-x-12;f (x.py:1);memcpy 1\npython3;worker-7;g (y:2) 1\n",
		  "python3;worker-7;g (y:2) 1\nray::T.f;T-x-12;f (x.py:1);memcpy 1\n" },
		/* perf's, which begins with the process, too. */
		{ "out.perf-folded", "swapper;idle_[k];[unknown] 3\r\n\r\n",
		  "swapper;idle_[k];[unknown] 3\n" },
		/* py-spy's. */
		{ "a.raw", "<module> (a.py:3);f (p/b.py:4) 5\n",
		  "a;<module> (a.py:3);f (p/b.py:4) 5\n" },
		{ "a.txt",
		  "process 1:\"sh -c x\";process 42:\"/usr/bin/python3 a.py\";"
		  "thread (77): main;f (a.py:1);memcpy (libc.so.6) 5\n",
		  "python3;main-77;f (a.py:1);memcpy 5\n" },
		{ "a.folded", "f (a.py:1) 5\ng (<string>:1);h (a.py:1) 1\n",
		  "a;f (a.py:1) 5\na;g (<string>:1);h (a.py:1) 1\n" },
		/* Files of unknown tools: only frames. */
		{ "x.txt", "main;run;step 4\n", "x;main;run;step 4\n" },
		{ "x.txt", "# comment\n;main;;run; 4\n", "x;main;run 4\n" },
		{ "x.txt", "# nothing ran\n", "" },
		{ "x.folded", " 3\n", "process-0 3\n" },
	};
	const struct output_options options = { .threads = true };
	struct output_options with;
	char *text;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cr_assert_eq(add(cases[i].path, cases[i].text), 0, "%zu: %s", i, why.data);
		finish();
		with = options;
		with.threads = result.threads;
		text = made_text(folded_write, &result, &with, NULL);
		cr_expect_str_eq(text, cases[i].folded, "%zu: %s", i, text);
		free(text);
		teardown();
		setup();
	}
}

Test(profile_read, refused, .init = setup, .fini = teardown)
{
	static const struct {
		const char *data;
		size_t len;
		int err;
		const char *why;
	} cases[] = {
#define CASE(data, err, why) { data, sizeof(data) - 1, err, why }
		CASE("python3;f\n", -EBADMSG, "line 1: no collapsed stack"),
		CASE("python3;f 1\n\nf x\n", -EBADMSG, "line 3: no collapsed stack"),
		CASE("f 99999999999999999999\n", -EBADMSG, "line 1: no collapsed stack"),
		CASE("f1\n", -EBADMSG, "line 1: no collapsed stack"),
		CASE("", -EBADMSG, "it is empty"),
		CASE(" \r\n\n", -EBADMSG, "it is empty"),
		/* Nothing, packed. */
		CASE("\x1f\x8b\x08\0\0\0\0\0\0\x03\x03\0\0\0\0\0\0\0\0\0", -EBADMSG, "it is empty"),
		CASE("<!DOCTYPE html>\n", -EBADMSG, "a picture"),
		CASE("<?xml version", -EBADMSG, "a picture"),
		CASE("\n {\"host\":1}", -EBADMSG, "JSON"),
		CASE("\x1f\x8b\x08", -EBADMSG, "gzip data is cut off"),
		CASE("\x1f\x8b\x09\0\0\0\0\0\0\0\0\0\0", -EBADMSG, "gzip data is damaged"),
		CASE("\0", -EBADMSG, "no pprof, or a damaged one: no field at byte 0 of 1"),
		CASE("\x7f"
		     "ELF\x02\x01\x01\0\0\0",
		     -EBADMSG, "no pprof"),
		CASE("\x32\x00", -EBADMSG, "no sample type"),
		/* A sample type, then: a sample without values, of a frame that is not there. */
		CASE("\x0a\0\x12\0", -EBADMSG, "another number of values than types at byte 2"),
		CASE("\x0a\0\x12\x04\x08\x07\x10\x01", -EBADMSG, "a frame that is not there"),
		CASE("\x0a\0\x12\x0b\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", -EINVAL,
		     "values below zero"),
		/* A frame of a function, and of a mapping, that is not there. */
		CASE("\x0a\0\x22\x06\x08\x01\x22\x02\x08\x09", -EBADMSG,
		     "a function that is not there"),
		CASE("\x0a\0\x22\x04\x08\x01\x10\x02", -EBADMSG, "a mapping that is not there"),
		CASE("\x0a\0\x2a\x04\x08\x01\x10\x07", -EBADMSG, "a text that is not there"),
		/* Lengths past the end. */
		CASE("\x0a\x7f\0", -EBADMSG, "no field at byte 0 of 3"),
		CASE("\x0a\0\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", -EBADMSG,
		     "no field at byte 2"),
	};
	size_t i;
	int err;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		err = profile_read_add(&filled, "x", cases[i].data, cases[i].len, &why);
		cr_expect_eq(err, cases[i].err, "%zu: %d, %s", i, err, why.data);
		cr_expect(why.data && strstr(why.data, cases[i].why), "%zu: %s", i, why.data);
		teardown();
		setup();
	}
}

/* Calls of the GPU and CPU time are no sum. */
Test(profile_read, other_values, .init = setup, .fini = teardown)
{
	struct profile *cpu = made_golden(), *calls = made_calls();
	char *packed;
	size_t len;

	packed = made_text(pprof_write, cpu, NULL, &len);
	cr_assert_eq(profile_read_add(&filled, "a", packed, len, &why), 0);
	free(packed);
	packed = made_text(pprof_write, calls, NULL, &len);
	cr_expect_eq(profile_read_add(&filled, "b", packed, len, &why), -EINVAL);
	cr_expect(strstr(why.data,
			 "it counts calls, the files before it CPU time; give files of calls "
			 "(cuda-*, *.cuda.*) or those of samples (cpu-*) alone"),
		  "%s", why.data);
	free(packed);
	made_free(cpu);
	made_free(calls);
}

static void expect_table(const char *path, const char *text, const char *want)
{
	struct profile_report_options options = { 0 };
	struct buf table;

	buf_init(&table, 1 << 20);
	cr_assert_eq(add(path, text), 0);
	finish();
	options.process_taken = filled.process_taken;
	cr_assert_eq(profile_report(&table, &result, &options), 0);
	cr_expect_str_eq(table.data, want, "%s: %s", path, table.data);
	buf_fini(&table);
	teardown();
	setup();
}

#define HEADING "        own       %        total       %  function\n"
#define ROW "          3  100.0%            3  100.0%  f (x.py)\n"
#define FOOTER "Samples are counted, not calls: there is no ncalls and no percall.\n"

/* Calls by their files' names; whose first frame is a process only because the name says so. */
Test(profile_read, distinguished, .init = setup, .fini = teardown)
{
	static const char ours[] = "# {\"samples\":{\"total\":3}}\npython3;f (x.py:1) 3\n";

	expect_table("/d/x.folded", ours,
		     "how long is not known\n3 samples\n\n" HEADING ROW FOOTER);
	expect_table("/d/x.cuda.folded", ours, "how long is not known\n3 calls\n\n" HEADING ROW);
	expect_table("/d/cuda-2026-1s.folded", ours,
		     "how long is not known\n3 calls\n\n" HEADING ROW);
	expect_table(
		"/d/x.folded", "python3;f (x.py:1) 3\n",
		"how long is not known\n3 samples, first frame taken as the process\n\n" HEADING ROW
			FOOTER);
	expect_table("/d/x.txt", "f (x.py:1) 3\n",
		     "how long is not known\n3 samples\n\n" HEADING ROW FOOTER);
	cr_assert_eq(add("x.folded", ours), 0);
	cr_expect_eq(add("x.cuda.folded", ours), -EINVAL);
	cr_expect(strstr(why.data, "it counts calls, the files before it samples; give"), "%s",
		  why.data);
}

/* The same for a pprof of calls. */
Test(profile_read, table_of_calls, .init = setup, .fini = teardown)
{
	const struct profile_report_options options = { 0 };
	struct profile *calls = made_calls();
	struct buf table;
	char *packed;
	size_t len;

	packed = made_text(pprof_write, calls, NULL, &len);
	cr_assert_eq(profile_read_add(&filled, "a", packed, len, &why), 0);
	buf_init(&table, 1 << 20);
	cr_assert_eq(profile_report(&table, finish(), &options), 0);
	cr_expect(strstr(table.data, "\n12 calls\n\n"), "%s", table.data);
	cr_expect_null(strstr(table.data, "Samples"), "%s", table.data);
	buf_fini(&table);
	free(packed);
	made_free(calls);
}

/* A sum of numbers in a file never wraps around, and never exceeds all. */
Test(profile_read, large_counts, .init = setup, .fini = teardown)
{
	expect_table(
		"x.txt",
		"f (x.py:1) 9223372036854775807\nf (x.py:2) 9223372036854775807\n"
		"f (x.py:3) 9223372036854775807\n",
		"how long is not known\n18446744073709551615 samples\n\n" HEADING
		"18446744073709551615  100.0%  18446744073709551615  100.0%  f (x.py)\n" FOOTER);
}

Test(profile_read, sample_type, .init = setup, .fini = teardown)
{
	struct profile *calls = made_calls();
	uint64_t moved = 0;
	char *packed;
	size_t len, i;

	packed = made_text(pprof_write, calls, NULL, &len);
	filled.sample_type = "moved";
	cr_assert_eq(profile_read_add(&filled, "a", packed, len, &why), 0);
	finish();
	for (i = 0; i < result.nr_samples; i++)
		moved += result.samples[i].value_ns;
	cr_expect_eq(moved, 4096 + 2048);
	cr_expect_str_eq(strtab_get(result.strings, result.value.unit), "bytes");
	teardown();
	setup();
	filled.sample_type = "wall";
	cr_expect_eq(profile_read_add(&filled, "a", packed, len, &why), -ENOENT);
	cr_expect_str_eq(why.data, "it has no such sample type; it has calls, blocked, moved, "
				   "allocated, inuse, starved, host_allocated, host_inuse, "
				   "tensor_allocated, tensor_inuse, gc, completed, complete");
	free(packed);
	made_free(calls);
}

/* A small file that unpacks to more than is read; two gzip members are one file. */
Test(profile_read, unpacked, .init = setup, .fini = teardown)
{
	static const char bomb[] = "head -c 268435457 /dev/zero | gzip -1 > %s",
			  members[] = "{ echo 'a;b 1' | gzip; echo 'a;b 2' | gzip; } > %s";
	char path[] = "/tmp/profile-read-XXXXXX", command[128];
	int fd = mkstemp(path);
	char *packed;
	size_t len;

	cr_assert_geq(fd, 0);
	close(fd);
	snprintf(command, sizeof(command), bomb, path);
	free(made_run(command, "", 0, NULL));
	packed = made_read(path, &len);
	cr_expect_eq(profile_read_add(&filled, "a", packed, len, &why), -E2BIG);
	cr_expect_str_eq(why.data, "larger than can be read, 256 MiB unpacked");
	free(packed);
	teardown();
	setup();
	snprintf(command, sizeof(command), members, path);
	free(made_run(command, "", 0, NULL));
	packed = made_read(path, &len);
	cr_assert_eq(profile_read_add(&filled, "a", packed, len, &why), 0);
	free(packed);
	unlink(path);
	cr_expect_eq(finish()->samples[0].count, 3);
}

/* Time that threads waited, bytes: what is drawn is as wide as these, whatever the samples. */
Test(profile_read, weights, .init = setup, .fini = teardown)
{
	static const struct {
		const char *type, *unit;
		uint64_t per_sample; /* of 10 ms */
	} cases[] = { { "wall", "nanoseconds", 10000 }, { "inuse_space", "bytes", 10000000 } };
	struct profile *profile;
	char *text, line[64];
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		profile = made_golden();
		profile->value.type = strtab_add(profile->strings, cases[i].type);
		profile->value.unit = strtab_add(profile->strings, cases[i].unit);
		profile->hz = 0;
		expect_same(pprof_write, profile, "x.pb.gz", NULL);
		text = made_text(folded_write, &result, NULL, NULL);
		snprintf(line, sizeof(line), "dd;[kernel]_[k];ksys_write_[k] %llu\n",
			 5ULL * cases[i].per_sample);
		cr_expect(strstr(text, line), "%s", text);
		free(text);
		made_free(profile);
		teardown();
		setup();
	}
}

/* Values of calls that this version does not know are left out, and those of older files are 0. */
Test(profile_read, fewer_call_values, .init = setup, .fini = teardown)
{
	/* calls, blocked, other; texts; one function, one sample: 3, 1000, 7 */
	static const char data[] =
		"\x0a\x04\x08\x01\x10\x02\x0a\x04\x08\x03\x10\x04\x0a\x04\x08\x05\x10\x02"
		"\x22\x06\x08\x01\x22\x02\x08\x01\x2a\x04\x08\x01\x10\x05"
		"\x12\x09\x0a\x01\x01\x12\x04\x03\xe8\x07\x07"
		"\x32\0\x32\x05"
		"calls\x32\x05"
		"count\x32\x07"
		"blocked\x32\x0bnanoseconds\x32\x05other";

	cr_assert_eq(profile_read_add(&filled, "x", data, sizeof(data) - 1, &why), 0, "%s",
		     why.data);
	finish();
	cr_assert_eq(result.nr_samples, 1);
	cr_expect_eq(result.call_values[0][PROFILE_CALLS], 3);
	cr_expect_eq(result.call_values[0][PROFILE_BLOCKED_NS], 1000);
	cr_expect_eq(result.call_values[0][PROFILE_MOVED_BYTES], 0);
	cr_expect_eq(result.locations[0].kind, LOCATION_CALL);
}

/* Two labels of equal name in older files, and what go tool pprof sorts. */
Test(profile_read, labels_of_collectives)
{
	/* calls, blocked; texts; one function */
	static const char head[] = "\x0a\x04\x08\x01\x10\x02\x0a\x04\x08\x03\x10\x04"
				   "\x22\x06\x08\x01\x22\x02\x08\x01\x2a\x04\x08\x01\x10\x05"
				   "\x32\0\x32\x05"
				   "calls\x32\x05"
				   "count\x32\x07"
				   "blocked\x32\x0bnanoseconds\x32\x04"
				   "comm\x32\x03"
				   "app\x32\x04"
				   "0xc0\x32\x04"
				   "rank\x32\x01"
				   "3\x32\x0c"
				   "communicator\x32\x09"
				   "nccl_rank\x32\x01"
				   "5\x12";
	static const struct {
		const char *labels; /* key, text */
		const char *rank; /* in the job */
	} files[] = {
		{ "\x05\x06\x05\x07\x08\x09", "" },
		{ "\x05\x06\x08\x0c\x05\x07\x0b\x09", "5" },
		{ "\x05\x06\x0a\x07\x08\x09", "" },
		{ "\x05\x06\x08\x0c\x0a\x07\x0b\x09", "5" },
		{ "\x05\x06\x0a\x07\x0b\x09\x08\x0c", "5" },
	};
	const struct profile_process *process;
	const struct profile_call *call;
	const char *label;
	struct buf file;
	size_t i;

	buf_init(&file, 4096);
	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		setup();
		buf_reset(&file);
		buf_add(&file, head, sizeof(head) - 1);
		buf_add_char(&file, (char)(8 + 3 * strlen(files[i].labels)));
		buf_add(&file, "\x0a\x01\x01\x12\x03\x03\xe8\x07", 8);
		for (label = files[i].labels; *label; label += 2) {
			buf_add(&file, "\x1a\x04\x08", 3);
			buf_add_char(&file, label[0]);
			buf_add_char(&file, 0x10);
			buf_add_char(&file, label[1]);
		}
		cr_assert_eq(profile_read_add(&filled, "x", file.data, file.len, &why), 0, "%s",
			     why.data);
		finish();
		process = &result.processes[result.samples[0].process];
		cr_assert(result.samples[0].call, "%zu", i);
		call = &result.calls[result.samples[0].call - 1];
		cr_expect_str_eq(strtab_get(result.strings, process->comm), "app", "%zu", i);
		cr_expect_str_eq(strtab_get(result.strings, process->ranks.rank), files[i].rank,
				 "%zu", i);
		cr_expect_str_eq(strtab_get(result.strings, call->comm), "0xc0", "%zu", i);
		cr_expect_str_eq(strtab_get(result.strings, call->rank), "3", "%zu", i);
		teardown();
		result = (struct profile){ 0 };
	}
	buf_fini(&file);
}
