// SPDX-License-Identifier: Apache-2.0
#include "profile/stats.h"

#include "base/buf.h"

#include <inttypes.h>
#include <string.h>

#define OTHER "other"

void stats_add(struct stats_reasons *reasons, const char *name, uint64_t count)
{
	size_t i;

	for (i = 0; i < reasons->nr; i++)
		if (!strcmp(reasons->reasons[i].name, name))
			break;
	if (i == STATS_MAX_REASONS) /* now the last entry is "other" */
		i = STATS_MAX_REASONS - 1;
	if (i == reasons->nr) {
		reasons->reasons[i].name = i == STATS_MAX_REASONS - 1 ? OTHER : name;
		reasons->reasons[i].count = 0;
		reasons->nr++;
	}
	reasons->reasons[i].count += count;
}

uint64_t stats_row_count(const struct counter *row, const void *values)
{
	return *(const uint64_t *)((const char *)values + row->offset);
}

void stats_add_rows(struct stats_reasons *reasons, const struct counter *rows, const void *values,
		    bool zeros)
{
	for (; rows->group; rows++)
		if (zeros || rows->zero || stats_row_count(rows, values))
			stats_add(reasons, rows->name, stats_row_count(rows, values));
}

void stats_add_reasons(struct stats_reasons *to, const struct stats_reasons *from)
{
	size_t i;

	for (i = 0; i < from->nr; i++)
		stats_add(to, from->reasons[i].name, from->reasons[i].count);
}

static const struct {
	const char *key; /* key in the JSON; NULL: the group is no object at the top */
	size_t offset;
} groups[COUNTER_NR_GROUPS] = {
	[COUNTER_LOST] = { "lost", offsetof(struct run_stats, lost) },
	[COUNTER_STACKS] = { NULL, offsetof(struct run_stats, stack_reasons) },
	[COUNTER_CLOCK] = { "clock", offsetof(struct run_stats, clock) },
	[COUNTER_WALK] = { "walk", offsetof(struct run_stats, walk) },
	[COUNTER_FILES] = { "files", offsetof(struct run_stats, files) },
	[COUNTER_CONTAINERS] = { "containers", offsetof(struct run_stats, containers) },
	[COUNTER_ENVIRONMENTS] = { "environments", offsetof(struct run_stats, environments) },
	[COUNTER_STEPS] = { "steps", offsetof(struct run_stats, steps) },
	[COUNTER_GPU] = { NULL, offsetof(struct run_stats, gpu_lost) },
	[COUNTER_WAITS] = { "waits", offsetof(struct run_stats, waits) },
	[COUNTER_MEMORY] = { "memory", offsetof(struct run_stats, memory) },
};

struct stats_reasons *stats_group(const struct run_stats *stats, enum counter_group group)
{
	return (struct stats_reasons *)((char *)stats + groups[group].offset);
}

const char *stats_group_key(enum counter_group group)
{
	return groups[group].key;
}

const struct stats_count stats_counts[] = {
	{ "samples", "total", offsetof(struct run_stats, samples) },
	{ "samples", "user", offsetof(struct run_stats, user) },
	{ "samples", "kernel_only", offsetof(struct run_stats, kernel_only) },
	{ "samples", "python", offsetof(struct run_stats, python) },
	{ "stacks", "complete", offsetof(struct run_stats, complete) },
	{ "stacks", "truncated", offsetof(struct run_stats, truncated) },
	{ "stacks", "unmerged", offsetof(struct run_stats, unmerged) },
	{ 0 },
};

uint64_t *stats_count(const struct run_stats *stats, const struct stats_count *count)
{
	return (uint64_t *)((char *)stats + count->offset);
}

void stats_add_samples(struct run_stats *to, const struct run_stats *from)
{
	const struct stats_count *count;

	for (count = stats_counts; count->key; count++)
		*stats_count(to, count) += *stats_count(from, count);
	stats_add_reasons(&to->stack_reasons, &from->stack_reasons);
}

void stats_add_groups(struct run_stats *to, const struct run_stats *from)
{
	enum counter_group group;

	for (group = COUNTER_LOST; group < COUNTER_TRACE; group++)
		if (group != COUNTER_STACKS)
			stats_add_reasons(stats_group(to, group), stats_group(from, group));
}

void stats_set_samples(struct run_stats *to, const struct run_stats *from)
{
	const struct stats_count *count;

	for (count = stats_counts; count->key; count++)
		*stats_count(to, count) = *stats_count(from, count);
	to->stack_reasons = from->stack_reasons;
}

void stats_reasons_since(struct stats_reasons *reasons, const struct stats_reasons *before)
{
	struct stats_reason *reason;
	size_t i, k, nr = 0;

	for (i = 0; i < reasons->nr; i++) {
		reason = &reasons->reasons[i];
		for (k = 0; k < before->nr; k++)
			if (!strcmp(before->reasons[k].name, reason->name))
				break;
		if (k < before->nr)
			reason->count -= reason->count < before->reasons[k].count
						 ? reason->count
						 : before->reasons[k].count;
		if (reason->count || k == before->nr)
			reasons->reasons[nr++] = *reason;
	}
	reasons->nr = nr;
}

void stats_add_refused(struct run_stats *stats, const char *container, const char *reason,
		       uint64_t count)
{
	struct stats_refused *row = &stats->refused[stats->nr_refused];

	if (stats->nr_refused < STATS_MAX_REFUSED - 1) {
		*row = (struct stats_refused){ container, reason, count };
		stats->nr_refused++;
		return;
	}
	row = &stats->refused[STATS_MAX_REFUSED - 1];
	if (stats->nr_refused < STATS_MAX_REFUSED)
		*row = (struct stats_refused){ "others", OTHER, 0 };
	stats->nr_refused = STATS_MAX_REFUSED;
	row->count += count;
}

/* Rows keep their order, and new ones come behind them. */
static void refused_since(struct run_stats *stats, const struct run_stats *before)
{
	struct stats_refused *row;
	size_t i, nr = 0;

	for (i = 0; i < stats->nr_refused; i++) {
		row = &stats->refused[i];
		if (i < before->nr_refused)
			row->count -= before->refused[i].count;
		if (row->count)
			stats->refused[nr++] = *row;
	}
	stats->nr_refused = nr;
}

void stats_since(struct run_stats *stats, const struct run_stats *before)
{
	const struct stats_count *count;
	enum counter_group group;

	for (count = stats_counts; count->key; count++)
		*stats_count(stats, count) -= *stats_count(before, count);
	for (group = COUNTER_LOST; group < COUNTER_TRACE; group++)
		stats_reasons_since(stats_group(stats, group), stats_group(before, group));
	stats_reasons_since(&stats->gpu_calls, &before->gpu_calls);
	refused_since(stats, before);
	stats->gpu_stacks -= before->gpu_stacks;
	stats->gpu_stacks_skipped -= before->gpu_stacks_skipped;
	stats->cpu_seconds -= before->cpu_seconds;
	stats->bpf_runs -= before->bpf_runs;
	stats->bpf_ns -= before->bpf_ns < stats->bpf_ns ? before->bpf_ns : stats->bpf_ns;
}

uint64_t stats_total(const struct stats_reasons *reasons)
{
	uint64_t total = 0;
	size_t i;

	for (i = 0; i < reasons->nr; i++)
		total += reasons->reasons[i].count;
	return total;
}

/* %f would write the decimal comma of a locale, nan and inf. These are no JSON. */
static void add_seconds(struct buf *dst, double seconds)
{
	uint64_t us = 0;

	if (seconds > 0 && seconds < 1e12)
		us = (uint64_t)(seconds * 1e6 + 0.5);
	buf_printf(dst, "%" PRIu64 ".%06" PRIu64, us / 1000000, us % 1000000);
}

static void add_string(struct buf *dst, const char *str)
{
	buf_add_char(dst, '"');
	for (; str && *str; str++) {
		if (*str == '"' || *str == '\\')
			buf_add_char(dst, '\\');
		/* Names are constants of printable ASCII; a bug must still give valid JSON. */
		buf_add_char(dst, *str >= ' ' && *str <= '~' ? *str : '?');
	}
	buf_add_char(dst, '"');
}

static void add_count(struct buf *dst, const char *key, uint64_t count)
{
	buf_printf(dst, "\"%s\":%" PRIu64, key, count);
}

/* Writes the members of an object, without its braces. */
static void add_members(struct buf *dst, const struct stats_reasons *reasons)
{
	size_t i;

	for (i = 0; i < reasons->nr; i++) {
		if (i)
			buf_add_char(dst, ',');
		add_string(dst, reasons->reasons[i].name);
		buf_printf(dst, ":%" PRIu64, reasons->reasons[i].count);
	}
}

static void add_agent(struct buf *dst, const struct run_stats *stats)
{
	buf_add_str(dst, "\"agent\":{\"startup_seconds\":");
	add_seconds(dst, stats->startup_seconds);
	buf_add_str(dst, ",\"cpu_seconds\":");
	add_seconds(dst, stats->cpu_seconds);
	buf_add_char(dst, ',');
	add_count(dst, "rss_bytes", stats->rss_bytes);
	buf_add_char(dst, ',');
	add_count(dst, "peak_rss_bytes", stats->peak_rss_bytes);
	buf_add_char(dst, ',');
	add_count(dst, "bpf_map_bytes", stats->bpf_map_bytes);
	buf_add_char(dst, ',');
	add_count(dst, "memory_bytes", stats->memory_bytes);
	buf_add_char(dst, ',');
	add_count(dst, "bpf_runs", stats->bpf_runs);
	buf_add_char(dst, ',');
	add_count(dst, "bpf_ns", stats->bpf_ns);
	buf_add_str(dst, ",\"bpf_ns_source\":");
	add_string(dst, stats->bpf_ns_source ? stats->bpf_ns_source : "self");
	buf_add_char(dst, '}');
}

/* Closes the group before it, and leaves its own end open. */
static void add_gpu(struct buf *dst, const struct run_stats *stats)
{
	buf_add_str(dst, "},\"gpu\":{\"calls\":{");
	add_count(dst, "total", stats_total(&stats->gpu_calls));
	buf_add_char(dst, ',');
	add_members(dst, &stats->gpu_calls);
	buf_add_str(dst, "},\"lost\":{");
	add_members(dst, &stats->gpu_lost);
	buf_add_str(dst, "},\"stacks\":{");
	add_count(dst, "taken", stats->gpu_stacks);
	buf_add_char(dst, ',');
	add_count(dst, "skipped", stats->gpu_stacks_skipped);
	buf_add_char(dst, '}');
}

static void add_counts(struct buf *dst, const struct run_stats *stats, const char *object)
{
	const struct stats_count *count;
	size_t nr = 0;

	for (count = stats_counts; count->key; count++) {
		if (strcmp(count->object, object))
			continue;
		if (nr++)
			buf_add_char(dst, ',');
		add_count(dst, count->key, *stats_count(stats, count));
	}
}

/* Closes the group before it, and leaves its own end open. */
static void add_group(struct buf *dst, const struct run_stats *stats, enum counter_group group)
{
	const struct stats_reasons *list = stats_group(stats, group);

	if (group == COUNTER_GPU && stats->gpu_calls.nr)
		add_gpu(dst, stats);
	if (group == COUNTER_GPU || (!list->nr && group >= COUNTER_STEPS))
		return;
	buf_printf(dst, "},\"%s\":{", groups[group].key);
	add_members(dst, list);
}

static void add_refused(struct buf *dst, const struct run_stats *stats)
{
	const struct stats_refused *row;

	if (!stats->nr_refused)
		return;
	buf_add_str(dst, ",\"refused\":[");
	for (row = stats->refused; row < stats->refused + stats->nr_refused; row++) {
		buf_add_str(dst, row == stats->refused ? "{\"container\":" : ",{\"container\":");
		add_string(dst, row->container);
		buf_add_str(dst, ",\"reason\":");
		add_string(dst, row->reason);
		buf_add_char(dst, ',');
		add_count(dst, "count", row->count);
		buf_add_char(dst, '}');
	}
	buf_add_char(dst, ']');
}

void stats_json(struct buf *dst, const struct run_stats *stats)
{
	enum counter_group group;

	buf_add_str(dst, "{\"samples\":{");
	add_counts(dst, stats, "samples");
	buf_add_str(dst, "},\"lost\":{");
	add_members(dst, &stats->lost);
	buf_add_str(dst, "},\"stacks\":{");
	add_counts(dst, stats, "stacks");
	buf_add_str(dst, ",\"reasons\":{");
	add_members(dst, &stats->stack_reasons);
	buf_add_str(dst, "}},");
	add_agent(dst, stats);
	buf_add_str(dst, ",\"clock\":{\"name\":");
	add_string(dst, stats->clock_name);
	if (stats->clock.nr)
		buf_add_char(dst, ',');
	add_members(dst, &stats->clock);
	for (group = COUNTER_WALK; group <= COUNTER_MEMORY; group++)
		add_group(dst, stats, group);
	buf_add_char(dst, '}');
	add_refused(dst, stats);
	buf_add_str(dst, ",\"duration_seconds\":");
	add_seconds(dst, stats->duration_seconds);
	if (stats->start_ns) {
		buf_add_str(dst, ",\"start_seconds\":");
		add_seconds(dst, (double)stats->start_ns / 1e9);
	}
	if (stats->start_at_ns) {
		buf_add_str(dst, ",\"start_at_seconds\":");
		add_seconds(dst, (double)stats->start_at_ns / 1e9);
	}
	if (stats->rest_of) {
		buf_add_str(dst, ",\"rest_of\":");
		add_string(dst, stats->rest_of);
	}
	buf_add_char(dst, '}');
}

/* Writes ", ring_full 10, tick_skipped 2", without zeros. True if there is any. */
static bool add_counters(struct buf *dst, const char *before, const struct stats_reasons *reasons)
{
	const char *separator = before;
	size_t i;

	for (i = 0; i < reasons->nr; i++) {
		if (!reasons->reasons[i].count)
			continue;
		buf_printf(dst, "%s%s %" PRIu64, separator, reasons->reasons[i].name,
			   reasons->reasons[i].count);
		separator = ", ";
	}
	return separator != before;
}

static void lost_line(struct buf *dst, const struct run_stats *stats)
{
	uint64_t lost = stats_total(&stats->lost);

	if (!lost && stats->samples)
		buf_add_str(dst, "lost: none\n");
	if (!lost)
		return;
	buf_printf(dst, "lost: %" PRIu64 " of %" PRIu64 " samples", lost, stats->samples + lost);
	add_counters(dst, ": ", &stats->lost);
	buf_add_char(dst, '\n');
}

static void stacks_line(struct buf *dst, const struct run_stats *stats)
{
	uint64_t all = stats->complete + stats->truncated + stats->unmerged;

	if (all && all == stats->complete)
		buf_add_str(dst, "stacks: all complete\n");
	if (all == stats->complete)
		return;
	buf_printf(dst, "stacks: %" PRIu64 " truncated, %" PRIu64 " unmerged of %" PRIu64,
		   stats->truncated, stats->unmerged, all);
	add_counters(dst, ": ", &stats->stack_reasons);
	buf_add_char(dst, '\n');
}

/* Ticks and idle ticks are no faults of the clock, so they are left out. */
static void clock_line(struct buf *dst, const struct run_stats *stats)
{
	struct stats_reasons faults = stats->clock;
	size_t i;

	if (!stats->clock_name)
		return;
	for (i = 0; i < faults.nr; i++)
		if (!strcmp(faults.reasons[i].name, "ticks") ||
		    !strcmp(faults.reasons[i].name, "idle"))
			faults.reasons[i].count = 0;
	buf_printf(dst, "clock: %s", stats->clock_name);
	add_counters(dst, ", ", &faults);
	buf_add_char(dst, '\n');
}

void stats_lines(struct buf *dst, const struct run_stats *stats)
{
	if (stats->rest_of)
		buf_printf(dst, "rest_of: %s\n", stats->rest_of);
	lost_line(dst, stats);
	stacks_line(dst, stats);
	if (add_counters(dst, "files: ", &stats->files))
		buf_add_char(dst, '\n');
	if (add_counters(dst, "gpu.lost: ", &stats->gpu_lost))
		buf_add_char(dst, '\n');
	clock_line(dst, stats);
}

/* Writes "; ring full 10, tick skipped 2" in the order of the list, without zeros. */
static void add_words(struct buf *dst, const char *before, const struct stats_reasons *reasons,
		      const char *after)
{
	const char *separator = before, *c;
	size_t i;

	for (i = 0; i < reasons->nr; i++) {
		if (!reasons->reasons[i].count)
			continue;
		buf_add_str(dst, separator);
		separator = ", ";
		for (c = reasons->reasons[i].name; *c; c++)
			buf_add_char(dst, *c == '_' ? ' ' : *c);
		buf_printf(dst, " %" PRIu64, reasons->reasons[i].count);
	}
	if (separator != before)
		buf_add_str(dst, after);
}

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

static void samples_text(struct buf *dst, const struct run_stats *stats)
{
	uint64_t lost = stats_total(&stats->lost);

	buf_printf(dst, "Samples: %" PRIu64 " in %.1f s", stats->samples, stats->duration_seconds);
	if (stats->samples) {
		buf_printf(dst, ": %" PRIu64 " user", stats->user);
		if (stats->python)
			buf_printf(dst, " (%" PRIu64 " Python)", stats->python);
		buf_printf(dst, ", %" PRIu64 " kernel only", stats->kernel_only);
	}
	buf_add_char(dst, '\n');
	if (!lost) {
		buf_add_str(dst, "Lost: none\n");
		return;
	}
	buf_printf(dst, "Lost: %" PRIu64 " (", lost);
	/* The lost samples are those of the whole interval, so they are no share of this part. */
	if (!stats->rest_of)
		buf_printf(dst, "%.1f%%; ", percent(lost, stats->samples + lost));
	add_words(dst, "", &stats->lost, "");
	buf_add_str(dst, ")\n");
}

static void stacks_text(struct buf *dst, const struct run_stats *stats)
{
	uint64_t all = stats->complete + stats->truncated + stats->unmerged;

	if (!all)
		return;
	buf_printf(dst, "Stacks: %.1f%% complete", percent(stats->complete, all));
	if (stats->truncated)
		buf_printf(dst, ", %" PRIu64 " truncated", stats->truncated);
	if (stats->unmerged)
		buf_printf(dst, ", %" PRIu64 " not merged", stats->unmerged);
	add_words(dst, " (", &stats->stack_reasons, ")");
	buf_add_char(dst, '\n');
}

static void gpu_calls_text(struct buf *dst, const struct run_stats *stats)
{
	uint64_t total = stats_total(&stats->gpu_calls);

	buf_printf(dst, "CUDA and NCCL calls: %" PRIu64, total);
	if (!total)
		buf_add_str(dst, " began; bpfprof gpu shows those that began before");
	add_words(dst, ": ", &stats->gpu_calls, "");
	buf_printf(dst, "\nStacks of calls: %" PRIu64 " taken, %" PRIu64 " not, over the rate",
		   stats->gpu_stacks, stats->gpu_stacks_skipped);
	add_words(dst, "; lost: ", &stats->gpu_lost, "");
	buf_add_char(dst, '\n');
}

/* Writes the clock's counters if one of them is a loss; ticks alone are of no interest. */
static void clock_text(struct buf *dst, const struct run_stats *stats, bool inner)
{
	const struct stats_reasons *clock = &stats->clock;
	size_t i;

	for (i = 0; i < clock->nr && !inner; i++)
		inner = clock->reasons[i].count && strcmp(clock->reasons[i].name, "ticks");
	if (!stats->clock_name || !inner)
		return;
	buf_printf(dst, "Clock: %s", stats->clock_name);
	add_words(dst, "; ", clock, "");
	buf_add_char(dst, '\n');
}

/* Writes the work of bpfprof itself, which does not help to find a slow function. */
static void inner_text(struct buf *dst, const struct run_stats *stats)
{
	add_words(dst, "Walks: ", &stats->walk, "\n");
	add_words(dst, "Containers: ", &stats->containers, "\n");
	add_words(dst, "Environments: ", &stats->environments, "\n");
	add_words(dst, "Waits: ", &stats->waits, "\n");
}

void stats_text(struct buf *dst, const struct run_stats *stats, bool inner)
{
	samples_text(dst, stats);
	stacks_text(dst, stats);
	if (stats->rest_of)
		buf_printf(dst, "What was lost, the reasons and all below are of the whole %s.\n",
			   stats->rest_of);
	clock_text(dst, stats, inner);
	if (inner)
		inner_text(dst, stats);
	add_words(dst, "Files: ", &stats->files, "\n");
	add_words(dst, "Steps: ", &stats->steps, "\n");
	if (stats->gpu_calls.nr)
		gpu_calls_text(dst, stats);
	if (stats->memory_bytes || stats->cpu_seconds > 0) {
		buf_printf(dst, "Profiler: %.2f s CPU, %.1f MiB", stats->cpu_seconds,
			   (double)stats->memory_bytes / (1 << 20));
		if (stats->bpf_runs)
			buf_printf(dst, ", %.1f us per sample in the kernel",
				   (double)stats->bpf_ns / (double)stats->bpf_runs / 1000);
		buf_add_char(dst, '\n');
	}
}
