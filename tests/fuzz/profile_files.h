/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_FUZZ_PROFILE_FILES_H
#define BPFPROF_FUZZ_PROFILE_FILES_H

/* From a stored profile to tables and files of it, for the fuzzers of its three formats. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "formats/output.h"
#include "formats/profile_read.h"
#include "profile/grouping.h"
#include "report/leaf_report.h"
#include "report/profile_diff.h"
#include "report/profile_report.h"
#include "report/source_report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void check_profile(const struct profile *profile)
{
	uint32_t at;
	size_t i;

	for (i = 0; i < profile->nr_samples; i++) {
		const struct profile_sample *sample = &profile->samples[i];

		if (sample->process >= profile->nr_processes ||
		    sample->stack >= profile->nr_stacks || sample->call > profile->nr_calls)
			abort();
		stack_each(at, profile->stack_callers, sample->stack)
			if (profile->stack_locations[at] >= profile->nr_locations ||
			    profile->stack_callers[at] >= at)
				abort();
	}
	for (i = 0; i < profile->nr_locations; i++)
		if (profile->locations[i].mapping > profile->nr_mappings)
			abort();
	for (i = 0; i < profile->nr_processes; i++)
		if (profile->processes[i].container > profile->nr_containers)
			abort();
}

/* Nothing that a terminal obeys. */
static inline void check_text(const struct buf *text)
{
	size_t i;

	for (i = 0; i < text->len; i++)
		if ((unsigned char)text->data[i] < 0x20 && text->data[i] != '\n')
			abort();
}

static inline void write_all(const struct profile *profile)
{
	static int (*const writers[])(FILE *, const struct profile *,
				      const struct output_options *) = {
		pprof_write, folded_write, html_write, svg_write, speedscope_write, raw_write
	};
	const struct output_options options = { .threads = true, .native = true, .several = true };
	char *text;
	size_t len, i;
	FILE *out;

	for (i = 0; i < sizeof(writers) / sizeof(writers[0]); i++) {
		out = open_memstream(&text, &len);
		if (!out || writers[i](out, profile, &options) || fclose(out))
			abort();
		free(text);
	}
}

/* The other tables; what it says is made up of names of the profile itself. */
static inline void report_all(const struct profile *profile)
{
	static const char source[] = "def f():\n\treturn 1\n\n# end\n";
	const struct leaf_report_options leaves = { .library = "a", .native = true, .rows = 10 };
	const char *files[4];
	struct buf text;
	uint64_t odd;
	int nr, i;

	buf_init(&text, 64 << 20);
	if (leaf_report(&text, profile, &leaves))
		abort();
	nr = source_files(profile, "a.py", files, 4);
	for (i = 0; i < nr && i < 4; i++)
		if (source_report(&text, profile, files[i], source, sizeof(source) - 1, &odd))
			abort();
	check_text(&text);
	buf_fini(&text);
}

static inline void diff_all(const struct profile *profile)
{
	static const char *const names[] = { "a", "b" };
	const struct profile_diff_options options = { .rows = 10 };
	struct output_options how = { .title = "t", .caption = "c" };
	struct profile_diff diff;
	struct profile joined;
	struct buf text;
	char *written;
	size_t len;
	FILE *out;

	if (profile_diff_init(&diff, profile, profile, names, DIFF_PER_AUTO))
		return;
	buf_init(&text, 64 << 20);
	if (profile_diff_text(&text, &diff, &options) || profile_diff_join(&diff, &joined))
		abort();
	check_text(&text);
	buf_fini(&text);
	how.diff = &diff.numbers;
	out = open_memstream(&written, &len);
	if (!out || html_write(out, &joined, &how) || svg_write(out, &joined, &how) || fclose(out))
		abort();
	free(written);
	profile_fini(&joined);
}

static inline int fuzz_profile(const char *path, const uint8_t *data, size_t size)
{
	struct profile_report_options options = { .rows = 10 };
	struct profile_read read;
	struct profile profile;
	struct buf why, text;
	int err;

	if (profile_read_init(&read, size % 5 ? NULL : "cpu"))
		abort();
	buf_init(&why, 4096);
	err = profile_read_add(&read, path, (const char *)data, size, &why);
	if (!err && size % 2)
		err = profile_read_add(&read, path, (const char *)data, size, &why);
	if (err && !why.len)
		abort();
	if (!err) {
		profile_read_finish(&read, &profile);
		check_profile(&profile);
		for (options.by = 0; options.by <= TALLY_THREAD; options.by++) {
			buf_init(&text, 64 << 20);
			if (profile_group(&profile, PROFILE_BY_RANK) ||
			    profile_report(&text, &profile, &options))
				abort();
			check_text(&text);
			buf_fini(&text);
		}
		report_all(&profile);
		diff_all(&profile);
		write_all(&profile);
		profile_fini(&profile);
	}
	profile_read_fini(&read);
	buf_fini(&why);
	return 0;
}

#endif
