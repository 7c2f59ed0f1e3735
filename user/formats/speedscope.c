// SPDX-License-Identifier: Apache-2.0
#include "formats/output.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/capped.h"
#include "base/strtab.h"
#include "base/text.h"
#include "formats/profile_text.h"
#include "profile/profile.h"
#include "profile/stats.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TEXT_BYTES (1U << 20)

static void write_frames(FILE *out, const struct profile *profile,
			 const struct output_options *options)
{
	const struct profile_location *location;
	struct buf text;
	size_t i;

	buf_init(&text, MAX_TEXT_BYTES);
	for (i = 0; i < profile->nr_locations; i++) {
		location = &profile->locations[i];
		buf_reset(&text);
		if (options->py_spy)
			text_add_part(&text, strtab_get(profile->strings, location->name));
		else
			frame_text(&text, profile, location);
		fputs(i ? ",\n{\"name\":" : "{\"name\":", out);
		text_json(out, text.len && !buf_error(&text) ? text.data : "?");
		if (location->file) {
			fputs(",\"file\":", out);
			text_json(out, strtab_get(profile->strings, location->file));
		}
		if (location->line)
			fprintf(out, ",\"line\":%u", location->line);
		putc('}', out);
	}
	buf_fini(&text);
}

/* Sorts by process, or by thread if threads are separate: each is one profile. */
static int compare_owner(const void *a, const void *b, void *arg)
{
	const struct profile *profile = arg;
	uint32_t index_a = *(const uint32_t *)a, index_b = *(const uint32_t *)b;
	const struct profile_sample *sample_a = &profile->samples[index_a];
	const struct profile_sample *sample_b = &profile->samples[index_b];

	if (sample_a->process != sample_b->process)
		return sample_a->process < sample_b->process ? -1 : 1;
	if (profile->threads && sample_a->tid != sample_b->tid)
		return sample_a->tid < sample_b->tid ? -1 : 1;
	return index_a < index_b ? -1 : index_a > index_b;
}

static bool same_owner(const struct profile *profile, const struct profile_sample *a,
		       const struct profile_sample *b)
{
	return a->process == b->process && (!profile->threads || a->tid == b->tid);
}

/* `Thread TID "NAME"`, with `Process PID` before it where there are several. */
static void add_py_spy_name(struct buf *dst, const struct profile *profile,
			    const struct profile_sample *sample, bool several)
{
	if (several)
		buf_printf(dst, "Process %u ", profile->processes[sample->process].pid);
	buf_printf(dst, "Thread %u \"", sample->tid);
	text_add_part(dst, strtab_get(profile->strings, sample->thread));
	buf_add_char(dst, '"');
}

static void add_name(struct buf *dst, const struct profile *profile,
		     const struct profile_sample *sample)
{
	const struct profile_process *process = &profile->processes[sample->process];

	process_text(dst, profile, process);
	buf_printf(dst, " (pid %u)", process->pid);
	if (profile->threads) {
		buf_add_char(dst, ' ');
		thread_text(dst, strtab_get(profile->strings, sample->thread), sample->tid);
	}
	if (process->container) {
		buf_add_str(dst, " in ");
		container_text(dst, profile, process);
	}
}

static void write_name(FILE *out, const struct profile *profile,
		       const struct profile_sample *sample, const struct output_options *options)
{
	struct buf text;

	buf_init(&text, MAX_TEXT_BYTES);
	if (options->py_spy)
		add_py_spy_name(&text, profile, sample, options->several);
	else
		add_name(&text, profile, sample);
	text_json(out, buf_error(&text) ? "?" : text.data);
	buf_fini(&text);
}

/* Root first. room: for the deepest stack. */
static void write_stack(FILE *out, const struct profile *profile, uint32_t stack, uint32_t *room)
{
	uint32_t at, nr = 0;

	stack_each(at, profile->stack_callers, stack)
		room[nr++] = profile->stack_locations[at];
	putc('[', out);
	while (nr-- > 0)
		fprintf(out, nr ? "%u," : "%u", room[nr]);
	putc(']', out);
}

/*
 * The weight of a sample. For calls it is the count: with blocked time every launch would be
 * missing.
 */
static uint64_t weight(const struct profile *profile, uint32_t sample)
{
	return profile->call_values || profile->value.only_counts
		       ? profile->samples[sample].count
		       : profile->samples[sample].value_ns;
}

static const char *unit(const struct profile *profile)
{
	const char *of = strtab_get(profile->strings, profile->value.unit);

	if (profile->call_values || profile->value.only_counts)
		return "none";
	if (!*of || !strcmp(of, "nanoseconds"))
		return "nanoseconds";
	return !strcmp(of, "bytes") ? "bytes" : "none";
}

static void write_profile(FILE *out, const struct profile *profile, const uint32_t *order,
			  size_t nr, uint32_t *room, const struct output_options *options)
{
	uint64_t total = 0;
	size_t i;

	for (i = 0; i < nr; i++)
		total = capped_add(total, weight(profile, order[i]));
	fputs("{\"type\":\"sampled\",\"name\":", out);
	write_name(out, profile, &profile->samples[order[0]], options);
	fprintf(out, ",\"unit\":\"%s\",\"startValue\":0,\"endValue\":%" PRIu64, unit(profile),
		total);
	fputs(",\"samples\":[", out);
	for (i = 0; i < nr; i++) {
		fputs(i ? ",\n" : "\n", out);
		write_stack(out, profile, profile->samples[order[i]].stack, room);
	}
	fputs("],\n\"weights\":[", out);
	for (i = 0; i < nr; i++)
		fprintf(out, i ? ",%" PRIu64 : "%" PRIu64, weight(profile, order[i]));
	fputs("]}", out);
}

static void write_profiles(FILE *out, const struct profile *profile, const uint32_t *order,
			   uint32_t *room, const struct output_options *options)
{
	size_t first, end;

	for (first = 0; first < profile->nr_samples; first = end) {
		for (end = first + 1; end < profile->nr_samples; end++)
			if (!same_owner(profile, &profile->samples[order[first]],
					&profile->samples[order[end]]))
				break;
		if (first)
			fputs(",\n", out);
		write_profile(out, profile, order + first, end - first, room, options);
	}
	/* The viewer needs at least one profile. */
	if (!profile->nr_samples)
		fputs("{\"type\":\"sampled\",\"name\":\"no samples\",\"unit\":\"nanoseconds\","
		      "\"startValue\":0,\"endValue\":0,\"samples\":[],\"weights\":[]}",
		      out);
}

/* Adds the counters under a key of bpfprof; readers ignore unknown keys. */
static void write_stats(FILE *out, const struct run_stats *stats)
{
	struct buf json;

	if (!stats)
		return;
	buf_init(&json, MAX_TEXT_BYTES);
	stats_json(&json, stats);
	if (!buf_error(&json))
		fprintf(out, ",\n\"bpfprof\":%s", json.data);
	buf_fini(&json);
}

static void write_caption(FILE *out, const struct profile *profile,
			  const struct output_options *options)
{
	struct buf text;

	buf_init(&text, MAX_TEXT_BYTES);
	if (options->title)
		text_add(&text, options->title);
	else
		profile_caption(&text, profile);
	text_json(out, text.len && !buf_error(&text) ? text.data : "");
	buf_fini(&text);
}

int speedscope_write(FILE *out, const struct profile *profile, const struct output_options *options)
{
	__cleanup(free_mem) uint32_t *room =
		calloc(profile_max_depth(profile) + 1UL, sizeof(*room));
	__cleanup(free_mem) uint32_t *order = calloc(profile->nr_samples + 1, sizeof(*order));
	uint32_t i;

	if (!order || !room)
		return -ENOMEM;
	for (i = 0; i < profile->nr_samples; i++)
		order[i] = i;
	qsort_r(order, profile->nr_samples, sizeof(*order), compare_owner, (void *)profile);
	fputs("{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"name\":", out);
	write_caption(out, profile, options);
	fputs(",\"exporter\":\"bpfprof\",\"activeProfileIndex\":0", out);
	write_stats(out, profile->stats);
	fputs(",\n\"shared\":{\"frames\":[\n", out);
	write_frames(out, profile, options);
	fputs("]},\n\"profiles\":[\n", out);
	write_profiles(out, profile, order, room, options);
	fputs("]}\n", out);
	return 0;
}
