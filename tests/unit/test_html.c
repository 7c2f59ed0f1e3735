// SPDX-License-Identifier: Apache-2.0
#include "formats/output.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/strtab.h"
#include "profile/history.h"
#include "profile/stats.h"
#include "made_profile.h"

TestSuite(html, .timeout = 120);
TestSuite(svg, .timeout = 120);

#define READER "tests/unit/read_flame_graph.py"

static char *read_back(const char *form, const struct profile *profile,
		       const struct output_options *options)
{
	char command[128], *page, *text;
	size_t len;
	int status;

	if (access(READER, R_OK))
		cr_skip_test("not run from the root of the source tree");
	page = made_text(*form == 's' ? svg_write : html_write, profile, options, &len);
	snprintf(command, sizeof(command), "python3 " READER " %s", form);
	text = made_run(command, page, len, &status);
	cr_assert_eq(status, 0, "%s", text);
	free(page);
	return text;
}

static void expect(const char *text, const char *part)
{
	cr_expect(strstr(text, part), "no '%s' in:\n%s", part, text);
}

static const char golden[] =
	"dd;[kernel]_[k];ksys_write_[k] 5 011\n"
	"python3;Py_RunMain;<module> (train.py:90);Trainer.fit (trainer/loop.py:31);"
	"at::native::add 3 02332\n"
	"python3;Py_RunMain;<module> (train.py:90);Trainer.fit (trainer/loop.py:31);"
	"at::native::add;libfoo.so.1+0x1f2e 2 023322\n"
	"python3;Py_RunMain;<module> (train.py:90);Trainer.fit (trainer/loop.py:33) 1 0233\n"
	"python3;[truncated];at::native::add 4 042\n";

Test(html, stacks)
{
	struct profile *profile = made_golden();
	char *text = read_back("html", profile, NULL);

	cr_expect(!strncmp(text, golden, strlen(golden)), "%s", text);
	expect(text, "\nscripts 2, ns 150000000, lost None\n");
	expect(text, "\nCPU flame graph\nnode-1 \xc2\xb7 2024-01-31 12:00:00 UTC \xc2\xb7 "
		     "10.0 s at 99 Hz\n");
	free(text);
	made_free(profile);
}

/* The container stands before the process, and only if there are several. */
Test(html, containers)
{
	struct profile *profile = made_new();
	uint32_t f = made_native(profile, "f", 0, 0);
	char *text;

	made_add(profile, made_process(profile, 1, "app", ""), 5, f);
	made_add(profile, made_process(profile, 2, "app", ""), 3, f);
	profile->processes[0].container = made_container(profile, "c1", "ml", "a", "w", NULL);
	profile->processes[1].container = profile->processes[0].container;
	text = read_back("html", profile, NULL);
	cr_expect(!strncmp(text, "app;f 8 02\n", 11), "%s", text);
	free(text);
	profile->processes[1].container = made_container(profile, "c2", "ml", "b", "w", NULL);
	text = read_back("html", profile, NULL);
	cr_expect(!strncmp(text, "ml/a/w;app;f 5 002\nml/b/w;app;f 3 002\n", 38), "%s", text);
	free(text);
	/* In no pod: its name, or the beginning of its id. */
	profile->processes[1].container =
		made_container(profile, "0123456789abcdef", "", "", "", NULL);
	text = read_back("html", profile, NULL);
	cr_expect(!strncmp(text, "0123456789ab;app;f 3 002\nml/a/w;", 31), "%s", text);
	free(text);
	profile->processes[1].container = 0; /* of the node itself */
	text = read_back("html", profile, NULL);
	cr_expect(!strncmp(text, "app;f 3 02\nml/a/w;app;f 5 002\n", 30), "%s", text);
	free(text);
	made_free(profile);
}

Test(html, title_and_counters)
{
	const struct output_options options = { .title = "train <1> & \"2\"" };
	struct run_stats stats = { .samples = 15, .user = 15, .duration_seconds = 10 };
	struct profile *profile = made_golden();
	char *text;

	stats_add(&stats.lost, "ring_full", 5);
	profile->stats = &stats;
	text = read_back("html", profile, &options);
	expect(text, "\ntrain <1> & \"2\"\n");
	expect(text, "\nSamples: 15 in 10.0 s: 15 user, 0 kernel only\n");
	expect(text, "\nLost: 5 (25.0%; ring full 5)\n");
	expect(text, ", lost {'ring_full': 5}\n");
	free(text);
	made_free(profile);
}

/* Stacks that hold nothing in the end are in the graph, too; of equal paths the values are one. */
Test(html, timeline)
{
	static const int32_t kib[] = { 0, 8, 8, 0, 5, 0, 0, -2, 1 };
	struct profile *profile = made_new();
	uint32_t f = made_native(profile, "f", 0, 0x10), g = made_native(profile, "g", 0, 0x20);
	uint32_t same = made_native(profile, "f", 0, 0x18);
	uint32_t stacks[3];
	char *text;
	size_t i;

	made_process(profile, 1, "app", "");
	profile->value.type = strtab_add(profile->strings, "inuse_space");
	profile->value.unit = strtab_add(profile->strings, "bytes");
	made_add(profile, 0, 2, f)->value_ns = 8192;
	stacks[0] = profile->samples[0].stack;
	stacks[1] = made_stack(profile, &same, 1);
	stacks[2] = made_stack(profile, &g, 1);
	profile->history = profile_history_new(3, 3, 2);
	cr_assert(profile->history);
	for (i = 0; i < 3; i++) {
		profile->history->ns[i] = i * 500000000;
		profile->history->total_kib[i] = 10 * (i + 1);
		profile->history->series[i] = (struct history_series){ .stack = stacks[i] };
	}
	profile->history->series[2].band = 1;
	memcpy(profile->history->kib, kib, sizeof(kib));
	profile->history->peak = 2;
	profile->history->subject = "Anonymous memory";
	profile->history->what = "held at the end";
	profile->history->nr_bands = 1;
	profile->history->bands[0] = strtab_add(profile->strings, "f");
	text = read_back("html", profile, NULL);
	cr_expect(!strncmp(text, "app;f 8192 02\napp;g 0 02\n", 25), "%s", text);
	expect(text, "scripts 3,");
	expect(text, "Memory flame graph\n");
	expect(text, "\"bands\": [\"f\"]");
	expect(text, "\"kib\": [10, 20, 30]");
	expect(text, "\"ms\": [0, 500, 1000]");
	expect(text, "\"peak\": 2");
	expect(text, "\"series\": [[0, 0, 1, 13, 2, 8], [1, 1, 1, -2, 2, 1]]");
	free(text);
	made_free(profile);
}

Test(html, threads)
{
	const struct output_options options = { .threads = true };
	struct profile *profile = made_new();
	struct profile_sample *sample;
	char *text;

	made_process(profile, 1, "app", "");
	sample = made_add(profile, 0, 1, made_native(profile, "f", 0, 0));
	sample->tid = 12;
	sample->thread = strtab_add(profile->strings, "io");
	text = read_back("html", profile, &options);
	expect(text, "app;io-12;f 1 062\n");
	free(text);
	made_free(profile);
}

/* Names that try to leave every part of the page's data and markup. */
static const char *const hostile[] = {
	"</script><script>alert(1)</script>",
	"<!--<script>",
	"</script x",
	"]]></text><a href='x'>",
	"\"'&<>\\",
	"\xff\xfe<\x01",
};

Test(html, hostile_names_are_data)
{
	struct profile *profile;
	char *text, want[128];
	size_t i;

	for (i = 0; i < 5; i++) {
		profile = made_new();
		profile->host = strtab_add(profile->strings, hostile[i]);
		made_process(profile, 1, hostile[i], "");
		made_add(profile, 0, 1, made_native(profile, hostile[i], 0, 0));
		text = read_back("html", profile, NULL);
		snprintf(want, sizeof(want), "%s;%s 1 02\nscripts 2, ns", hostile[i], hostile[i]);
		expect(text, want);
		snprintf(want, sizeof(want), "\n%s \xc2\xb7 2024", hostile[i]);
		expect(text, want);
		free(text);
		made_free(profile);
	}
}

Test(html, large_numbers)
{
	struct profile *profile = made_new();
	char *text;

	made_process(profile, 1, "app", "");
	made_add(profile, 0, 1, made_native(profile, "f", 0, 0))->count = 1ULL << 52;
	text = read_back("html", profile, NULL);
	expect(text, "app;f 4503599627370496 02\n");
	free(text);
	made_free(profile);
}

Test(html, empty)
{
	struct profile *profile = made_new();
	char *text = read_back("html", profile, NULL);

	cr_expect(!strncmp(text, "scripts 2, ns 0, lost None\n", 27), "%s", text);
	free(text);
	made_free(profile);
}

Test(html, nothing_from_the_network)
{
	struct profile *profile = made_golden();
	char *page = made_text(html_write, profile, NULL, NULL);

	cr_expect(!strstr(page, "http:") && !strstr(page, "https:"));
	expect(page, "default-src 'none'");
	cr_expect(!strstr(page, "innerHTML"));
	free(page);
	made_free(profile);
}

/* Children come before their parents; 1180 of 1200 units are 15 samples. */
static const char golden_svg[] =
	"6 10.00 393.33 k ksys_write_[k] | ksys_write_[k] | 5 samples, 0.050 s, 33.33%; own 5\n"
	"5 10.00 393.33 k [kernel]_[k] | [kernel]_[k] | 5 samples, 0.050 s, 33.33%; own 0\n"
	"4 10.00 393.33 p dd | dd | 5 samples, 0.050 s, 33.33%; own 0\n"
	"9 639.33 157.34 n libfoo.so.1+0x1f2e | libfoo.so.1+0x1f2e | 2 samples, 0.020 s, 13.33%;"
	" own 2\n"
	"8 403.33 393.34 n at::native::add | at::native::add | 5 samples, 0.050 s, 33.33%; own 3\n";

Test(svg, frames)
{
	struct profile *profile = made_golden();
	char *text = read_back("svg", profile, NULL);

	cr_expect(!strncmp(text, golden_svg, strlen(golden_svg)), "%s", text);
	expect(text,
	       "\n7 796.67 78.66 y Trainer.f\xe2\x80\xa6 | Trainer.fit (trainer/loop.py:33) | "
	       "1 samples, 0.010 s, 6.67%; own 1\n");
	expect(text, "\n3 10.00 1180.00 a all | all | 15 samples, 0.150 s, 100.00%; own 0\n"
		     "scripts 1\nCPU flame graph\nnode-1 \xc2\xb7 2024-01-31");
	free(text);
	made_free(profile);
}

Test(svg, narrow_frames_are_left_out)
{
	struct profile *profile = made_new();
	uint32_t f = made_native(profile, "wide", 0, 0), g = made_native(profile, "narrow", 0, 1);
	char *text;

	made_process(profile, 1, "app", "");
	made_add(profile, 0, 2000, f);
	made_add(profile, 0, 1, g);
	text = read_back("svg", profile, NULL);
	expect(text, "wide |");
	cr_expect(!strstr(text, "narrow"));
	free(text);
	made_free(profile);
}

Test(svg, hostile_names_are_text)
{
	struct profile *profile;
	char *text, want[256];
	size_t i;

	for (i = 0; i < sizeof(hostile) / sizeof(hostile[0]); i++) {
		profile = made_new();
		made_process(profile, 1, hostile[i], "");
		made_add(profile, 0, 1, made_native(profile, hostile[i], 0, 0));
		text = read_back("svg", profile, NULL);
		snprintf(want, sizeof(want), "%s | 1 samples",
			 i == 5 ? "\xef\xbf\xbd\xef\xbf\xbd< " : hostile[i]);
		expect(text, want);
		expect(text, "\nscripts 1\n");
		free(text);
		made_free(profile);
	}
}

Test(svg, empty)
{
	struct run_stats stats = { .duration_seconds = 3 };
	struct profile *profile = made_new();
	char *text;

	profile->stats = &stats;
	text = read_back("svg", profile, NULL);
	expect(text, "\nNo samples: nothing that was watched ran on a CPU.\n"
		     "Samples: 0 in 3.0 s\nLost: none\n");
	free(text);
	made_free(profile);
}

/* Calls have their own kind, and what is counted is said to be calls. */
Test(html, calls)
{
	struct profile *profile = made_calls();
	char *text = read_back("html", profile, NULL), *page;

	cr_expect(!strncmp(text,
			   "infer;[no stack];ncclAllReduce 1 045\n"
			   "python3;Trainer.fit (loop.py:31);at::mm;cuLaunchKernel;"
			   "void sgemm<128, 4> 9 03255\n"
			   "python3;Trainer.fit (loop.py:31);ncclAllReduce 2 035\n",
			   150),
		  "%s", text);
	expect(text, "\nGPU calls\n");
	free(text);
	page = made_text(html_write, profile, NULL, NULL);
	expect(page, ",\n\"unit\":\"call\",");
	free(page);
	made_free(profile);
}

Test(svg, calls)
{
	struct profile *profile = made_calls();
	char *text = read_back("svg", profile, NULL), *image;

	expect(text, " g void sgemm<128, 4> | void sgemm<128, 4> | 9 calls, 75.00%; own 9\n");
	expect(text, " m [no stack] | [no stack] | 1 calls, 8.33%; own 0\n");
	free(text);
	image = made_text(svg_write, profile, NULL, NULL);
	expect(image, ">GPU call</text>");
	free(image);
	made_free(profile);
}
