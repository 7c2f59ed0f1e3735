// SPDX-License-Identifier: Apache-2.0
#include "profile/stats.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "made_profile.h"

TestSuite(stats, .timeout = 60);

static void fill(struct run_stats *stats)
{
	*stats = (struct run_stats){
		.samples = 1000,
		.user = 900,
		.kernel_only = 100,
		.python = 400,
		.complete = 970,
		.truncated = 27,
		.unmerged = 3,
		.startup_seconds = 0.25,
		.cpu_seconds = 1.5,
		.rss_bytes = 20 << 20,
		.peak_rss_bytes = 30 << 20,
		.bpf_map_bytes = 10 << 20,
		.memory_bytes = 25 << 20,
		.bpf_runs = 2000,
		.bpf_ns = 20000000,
		.bpf_ns_source = "kernel",
		.clock_name = "timer",
		.duration_seconds = 10.25,
	};
	stats_add(&stats->lost, "ring_full", 8);
	stats_add(&stats->lost, "scratch_busy", 0);
	stats_add(&stats->stack_reasons, "miss_window", 27);
	stats_add(&stats->clock, "cpus_unarmed", 1);
	stats_add(&stats->files, "malformed", 2);
	stats_add(&stats->containers, "from_bundle", 3);
	stats_add(&stats->environments, "read", 4);
	stats_add(&stats->steps, "seen", 5);
}

Test(stats, add_sums_equal_names)
{
	struct stats_reasons reasons = { .nr = 0 };

	stats_add(&reasons, "a", 1);
	stats_add(&reasons, "b", 2);
	stats_add(&reasons, "a", 4);
	cr_assert_eq(reasons.nr, 2);
	cr_assert_eq(reasons.reasons[0].count, 5);
	cr_assert_eq(stats_total(&reasons), 7);
}

Test(stats, add_past_the_end_goes_to_other)
{
	struct stats_reasons reasons = { .nr = 0 };
	static char names[STATS_MAX_REASONS + 10][16];
	size_t i;

	for (i = 0; i < STATS_MAX_REASONS + 10; i++) {
		snprintf(names[i], sizeof(names[i]), "reason_%zu", i);
		stats_add(&reasons, names[i], 1);
	}
	cr_assert_eq(reasons.nr, STATS_MAX_REASONS);
	cr_assert_str_eq(reasons.reasons[STATS_MAX_REASONS - 1].name, "other");
	cr_assert_eq(reasons.reasons[STATS_MAX_REASONS - 1].count, 11);
	stats_add(&reasons, "reason_0", 1);
	cr_assert_eq(reasons.reasons[0].count, 2);
	cr_assert_eq(stats_total(&reasons), STATS_MAX_REASONS + 11);
}

static const char golden_json[] =
	"{\"samples\":{\"total\":1000,\"user\":900,\"kernel_only\":100,\"python\":400},"
	"\"lost\":{\"ring_full\":8,\"scratch_busy\":0},"
	"\"stacks\":{\"complete\":970,\"truncated\":27,\"unmerged\":3,"
	"\"reasons\":{\"miss_window\":27}},"
	"\"agent\":{\"startup_seconds\":0.250000,\"cpu_seconds\":1.500000,\"rss_bytes\":20971520,"
	"\"peak_rss_bytes\":31457280,\"bpf_map_bytes\":10485760,\"memory_bytes\":26214400,"
	"\"bpf_runs\":2000,\"bpf_ns\":20000000,\"bpf_ns_source\":\"kernel\"},"
	"\"clock\":{\"name\":\"timer\",\"cpus_unarmed\":1},\"walk\":{},\"files\":{\"malformed\":2},"
	"\"containers\":{\"from_bundle\":3},\"environments\":{\"read\":4},\"steps\":{\"seen\":5},"
	"\"duration_seconds\":10."
	"250000}";

Test(stats, json)
{
	struct run_stats stats;
	struct buf json;

	fill(&stats);
	buf_init(&json, 1 << 16);
	stats_json(&json, &stats);
	cr_assert_str_eq(json.data, golden_json);
	buf_fini(&json);
}

Test(stats, refused_work_has_a_row_each)
{
	struct run_stats before = { 0 }, stats;
	struct buf json;
	size_t i;

	stats_add_refused(&before, "uid 1", "files", 3);
	stats_add_refused(&before, "uid 2", "jobs", 7);
	stats = before;
	stats.refused[1].count = 9;
	stats_add_refused(&stats, "ml/\"0\"", "files", 1);
	stats_since(&stats, &before);
	buf_init(&json, 1 << 16);
	stats_json(&json, &stats);
	cr_assert(strstr(json.data,
			 "},\"refused\":[{\"container\":\"uid 2\",\"reason\":\"jobs\",\"count\":2},"
			 "{\"container\":\"ml/\\\"0\\\"\",\"reason\":\"files\",\"count\":1}],"
			 "\"duration_seconds\":"),
		  "%s", json.data);
	buf_fini(&json);
	stats = (struct run_stats){ 0 };
	for (i = 0; i < STATS_MAX_REFUSED + 10; i++)
		stats_add_refused(&stats, "uid 1", "files", 1);
	cr_assert_eq(stats.nr_refused, STATS_MAX_REFUSED);
	cr_assert_eq(stats.refused[STATS_MAX_REFUSED - 1].count, 11);
	cr_assert_str_eq(stats.refused[STATS_MAX_REFUSED - 1].container, "others");
}

Test(stats, json_is_json_whatever_the_numbers)
{
	struct run_stats stats = { .startup_seconds = NAN,
				   .cpu_seconds = INFINITY,
				   .duration_seconds = -1 };
	struct buf json;
	int status;
	char *text;

	buf_init(&json, 1 << 16);
	stats_json(&json, &stats);
	text = made_run("python3 -c 'import json,sys; d=json.load(sys.stdin); "
			"print(d[\"agent\"][\"cpu_seconds\"], d[\"duration_seconds\"], "
			"d[\"clock\"][\"name\"])'",
			json.data, json.len, &status);
	cr_assert_eq(status, 0, "%s", text);
	cr_assert_str_eq(text, "0.0 0.0 \n");
	free(text);
	buf_fini(&json);
}

Test(stats, lines_say_what_was_lost)
{
	struct run_stats stats;
	struct buf text;

	fill(&stats);
	buf_init(&text, 1 << 16);
	stats_lines(&text, &stats);
	cr_assert_str_eq(text.data, "lost: 8 of 1008 samples: ring_full 8\n"
				    "stacks: 27 truncated, 3 unmerged of 1000: miss_window 27\n"
				    "files: malformed 2\nclock: timer, cpus_unarmed 1\n");
	/* That all is well is said, too. */
	stats = (struct run_stats){ .samples = 9, .complete = 9, .clock_name = "timer" };
	stats_add(&stats.clock, "ticks", 99);
	stats_add(&stats.clock, "idle", 90);
	stats.rest_of = "node";
	buf_reset(&text);
	stats_lines(&text, &stats);
	cr_assert_str_eq(text.data,
			 "rest_of: node\nlost: none\nstacks: all complete\nclock: timer\n");
	/* A recording may have no calls, only losses of calls. */
	stats = (struct run_stats){ 0 };
	stats_add(&stats.gpu_lost, "allocations_no_room", 3);
	buf_reset(&text);
	stats_lines(&text, &stats);
	cr_assert_str_eq(text.data, "gpu.lost: allocations_no_room 3\n");
	buf_fini(&text);
}

Test(stats, text)
{
	struct run_stats stats;
	struct buf text;

	fill(&stats);
	buf_init(&text, 1 << 16);
	stats_text(&text, &stats, true);
	cr_assert_str_eq(text.data,
			 "Samples: 1000 in 10.2 s: 900 user (400 Python), 100 kernel only\n"
			 "Lost: 8 (0.8%; ring full 8)\n"
			 "Stacks: 97.0% complete, 27 truncated, 3 not merged (miss window 27)\n"
			 "Clock: timer; cpus unarmed 1\n"
			 "Containers: from bundle 3\n"
			 "Environments: read 4\n"
			 "Files: malformed 2\n"
			 "Steps: seen 5\n"
			 "Profiler: 1.50 s CPU, 25.0 MiB, 10.0 us per sample in the kernel\n");
	buf_reset(&text);
	stats_text(&text, &stats, false);
	cr_assert_str_eq(text.data,
			 "Samples: 1000 in 10.2 s: 900 user (400 Python), 100 kernel only\n"
			 "Lost: 8 (0.8%; ring full 8)\n"
			 "Stacks: 97.0% complete, 27 truncated, 3 not merged (miss window 27)\n"
			 "Clock: timer; cpus unarmed 1\n"
			 "Files: malformed 2\n"
			 "Steps: seen 5\n"
			 "Profiler: 1.50 s CPU, 25.0 MiB, 10.0 us per sample in the kernel\n");
	buf_fini(&text);
}

Test(stats, text_of_nothing)
{
	struct run_stats stats = { .duration_seconds = 2 };
	struct buf text;

	buf_init(&text, 1 << 16);
	stats_text(&text, &stats, true);
	cr_assert_str_eq(text.data, "Samples: 0 in 2.0 s\nLost: none\n");
	buf_fini(&text);
}

/* A process that hangs in a call since before the recording makes none. */
Test(stats, text_of_no_calls)
{
	struct run_stats stats = { .duration_seconds = 2 };
	struct buf text;

	stats_add(&stats.gpu_calls, "launch", 0);
	buf_init(&text, 1 << 16);
	stats_text(&text, &stats, true);
	cr_assert_str_eq(text.data,
			 "Samples: 0 in 2.0 s\nLost: none\n"
			 "CUDA and NCCL calls: 0 began; bpfprof gpu shows those that began before\n"
			 "Stacks of calls: 0 taken, 0 not, over the rate\n");
	buf_fini(&text);
}

Test(stats, since)
{
	struct run_stats before = { .samples = 10, .cpu_seconds = 1, .bpf_ns = 5 };
	struct run_stats now = { .samples = 25, .cpu_seconds = 3, .bpf_ns = 7, .rss_bytes = 9 };

	stats_add(&before.lost, "old", 3);
	stats_add(&before.lost, "more", 3);
	stats_add(&before.files, "less", 5);
	stats_add(&now.lost, "old", 3);
	stats_add(&now.lost, "more", 10);
	stats_add(&now.lost, "new", 1);
	stats_add(&now.lost, "zero", 0);
	stats_add(&now.files, "less", 2); /* a gauge: never below nothing */
	stats_since(&now, &before);
	cr_expect_eq(now.samples, 15);
	cr_expect_eq(now.bpf_ns, 2);
	cr_expect_eq(now.rss_bytes, 9);
	cr_expect_eq((int)now.cpu_seconds, 2);
	cr_assert_eq(now.lost.nr, 3);
	cr_expect_str_eq(now.lost.reasons[0].name, "more");
	cr_expect_eq(now.lost.reasons[0].count, 7);
	cr_expect_eq(now.lost.reasons[1].count, 1);
	cr_expect_str_eq(now.lost.reasons[2].name, "zero");
	cr_expect_eq(stats_total(&now.files), 0);
}

/* Each group but the one that stats_add_samples() adds. */
Test(stats, add_groups)
{
	struct run_stats to = { 0 }, from = { .samples = 5 };
	enum counter_group group;

	for (group = COUNTER_LOST; group < COUNTER_TRACE; group++) {
		stats_add(stats_group(&from, group), "some", group);
		stats_add(stats_group(&to, group), "some", 100);
	}
	stats_add_groups(&to, &from);
	cr_expect_eq(to.samples, 0);
	for (group = COUNTER_LOST; group < COUNTER_TRACE; group++)
		cr_expect_eq(stats_total(stats_group(&to, group)),
			     100 + (group == COUNTER_STACKS ? 0 : group), "group %d", group);
}
