// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/strtab.h"
#include "formats/output.h"
#include "profile/history.h"
#include "profile/parts.h"
#include "made_profile.h"

TestSuite(parts);

static struct run_stats stats = {
	.samples = 99, .complete = 99, .refused = { { "ml/pod-a/x", "files", 1 } }, .nr_refused = 1
};

/* Two containers of one pod, two pods of one name, one without a pod, a process of the node. */
static struct profile *made(void)
{
	struct profile *profile = made_new();
	uint32_t a = made_process(profile, 1, "a", ""), b = made_process(profile, 2, "b", "");
	uint32_t c = made_process(profile, 3, "c", ""), d = made_process(profile, 4, "d", "");
	uint32_t node = made_process(profile, 5, "node", ""), e = made_process(profile, 6, "e", "");
	uint32_t first = made_mapping(profile, "/first", "11", 0, 4096),
		 second = made_mapping(profile, "/second", "22", 0, 4096);
	uint32_t one = made_native(profile, "one", first, 16),
		 two = made_native(profile, "two", second, 32);
	uint32_t both = made_native(profile, "both", second, 48);
	uint32_t kernel = made_kernel(profile, "kernel", 64);
	uint32_t cut = made_marker(profile, "[truncated]");
	uint32_t python = made_python(profile, "work", "/x.py", "x.py", 3, 1);

	profile->processes[a].container = made_container(profile, "id1", "ml", "pod-a", "x", NULL);
	made_container(profile, "id-i", "ml", "idle", "x", NULL);
	profile->processes[c].container = made_container(profile, "id2", "ml", "pod-c", "x", NULL);
	profile->processes[b].container = made_container(profile, "id3", "ml", "pod-a", "y", NULL);
	profile->processes[d].container = made_container(profile, "id4", "", "", "docker", NULL);
	profile->processes[e].container = made_container(profile, "id6", "web", "pod-c", "x", NULL);
	made_add(profile, a, 1, one, both);
	made_add(profile, c, 2, two, both);
	made_add(profile, b, 4, kernel);
	made_add(profile, node, 8, both, cut);
	made_add(profile, d, 16, python, one);
	made_add(profile, a, 32, python, both);
	made_add(profile, e, 64, two);
	profile->stats = &stats;
	return profile;
}

static const struct {
	const char *namespace, *pod;
	uint64_t samples, python, kernel_only, truncated;
	size_t nr_locations, nr_mappings, nr_processes, nr_containers;
	const char *has, *has_not; /* functions */
} wanted[] = {
	{ NULL, NULL, 24, 16, 0, 8, 4, 2, 2, 1, "both", "two" },
	{ "ml", "pod-a", 37, 32, 4, 0, 4, 2, 2, 2, "one", "two" },
	{ "ml", "pod-c", 2, 0, 0, 0, 2, 1, 1, 1, "two", "one" },
	{ "web", "pod-c", 64, 0, 0, 0, 1, 1, 1, 1, "two", "both" },
};

static bool has_name(const struct profile *profile, const char *name)
{
	for (size_t i = 0; i < profile->nr_locations; i++)
		if (!strcmp(strtab_get(profile->strings, profile->locations[i].name), name))
			return true;
	return false;
}

static void expect_indexes(const struct profile *part)
{
	for (size_t i = 0; i < part->nr_samples; i++) {
		cr_assert_lt(part->samples[i].process, part->nr_processes);
		cr_assert_lt(part->samples[i].stack, part->nr_stacks);
	}
	for (size_t i = 1; i < part->nr_stacks; i++) {
		cr_assert_lt(part->stack_locations[i], part->nr_locations);
		cr_assert_lt(part->stack_callers[i], i);
	}
	for (size_t i = 0; i < part->nr_locations; i++)
		cr_assert_leq(part->locations[i].mapping, part->nr_mappings);
	for (size_t i = 0; i < part->nr_processes; i++)
		cr_assert_leq(part->processes[i].container, part->nr_containers);
}

Test(parts, pods)
{
	struct profile *profile = made();
	struct profile_parts *parts;
	struct profile_part part;
	uint64_t total = 0;
	size_t i, k;

	cr_assert_eq(profile_parts_new(&parts, profile, PROFILE_CUT_PODS), 0);
	cr_assert_eq(profile_parts_count(parts), 4);
	for (k = 0; k < 2; k++) { /* the second time as the first */
		for (i = 0; i < 4; i++) {
			cr_assert_eq(profile_part_make(parts, i, &part), 0);
			cr_expect_eq(!part.pod, !wanted[i].pod);
			if (part.pod) {
				cr_expect_str_eq(part.pod, wanted[i].pod);
				cr_expect_str_eq(part.namespace, wanted[i].namespace);
			}
			expect_indexes(&part.profile);
			cr_expect_eq(part.stats.samples, wanted[i].samples);
			cr_expect_eq(part.stats.python, wanted[i].python);
			cr_expect_eq(part.stats.kernel_only, wanted[i].kernel_only);
			cr_expect_eq(part.stats.truncated, wanted[i].truncated);
			cr_expect_eq(part.stats.complete, wanted[i].samples - wanted[i].truncated);
			cr_expect_eq(part.profile.nr_locations, wanted[i].nr_locations);
			cr_expect_eq(part.profile.nr_mappings, wanted[i].nr_mappings);
			cr_expect_eq(part.profile.nr_processes, wanted[i].nr_processes);
			cr_expect_eq(part.profile.nr_containers, wanted[i].nr_containers);
			cr_expect(has_name(&part.profile, wanted[i].has));
			cr_expect_not(has_name(&part.profile, wanted[i].has_not));
			cr_expect_eq(part.profile.time_ns, profile->time_ns);
			total += part.stats.samples;
			profile_part_fini(&part);
		}
	}
	cr_expect_eq(total, 2 * 127);
	profile_parts_free(parts);
	made_free(profile);
}

/* The writers' output of a part: its own stacks, no name of another pod. */
Test(parts, files)
{
	struct profile *profile = made();
	struct output_options options = { 0 };
	struct profile_parts *parts;
	struct profile_part part;
	char *text;

	cr_assert_eq(profile_parts_new(&parts, profile, PROFILE_CUT_PODS), 0);
	cr_assert_eq(profile_part_make(parts, 2, &part), 0);
	text = made_text(folded_write, &part.profile, &options, NULL);
	cr_expect(strstr(text, "\nml/pod-c/x;c;both;two 2\n"), "%s", text);
	cr_expect(strstr(text, "\"rest_of\":\"node\""), "%s", text);
	cr_expect_null(strstr(text, "pod-a"), "%s", text);
	free(text);
	text = made_text(html_write, &part.profile, &options, NULL);
	cr_expect_null(strstr(text, "pod-a"));
	free(text);
	profile_part_fini(&part);
	profile_parts_free(parts);
	made_free(profile);
}

/* Names of one process are one part, in the order of the pids; without samples there is none. */
Test(parts, processes)
{
	struct profile *profile = made();
	uint32_t again = made_process(profile, 2, "b-after-exec", "");
	struct profile_parts *parts;
	struct profile_part part;
	uint64_t total = 0;

	made_process(profile, 9, "idle", "");
	profile->processes[again].kernel_pid = 2;
	made_add(profile, again, 128, made_kernel(profile, "late", 80));
	profile->processes[3].pid = 0; /* not in our pid namespace */
	cr_assert_eq(profile_parts_new(&parts, profile, PROFILE_CUT_PROCESSES), 0);
	cr_assert_eq(profile_parts_count(parts), 6);
	for (size_t i = 0; i < 6; i++) {
		cr_assert_eq(profile_part_make(parts, i, &part), 0);
		cr_expect_eq(part.pid, i + 1);
		cr_expect_null(part.pod);
		cr_expect_eq(part.profile.nr_processes, i == 1 ? 2 : 1);
		expect_indexes(&part.profile);
		total += part.stats.samples;
		profile_part_fini(&part);
	}
	cr_expect_eq(total, 127 + 128);
	profile_parts_free(parts);
	made_free(profile);
}

Test(parts, empty)
{
	struct profile *profile = made_new();
	struct profile_parts *parts;
	struct profile_part part;

	cr_assert_eq(profile_parts_new(&parts, profile, PROFILE_CUT_PODS), 0);
	cr_assert_eq(profile_parts_count(parts), 1);
	cr_assert_eq(profile_part_make(parts, 0, &part), 0);
	cr_expect_eq(part.profile.nr_samples, 0);
	cr_expect_null(part.profile.stats);
	profile_part_fini(&part);
	profile_parts_free(parts);
	made_free(profile);
}

/* Each part has its own calls only. */
Test(parts, calls)
{
	struct profile *profile = made_calls();
	struct profile_parts *parts;
	struct profile_part part;

	cr_assert_eq(profile_parts_new(&parts, profile, PROFILE_CUT_PROCESSES), 0);
	cr_assert_eq(profile_parts_count(parts), 2);
	cr_assert_eq(profile_part_make(parts, 1, &part), 0);
	expect_indexes(&part.profile);
	cr_assert(part.profile.nr_samples == 2 && part.profile.nr_calls == 2);
	cr_expect(part.profile.samples[0].call == 1 && part.profile.samples[1].call == 2);
	cr_expect_str_eq(strtab_get(profile->strings, part.profile.calls[0].rank), "3");
	cr_expect_eq(part.profile.call_values[0][PROFILE_MOVED_BYTES], 2048);
	cr_expect_eq(part.profile.call_values[1][PROFILE_INUSE_BYTES], 512);
	cr_expect(part.stats.samples == 1 && part.stats.truncated == 0);
	profile_part_fini(&part);
	profile_parts_free(parts);
	made_free(profile);
}

/* Each part has the series of its processes, also of stacks without a sample, and a peak of its own. */
Test(parts, history)
{
	static const int32_t kib[] = { 1, 9, 0, 5, 0, 7, 8, 8, 8, -2, 0, 0 };
	struct profile *profile = made();
	struct profile_history *history = profile_history_new(3, 4, 2);
	struct profile_parts *parts;
	struct profile_part part;

	cr_assert(history);
	history->what = "held";
	history->nr_bands = 2;
	history->bands[0] = strtab_add(profile->strings, "small");
	history->bands[1] = strtab_add(profile->strings, "large");
	history->series[0] = (struct history_series){ .process = 0,
						      .stack = profile->samples[0].stack,
						      .band = 1 };
	history->series[1] = (struct history_series){ .process = 1,
						      .stack = profile->samples[3].stack,
						      .band = 2 };
	history->series[2] = (struct history_series){ .process = 2,
						      .stack = profile->samples[1].stack,
						      .band = 0 };
	history->series[3] = (struct history_series){ .process = 2,
						      .stack = profile->samples[2].stack,
						      .band = 1 };
	memcpy(history->kib, kib, sizeof(kib));
	history->ns[2] = 77;
	profile->history = history;
	cr_assert_eq(profile_parts_new(&parts, profile, PROFILE_CUT_PODS), 0);
	cr_assert_eq(profile_part_make(parts, profile_parts_find(parts, "ml", "pod-a"), &part), 0);
	history = part.profile.history;
	expect_indexes(&part.profile);
	cr_assert_eq(history->nr_series, 2);
	cr_assert(history->nr_bands == 1 && history->peak == 1 && history->ns[2] == 77);
	cr_expect_str_eq(strtab_get(profile->strings, history->bands[0]), "large");
	cr_expect(history->series[0].band == 0 && history->series[1].band == 1);
	cr_expect_lt(history->series[1].stack, part.profile.nr_stacks);
	cr_expect(has_name(&part.profile, "[truncated]"), "of a stack without a sample of the pod");
	cr_expect(history->total_kib[0] == 6 && history->total_kib[1] == 9 &&
		  history->total_kib[2] == 7);
	profile_part_fini(&part);
	cr_assert_eq(profile_part_make(parts, profile_parts_find(parts, "ml", "pod-c"), &part), 0);
	history = part.profile.history;
	cr_assert_eq(history->nr_series, 2);
	cr_expect_str_eq(strtab_get(profile->strings, history->bands[0]), "small");
	cr_expect(history->series[0].band == 0 && history->series[1].band == 1);
	cr_expect(history->total_kib[0] == 6 && history->kib[5] == 0);
	profile_part_fini(&part);
	profile_parts_free(parts);
	made_free(profile);
}

static const char *lead_of(const struct profile *profile)
{
	return strtab_get(profile->strings, profile->mappings[0].path);
}

/* Four programs: the one with the most samples comes first, among the pids if there are any. */
Test(parts, program_in_front)
{
	struct profile *profile = made(), *none;
	uint32_t exe = made_mapping(profile, "/exe", "33", 0, 4096);
	uint32_t idle = made_mapping(profile, "/idle", "44", 0, 4096);
	struct profile_parts *parts;
	struct profile_part part;
	size_t i;

	profile->processes[0].program = profile->processes[1].program = 1;
	profile->processes[2].program = 2;
	profile->processes[5].program = exe;
	profile->processes[4].program = idle;
	profile_lead(profile, (const int[]){ 3, 5 }, 2);
	cr_expect_str_eq(lead_of(profile), "/idle", "8 of pid 5 are more than 2 of pid 3");
	cr_expect_str_eq(strtab_get(profile->strings, profile->mappings[1].path), "/first");
	cr_expect_eq(profile->processes[4].program, 1);
	cr_expect_eq(profile->locations[0].mapping, 2);
	profile_lead(profile, (const int[]){ 9 }, 1);
	cr_expect_str_eq(lead_of(profile), "/exe", "no such pid: 64 are the most");
	profile_lead(profile, NULL, 0);
	cr_expect_str_eq(lead_of(profile), "/exe");
	profile->target_program = 4;
	profile_lead(profile, (const int[]){ 5 }, 1);
	cr_expect_str_eq(lead_of(profile), "/idle", "it ran");
	profile_lead(profile, (const int[]){ 9 }, 1);
	cr_expect_str_eq(lead_of(profile), "/second", "it did not");
	cr_expect_eq(profile->target_program, 1);
	/* Each part its own, though no frame of it is in there. */
	cr_assert_eq(profile_parts_new(&parts, profile, PROFILE_CUT_PODS), 0);
	for (i = 0; i < 4; i++) {
		static const char *const leads[] = { "/idle", "/first", "/second", "/exe" };

		cr_assert_eq(profile_part_make(parts, i, &part), 0);
		cr_expect_str_eq(lead_of(&part.profile), leads[i]);
		profile_part_fini(&part);
	}
	profile_parts_free(parts);
	made_free(profile);
	none = made_new();
	profile_lead(none, NULL, 0);
	cr_expect_eq(none->nr_mappings, 0);
	made_free(none);
}
