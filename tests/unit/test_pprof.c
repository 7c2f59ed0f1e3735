// SPDX-License-Identifier: Apache-2.0
#include "formats/output.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/strtab.h"
#include "formats/pprof_fields.h"
#include "formats/wire.h"
#include "profile/stats.h"
#include "made_profile.h"

TestSuite(pprof, .timeout = 120);

#define PROTO "tests/unit/pprof.proto"

/* protoc's text of the profile: one field per line, the outermost messages in their order. */
static char *decode(const struct profile *profile, const struct output_options *options)
{
	char *packed, *text;
	int status;
	size_t len;

	if (access(PROTO, R_OK))
		cr_skip_test("not run from the root of the source tree");
	text = made_run("command -v protoc", NULL, 0, &status);
	free(text);
	if (status)
		cr_skip_test("no protoc");
	packed = made_text(pprof_write, profile, options, &len);
	text = made_run("gzip -dc | protoc --decode=Profile -I tests/unit " PROTO, packed, len,
			&status);
	cr_assert_eq(status, 0, "%s", text);
	free(packed);
	return text;
}

static char *go_pprof(const struct profile *profile, const char *flag)
{
	char *packed, *text, command[256];
	size_t len;
	int status;

	text = made_run("go tool pprof -h", NULL, 0, &status);
	if (!strstr(text, "usage"))
		cr_skip_test("no go tool pprof");
	free(text);
	packed = made_text(pprof_write, profile, NULL, &len);
	snprintf(command, sizeof(command),
		 "f=$(mktemp) && cat >$f && TZ=UTC HOME=/nonexistent PPROF_TMPDIR=/tmp "
		 "go tool pprof %s $f; s=$?; rm -f $f; exit $s",
		 flag);
	text = made_run(command, packed, len, &status);
	cr_assert_eq(status, 0, "%s", text);
	free(packed);
	return text;
}

static void expect(const char *text, const char *part)
{
	cr_expect(strstr(text, part), "no '%s' in:\n%s", part, text);
}

static void expect_not(const char *text, const char *part)
{
	cr_expect(!strstr(text, part), "'%s' in:\n%s", part, text);
}

/* The whole of a small profile, decoded by protoc. */
static const char golden[] =
	"sample_type {\n  type: 2\n  unit: 3\n}\n"
	"sample_type {\n  type: 4\n  unit: 5\n}\n"
	"sample {\n  location_id: 1\n  value: 3\n  value: 30000000\n"
	"  label {\n    key: 10\n    str: 14\n  }\n"
	"  label {\n    key: 11\n    num: 42\n  }\n"
	"  label {\n    key: 12\n    str: 13\n  }\n}\n"
	"mapping {\n  id: 1\n  memory_start: 4096\n  memory_limit: 8192\n  file_offset: 512\n"
	"  filename: 6\n  build_id: 7\n  has_functions: true\n}\n"
	"location {\n  id: 1\n  mapping_id: 1\n  address: 4660\n"
	"  line {\n    function_id: 1\n    line: 7\n  }\n}\n"
	"function {\n  id: 1\n  name: 8\n  system_name: 9\n  start_line: 5\n}\n"
	"string_table: \"\"\nstring_table: \"(too many names)\"\n"
	"string_table: \"samples\"\nstring_table: \"count\"\n"
	"string_table: \"cpu\"\nstring_table: \"nanoseconds\"\n"
	"string_table: \"/lib/libfoo.so\"\nstring_table: \"abcd\"\n"
	"string_table: \"ns::f\"\nstring_table: \"_ZN2ns1fEv\"\n"
	"string_table: \"comm\"\nstring_table: \"pid\"\nstring_table: \"host\"\n"
	"string_table: \"node-1\"\nstring_table: \"app\"\n"
	"time_nanos: 1706702400000000000\nduration_nanos: 10000000000\n"
	"period_type {\n  type: 4\n  unit: 5\n}\n"
	"period: 10101010\ndefault_sample_type: 4\n";

Test(pprof, golden)
{
	struct profile *profile = made_new();
	uint32_t process = made_process(profile, 42, "app", "");
	uint32_t mapping = made_mapping(profile, "/lib/libfoo.so", "abcd", 0x1000, 0x2000);
	uint32_t f = made_native(profile, "ns::f", mapping, 0x1234);
	char *text;

	profile->mappings[mapping - 1].off = 512;
	profile->locations[f].system_name = strtab_add(profile->strings, "_ZN2ns1fEv");
	profile->locations[f].line = 7;
	profile->locations[f].start_line = 5;
	made_add(profile, process, 3, f);
	text = decode(profile, NULL);
	/* protoc shows the fields of the outermost message by number, whatever their order. */
	cr_assert_str_eq(text, golden);
	free(text);
	made_free(profile);
}

Test(pprof, large_numbers)
{
	struct profile *profile = made_new();
	struct profile_sample *sample;
	char *text;

	made_process(profile, 1, "app", "");
	sample = made_add(profile, 0, 0, made_kernel(profile, "f", UINT64_MAX));
	sample->count = 1ULL << 62;
	sample->value_ns = 128;
	text = decode(profile, NULL);
	expect(text, "value: 4611686018427387904\n");
	expect(text, "value: 128\n");
	expect(text, "address: 18446744073709551615\n");
	free(text);
	made_free(profile);
}

Test(pprof, functions_are_shared_by_their_lines)
{
	struct profile *profile = made_golden();
	char *text = decode(profile, NULL);
	const char *at = text;
	size_t nr = 0;

	while ((at = strstr(at, "\nfunction {")) && at++)
		nr++;
	cr_assert_eq(nr, 8, "9 locations, of which 2 in one function: %zu", nr);
	free(text);
	made_free(profile);
}

Test(pprof, threads_are_labels)
{
	struct profile *profile = made_new();
	struct profile_sample *sample;
	char *text;

	profile->threads = true;
	made_process(profile, 42, "app", "");
	sample = made_add(profile, 0, 1, made_native(profile, "f", 0, 0));
	sample->tid = 77;
	sample->thread = strtab_add(profile->strings, "io");
	text = go_pprof(profile, "-raw");
	expect(text, "comm:[app] host:[node-1] thread:[io]\n");
	expect(text, "pid:[42] tid:[77]\n");
	free(text);
	profile->threads = false;
	text = go_pprof(profile, "-raw");
	expect(text, "comm:[app] host:[node-1] thread:[io]\n");
	expect_not(text, "tid:");
	free(text);
	made_free(profile);
}

Test(pprof, go_raw)
{
	struct profile *profile = made_golden();
	char *text = go_pprof(profile, "-raw");

	expect(text, "PeriodType: cpu nanoseconds\nPeriod: 10101010\n");
	expect(text, "Time: 2024-01-31 12:00:00 +0000 UTC\nDuration: 10s\n");
	expect(text, "samples/count cpu/nanoseconds[dflt]\n");
	expect(text, "          2   20000000: 5 1 2 3 4 \n");
	expect(text, "s=0(_ZN2at6native3addERKNS_6TensorE)\n");
	expect(text, "0x0 Trainer.fit /srv/app/trainer/loop.py:31 s=25\n");
	expect(text, "0x0 Trainer.fit /srv/app/trainer/loop.py:33 s=25\n");
	expect(text, "0x0 <module> /srv/app/train.py:90 s=1()\n");
	expect(text, "0x1f2e M=2 libfoo.so.1+0x1f2e :0 s=0\n");
	expect(text, "0xffffffff81234567 M=3 ksys_write_[k] :0 s=0(ksys_write)\n");
	expect(text, "1: 0x1000/0x90000/0x0 /usr/bin/python3.11 abcdef0123456789 [FN]\n");
	expect(text, "3: 0xffffffff81000000/0xffffffff82000000/0x0 [kernel.kallsyms]  [FN]");
	free(text);
	made_free(profile);
}

Test(pprof, go_top)
{
	struct profile *profile = made_golden();
	char *text = go_pprof(profile, "-top");

	expect(text, "Type: cpu\n");
	expect(text, "Duration: 10s, Total samples = 150ms");
	expect(text, "      70ms 46.67% 46.67%       90ms 60.00%  at::native::add\n");
	expect(text, "      10ms  6.67%   100%       60ms 40.00%  Trainer.fit\n");
	expect(text, "60ms 40.00%  <module>\n");
	free(text);
	made_free(profile);
}

/* pprof takes such names for C++ to be shortened, unless they are marked as final. */
Test(pprof, names_survive_the_demangler)
{
	static const char *const names[] = { "<lambda>", "f.<locals>.<listcomp>", "a<b>::c(int)",
					     "[kernel]", "[truncated]" };
	struct profile *profile = made_new();
	char *text, want[64];
	size_t i;

	made_process(profile, 1, "app", "");
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		made_add(profile, 0, 1, made_native(profile, names[i], 0, i + 1));
	text = go_pprof(profile, "-top");
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(want, sizeof(want), "  %s\n", names[i]);
		expect(text, want);
	}
	free(text);
	made_free(profile);
}

Test(pprof, counters_are_comments)
{
	struct run_stats stats = { .samples = 9, .complete = 8, .truncated = 1 };
	struct profile *profile = made_golden();
	char *text;

	stats_add(&stats.lost, "ring_full", 2);
	stats_add(&stats.lost, "scratch_busy", 0);
	profile->stats = &stats;
	text = go_pprof(profile, "-raw");
	expect(text, "Comment: lost: 2 of 11 samples: ring_full 2\n"
		     "Comment: stacks: 1 truncated, 0 unmerged of 9\n"
		     "Comment: {\"samples\":{\"total\":9,");
	expect(text, "\"scratch_busy\":0");
	expect_not(text, "samples.total");
	free(text);
	/* Three lines and the counters are all that stands above a table. */
	text = go_pprof(profile, "-top");
	expect(text, "\"duration_seconds\":0.000000}\nType: cpu\n");
	cr_expect(!strncmp(text, "File: python3.11\n", 17), "%s", text);
	free(text);
	made_free(profile);
}

/* protobuf demands UTF-8; protoc prints other bytes as octal numbers. */
Test(pprof, hostile_strings)
{
	struct profile *profile = made_new();
	char *text;

	made_process(profile, 1, "co\xffmm", "");
	made_mapping(profile, "/a\n\x1b/b", "\xfe", 0, 1);
	made_add(profile, 0, 1, made_python(profile, "f\xc3(", "/x\xed\xa0\x80.py", "", 1, 1));
	text = decode(profile, NULL);
	expect(text, "string_table: \"co\\357\\277\\275mm\"\n");
	expect(text, "string_table: \"/a  /b\"\n");
	expect(text, "string_table: \"f\\357\\277\\275(\"\n");
	expect_not(text, "\\377");
	expect_not(text, "\\376");
	expect_not(text, "\\355");
	free(text);
	made_free(profile);
}

/* Many times the buffer that it is compressed through. */
Test(pprof, large_file_is_whole)
{
	struct profile *profile = made_new();
	uint64_t total = 0, i;
	char *text, name[32], want[64];

	srandom(1);
	made_process(profile, 1, "app", "");
	for (i = 1; i <= 20000; i++) {
		snprintf(name, sizeof(name), "f%lx%lx", (unsigned long)random(),
			 (unsigned long)random());
		made_add(profile, 0, i, made_native(profile, name, 0, i));
		total += i;
	}
	text = go_pprof(profile, "-top -sample_index=samples");
	snprintf(want, sizeof(want), "Total samples = %lu", (unsigned long)total);
	expect(text, want);
	free(text);
	made_free(profile);
}

Test(pprof, empty)
{
	struct profile *profile = made_new();
	char *text = go_pprof(profile, "-raw");

	expect(text, "samples/count cpu/nanoseconds[dflt]\n");
	free(text);
	made_free(profile);
}

Test(pprof, stack_without_frames)
{
	struct profile *profile = made_new();
	char *text;

	made_process(profile, 1, "app", "");
	made_sample(profile, 0, made_stack(profile, NULL, 0), 3);
	text = go_pprof(profile, "-raw");
	expect(text, "          3   30000000: 1 \n");
	expect(text, " [unknown] :0 s=0()\n");
	free(text);
	made_free(profile);
}

Test(pprof, containers_are_labels)
{
	struct profile *profile = made_new();
	char *text;

	made_process(profile, 42, "app", "");
	made_process(profile, 43, "app", "");
	made_process(profile, 44, "web", "");
	profile->processes[0].container =
		made_container(profile, "c1", "ml", "trainer-0", "worker", "demo");
	profile->processes[0].pod_pid = 7;
	profile->processes[2].container = made_container(profile, "c2", "", "", "", NULL);
	profile->processes[1].pod_pid = 43; /* of the node itself: no label */
	for (uint32_t i = 0; i < 3; i++)
		made_add(profile, i, i + 1, made_native(profile, "f", 0, 0));
	text = go_pprof(profile, "-raw");
	expect(text, "comm:[app] container:[worker] container_id:[c1] host:[node-1] "
		     "image:[registry/train:1] namespace:[ml] pod:[trainer-0] ray_cluster:[demo] "
		     "ray_group:[gpu-group] "
		     "ray_node_type:[worker]\n");
	expect(text, "pid:[42] pod_pid:[7]\n");
	expect(text, "comm:[app] host:[node-1]\n                pid:[43]\n");
	expect(text, "comm:[web] container_id:[c2] host:[node-1]\n                pid:[44]\n");
	free(text);
	/* The labels that users filter by. */
	text = go_pprof(profile, "-top -tagfocus=pod=trainer-0");
	expect(text, "Total samples = 60ms");
	expect(text, "10ms");
	free(text);
	made_free(profile);
}

Test(pprof, ranks_are_labels)
{
	struct profile *profile = made_new();
	struct profile_ranks *ranks;
	char *text;

	made_process(profile, 42, "app", "");
	made_process(profile, 43, "app", "");
	made_process(profile, 44, "app", "");
	ranks = &profile->processes[0].ranks;
	ranks->rank = strtab_add(profile->strings, "3");
	ranks->local_rank = strtab_add(profile->strings, "1");
	ranks->world_size = strtab_add(profile->strings, "8");
	ranks->slurm_job = strtab_add(profile->strings, "4711");
	ranks->slurm_node = strtab_add(profile->strings, "2");
	ranks->slurm_task = strtab_add(profile->strings, "5");
	profile->processes[1].ranks.slurm_job = ranks->slurm_job;
	for (uint32_t i = 0; i < 3; i++)
		made_add(profile, i, i + 1, made_native(profile, "f", 0, 0));
	text = go_pprof(profile, "-raw");
	expect(text, "comm:[app] host:[node-1] local_rank:[1] rank:[3] slurm_job:[4711] "
		     "slurm_node:[2] slurm_task:[5] world_size:[8]\n                pid:[42]\n");
	expect(text, "comm:[app] host:[node-1] slurm_job:[4711]\n                pid:[43]\n");
	expect(text, "comm:[app] host:[node-1]\n                pid:[44]\n");
	free(text);
	made_free(profile);
}

/* The text from the first sample with this value up to the next message. */
static char *sample_with(const char *text, const char *value)
{
	const char *at = strstr(text, value), *begin = at, *end = at ? strstr(at, "\n}\n") : NULL;

	cr_assert(at && end, "no '%s' in:\n%s", value, text);
	while (begin > text && strncmp(begin, "\nsample {", 9))
		begin--;
	return strndup(begin, (size_t)(end - begin));
}

/* The profile of calls as text, with strings instead of their numbers. */
/* Two pairs of values, as of Go's heap profiles. */
Test(pprof, values_beside)
{
	struct profile *profile = made_new();
	char *text;

	made_process(profile, 1, "app", "");
	made_add(profile, 0, 3, made_native(profile, "keeps", 0, 1));
	profile->samples[0].value_ns = 4096;
	profile->value.count_type = strtab_add(profile->strings, "inuse_objects");
	profile->value.type = strtab_add(profile->strings, "inuse_space");
	profile->value.unit = strtab_add(profile->strings, "bytes");
	profile->beside = calloc(1, sizeof(*profile->beside));
	profile->beside[0] = (struct profile_beside){ .count = 7, .value = 8192 };
	profile->beside_value = profile->value;
	profile->beside_value.count_type = strtab_add(profile->strings, "alloc_objects");
	profile->beside_value.type = strtab_add(profile->strings, "alloc_space");
	text = go_pprof(profile, "-raw");
	expect(text, "alloc_objects/count alloc_space/bytes inuse_objects/count "
		     "inuse_space/bytes[dflt]\n");
	expect(text, "7       8192          3       4096: 1");
	free(text);
	made_free(profile);
}

Test(pprof, calls)
{
	struct profile *profile = made_calls();
	char *text = decode(profile, NULL), *sample;

	expect(text, "sample_type {\n  type: 2\n  unit: 3\n}\nsample_type {\n  type: 4\n  unit: 5\n"
		     "}\nsample_type {\n  type: 6\n  unit: 7\n}\nsample_type {\n  type: 8\n"
		     "  unit: 7\n}\nsample_type {\n  type: 9\n  unit: 7\n}\n"
		     "sample_type {\n  type: 10\n  unit: 5\n}\n");
	expect(text, "string_table: \"calls\"\nstring_table: \"count\"\n"
		     "string_table: \"blocked\"\nstring_table: \"nanoseconds\"\n"
		     "string_table: \"moved\"\nstring_table: \"bytes\"\n"
		     "string_table: \"allocated\"\nstring_table: \"inuse\"\n"
		     "string_table: \"starved\"\n");
	expect(text, "default_sample_type: 2\n");
	expect_not(text, "\nperiod");
	sample = sample_with(text, "  value: 2\n  value: 1500\n  value: 4096\n  value: 0\n"
				   "  value: 0\n  value: 0\n");
	expect(sample, "location_id: 3\n");
	free(sample);
	/* Functions alone: no mapping, no address. */
	expect(text, "location {\n  id: 1\n  line {\n    function_id: 1\n  }\n}\n");
	free(text);
	text = go_pprof(profile, "-tags");
	expect(text, " kernel: Total 9.0\n");
	expect(text, " 9.0 (  100%): void sgemm<128, 4>\n");
	expect(text, " comm: Total 12.0\n");
	expect(text, " communicator: Total 3.0\n");
	expect(text, " 3.0 (  100%): 0xc0\n");
	expect(text, " nccl_rank: Total 2.0\n");
	expect(text, " 2.0 (  100%): 3\n");
	expect(text, " rank: Total 12.0\n");
	expect(text, " 1.0 ( 8.33%): 3\n");
	expect(text, " 3.0 (  100%): sum\n");
	free(text);
	text = go_pprof(profile, "-sample_index=inuse -top");
	expect(text, "cuMemFree");
	free(text);
	made_free(profile);
}

/* The keys of a sample's labels, as they stand in the file. */
static size_t label_keys(struct wire_span sample, uint64_t *keys, size_t max)
{
	struct wire_field field, part;
	size_t nr = 0;

	while (wire_next(&sample, &field) > 0) {
		if (field.number != SAMPLE_LABEL)
			continue;
		cr_assert_lt(nr, max);
		keys[nr] = 0;
		while (wire_next(&field.bytes, &part) > 0)
			if (part.number == LABEL_KEY)
				keys[nr] = part.value;
		nr++;
	}
	return nr;
}

/* A sample with every possible label. */
static void say_all(struct profile *profile)
{
	struct strtab *strings = profile->strings;
	uint32_t text = strtab_add(strings, "text"), i;

	for (i = 0; i < profile->nr_processes; i++) {
		profile->processes[i].container =
			made_container(profile, "c1", "ml", "trainer-0", "worker", "demo");
		profile->processes[i].pod_pid = 7;
		profile->processes[i].task = profile->processes[i].ray_role = text;
		profile->processes[i].ranks.local_rank = profile->processes[i].ranks.world_size =
			profile->processes[i].ranks.slurm_job =
				profile->processes[i].ranks.slurm_node =
					profile->processes[i].ranks.slurm_task = text;
	}
	profile->threads = true;
	for (i = 0; i < profile->nr_samples; i++) {
		profile->samples[i].tid = 77;
		profile->samples[i].thread = text;
		profile->samples[i].gil = PROFILE_GIL_HELD;
	}
}

/* Readers keep one text per key: of two only one would be seen. */
Test(pprof, no_label_twice)
{
	struct profile *profile = made_calls();
	size_t len, nr, i, k, nr_samples = 0;
	unsigned char plain[65536];
	struct wire_field field;
	struct wire_span span;
	z_stream zip = { .next_out = plain, .avail_out = sizeof(plain) };
	uint64_t keys[64];
	char *packed;

	say_all(profile);
	packed = made_text(pprof_write, profile, NULL, &len);
	zip.next_in = (unsigned char *)packed;
	zip.avail_in = (unsigned int)len;
	cr_assert_eq(inflateInit2(&zip, 16 + MAX_WBITS), Z_OK);
	cr_assert_eq(inflate(&zip, Z_FINISH), Z_STREAM_END);
	inflateEnd(&zip);
	span = (struct wire_span){ plain, zip.next_out };
	while (wire_next(&span, &field) > 0) {
		if (field.number != PROFILE_SAMPLE)
			continue;
		nr_samples++;
		nr = label_keys(field.bytes, keys, 64);
		cr_expect_gt(nr, 14);
		for (i = 0; i < nr; i++)
			for (k = 0; k < i; k++)
				cr_expect_neq(keys[i], keys[k], "label %zu again as %zu", k, i);
	}
	cr_expect_eq(nr_samples, 4);
	free(packed);
	made_free(profile);
}
