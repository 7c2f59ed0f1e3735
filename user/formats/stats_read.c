// SPDX-License-Identifier: Apache-2.0
/* Reads the counters of stored files from JSON. */
#include "formats/profile_reading.h"

#include <ctype.h>
#include <string.h>

#include "base/strtab.h"
#include "base/wiped_json.h"

#define MAX_PARSED_BYTES (16U << 20)
#define MAX_COUNT 9e18
#define MAX_NAME 64

static uint64_t count_of(const json_t *object, const char *key)
{
	double value = json_number_value(json_object_get(object, key));

	return value > 0 && value < MAX_COUNT ? (uint64_t)value : 0;
}

/* Seconds whose nanoseconds fit a signed word; as a time of day: until 2096. */
static double seconds_of(const json_t *object, const char *key)
{
	double value = json_number_value(json_object_get(object, key));

	return value > 0 && value < 4e9 ? value : 0;
}

/* Cleans a name: bpfprof's names are plain, but a hostile file may hold anything. */
static const char *text_of(struct strtab *strings, const char *text)
{
	char clean[MAX_NAME];
	size_t i;

	for (i = 0; text[i] && i < sizeof(clean); i++)
		clean[i] = text[i] == '_' || isalnum((unsigned char)text[i]) ? text[i] : '?';
	return strtab_get(strings, strtab_add_len(strings, clean, i));
}

static void reasons_add(struct strtab *strings, struct stats_reasons *to, json_t *object)
{
	const char *key;
	json_t *value;

	/*
	 * The clock's `name` is a text beside its counters; a counter of a hostile file must not
	 * repeat it.
	 */
	json_object_foreach(object, key, value) if (json_is_number(value) && strcmp(key, "name"))
		stats_add(to, text_of(strings, key), count_of(object, key));
}

static void agent_add(struct run_stats *to, const json_t *agent)
{
	static const char *const sources[] = { "self", "kernel" };
	const char *source = json_string_value(json_object_get(agent, "bpf_ns_source"));
	size_t i;
	uint64_t bytes;

	to->cpu_seconds += seconds_of(agent, "cpu_seconds");
	to->bpf_runs += count_of(agent, "bpf_runs");
	to->bpf_ns += count_of(agent, "bpf_ns");
	for (i = 0; source && i < 2; i++)
		if (!strcmp(source, sources[i]))
			to->bpf_ns_source = sources[i];
	/* The largest value of all agents counts. */
	bytes = count_of(agent, "memory_bytes");
	if (bytes < to->memory_bytes)
		return;
	to->memory_bytes = bytes;
	to->startup_seconds = seconds_of(agent, "startup_seconds");
	to->rss_bytes = count_of(agent, "rss_bytes");
	to->peak_rss_bytes = count_of(agent, "peak_rss_bytes");
	to->bpf_map_bytes = count_of(agent, "bpf_map_bytes");
}

/* Several recordings began when the first one did. */
static void earliest_take(uint64_t *earliest_ns, double seconds)
{
	uint64_t ns = (uint64_t)(seconds * 1e9);

	if (ns && (!*earliest_ns || ns < *earliest_ns))
		*earliest_ns = ns;
}

uint64_t profile_read_stats(struct profile_read *read, const char *text, size_t len)
{
	struct strtab *strings = read->builder.strings;
	struct run_stats *to = &read->stats;
	const struct stats_count *count;
	enum counter_group group;
	const char *name;
	uint64_t ns;
	json_t *json;

	if (wiped_json_load_reals(&json, text, len, MAX_PARSED_BYTES))
		return 0;
	for (count = stats_counts; count->key; count++)
		*stats_count(to, count) +=
			count_of(json_object_get(json, count->object), count->key);
	reasons_add(strings, &to->stack_reasons,
		    json_object_get(json_object_get(json, "stacks"), "reasons"));
	for (group = COUNTER_LOST; group < COUNTER_TRACE; group++)
		if (stats_group_key(group))
			reasons_add(strings, stats_group(to, group),
				    json_object_get(json, stats_group_key(group)));
	name = json_string_value(json_object_get(json_object_get(json, "clock"), "name"));
	if (name)
		to->clock_name = text_of(strings, name);
	name = json_string_value(json_object_get(json, "rest_of"));
	if (name)
		to->rest_of = text_of(strings, name);
	agent_add(to, json_object_get(json, "agent"));
	earliest_take(&to->start_ns, seconds_of(json, "start_seconds"));
	earliest_take(&to->start_at_ns, seconds_of(json, "start_at_seconds"));
	ns = (uint64_t)(seconds_of(json, "duration_seconds") * 1e9);
	read->has_stats = true;
	json_decref(json);
	return ns;
}
