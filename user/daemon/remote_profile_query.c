// SPDX-License-Identifier: Apache-2.0
#include "daemon/remote_profile_query.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "base/time.h"
#include "daemon/daemon.h"
#include "daemon/store.h"
#include "options/flag.h"
#include "options/values.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define WHY_MAX 1024
#define PATH_DEPTH 3 /* NAMESPACE/POD/FILE */

void remote_profile_query_init(struct remote_profile_query *query)
{
	*query = (struct remote_profile_query){ .duration_ns = REMOTE_PROFILE_SECONDS_DEFAULT *
							       NS_PER_SECOND,
						.delay_ns = NS_PER_SECOND,
						.rate = REMOTE_PROFILE_RATE_DEFAULT,
						.format = OUTPUT_PPROF };
}

void remote_profile_query_fini(struct remote_profile_query *query)
{
	process_choice_fini(&query->choice);
	free(query->id);
	query->id = NULL;
}

static int take_native(void *object, const char *value, struct buf *why)
{
	static const char *const words[] = {
		"", "1", "true", "yes", "on", "0", "false", "no", "off"
	};
	struct remote_profile_query *query = object;
	size_t i;

	(void)why;
	for (i = 0; i < ARRAY_SIZE(words) && strcmp(words[i], value); i++)
		;
	query->native = i < 5;
	return i < ARRAY_SIZE(words) ? 0 : -EINVAL;
}

static int take_format(void *object, const char *value, struct buf *why)
{
	struct remote_profile_query *query = object;
	enum output_format format = output_format_by_name(value);

	(void)why;
	if (format == OUTPUT_INVALID)
		return -EINVAL;
	query->format = format;
	return 0;
}

static int take_pod(void *object, const char *value, struct buf *why)
{
	struct remote_profile_query *query = object;

	return container_filter_add_pod(&query->choice.containers, value, why);
}

#define AT(field) FLAG_AT(struct remote_profile_query, field)
#define CHOICE_AT(list) FLAG_LIST_AT(struct remote_profile_query, choice.list, choice.nr_##list)
#define SECONDS_ROW                                                                                \
	FLAG_DURATION, AT(duration_ns),                                                            \
		.max = REMOTE_PROFILE_SECONDS_MAX * NS_PER_SECOND,                                 \
		.refusal = "must be a number of seconds up to 3600, or one like 30s, 5m"
#define START_ROW FLAG_NUMBER, AT(start_ticks), .refusal = "must be a number"
#define SWITCH_ROW(field) FLAG_CHOICE, AT(field), FLAG_WORDS("0", "1"), .refusal = "must be 1 or 0"

static const struct flag process_rows[] = {
	{ "pid", NULL, NULL, FLAG_PIDS, CHOICE_AT(pids), .repeatable = true },
	{ "pod", NULL, NULL, FLAG_CUSTOM, AT(choice.containers.nr_pods), .repeatable = true,
	  .take = take_pod },
	{ "native", NULL, NULL, FLAG_CUSTOM, AT(native), .take = take_native,
	  .refusal = "must be 1 or 0" },
	{ .type = FLAG_END },
};

/* The process of a command that is executed. */
static const struct flag command_rows[] = {
	{ "start", NULL, NULL, START_ROW },
	{ "subprocesses", NULL, NULL, SWITCH_ROW(subprocesses) },
	{ "full-filenames", NULL, NULL, SWITCH_ROW(full_filenames) },
	{ .type = FLAG_END },
};

static const struct flag time_rows[] = {
	{ "seconds", NULL, NULL, SECONDS_ROW },
	{ "duration", NULL, NULL, SECONDS_ROW },
	{ "format", NULL, NULL, FLAG_CUSTOM, AT(format), .take = take_format,
	  .refusal = "must be " OUTPUT_NAMES },
	{ .type = FLAG_END },
};

static const struct flag worker_rows[] = {
	{ "worker", NULL, NULL, FLAG_PATTERNS, CHOICE_AT(workers), .repeatable = true },
	{ .type = FLAG_END },
};

#define GROUP(rows)                                                                                \
	{                                                                                          \
		.type = FLAG_INCLUDE, .include = rows                                              \
	}

static const struct flag profile_parameters[] = {
	GROUP(process_rows), GROUP(worker_rows), GROUP(time_rows), { .type = FLAG_END }
};

static const struct flag dump_parameters[] = {
	GROUP(process_rows),
	GROUP(worker_rows),
	GROUP(command_rows),
	{ "json", NULL, NULL, SWITCH_ROW(json) },
	{ "locals", NULL, NULL, FLAG_NUMBER, AT(locals), .max = REMOTE_PROFILE_LOCALS_MAX,
	  .refusal = "must be a number up to 8" },
	{ .type = FLAG_END },
};

/* The samples of a command. */
static const struct flag sample_rows[] = {
	{ "rate", NULL, NULL, FLAG_NUMBER, AT(rate), .min = 1, .max = REMOTE_PROFILE_RATE_MAX,
	  .refusal = "must be a whole number of Hz from 1 to 1000" },
	{ "idle", NULL, NULL, SWITCH_ROW(idle) },
	{ "gil", NULL, NULL, SWITCH_ROW(gil) },
	{ .type = FLAG_END },
};

static const struct flag top_parameters[] = {
	GROUP(process_rows),
	GROUP(worker_rows),
	GROUP(sample_rows),
	{ "start", NULL, NULL, START_ROW },
	{ "subprocesses", NULL, NULL, SWITCH_ROW(subprocesses) },
	{ "seconds", NULL, NULL, SECONDS_ROW },
	{ "delay", NULL, NULL, FLAG_DURATION, AT(delay_ns), .min = NS_PER_SECOND / 10,
	  .max = 60 * NS_PER_SECOND, .refusal = "must be a number of seconds from 0.1 to 60" },
	{ .type = FLAG_END },
};

static const struct flag record_parameters[] = {
	GROUP(process_rows),
	GROUP(command_rows),
	GROUP(time_rows),
	GROUP(sample_rows),
	{ "threads", NULL, NULL, SWITCH_ROW(threads) },
	{ "function", NULL, NULL, SWITCH_ROW(first_lines) },
	{ "nolineno", NULL, NULL, SWITCH_ROW(no_lines) },
	{ .type = FLAG_END },
};

#define LEASE_ROW                                                                                  \
	FLAG_DURATION, AT(duration_ns), .max = REMOTE_PROFILE_LEASE_SECONDS * NS_PER_SECOND,       \
					.refusal = "must be a number of seconds up to 900"

/* The process of a recording of memory. */
static const struct flag detach_parameters[] = {
	{ "pid", NULL, NULL, FLAG_PIDS, CHOICE_AT(pids), .repeatable = true },
	{ "start", NULL, NULL, START_ROW },
	{ .type = FLAG_END },
};

static const struct flag attach_parameters[] = {
	GROUP(detach_parameters),
	{ "pod", NULL, NULL, FLAG_CUSTOM, AT(choice.containers.nr_pods), .repeatable = true,
	  .take = take_pod },
	{ "seconds", NULL, NULL, LEASE_ROW },
	{ "duration", NULL, NULL, LEASE_ROW },
	{ "subprocesses", NULL, NULL, SWITCH_ROW(subprocesses) },
	{ "allocations", NULL, NULL, SWITCH_ROW(allocations) },
	{ .type = FLAG_END },
};

static const struct flag report_parameters[] = {
	{ "id", NULL, NULL, FLAG_TEXT, AT(id), .refusal = "must be the id of a recording" },
	{ "table", NULL, NULL, SWITCH_ROW(table) },
	{ "leaks", NULL, NULL, SWITCH_ROW(leaks) },
	{ .type = FLAG_END },
};

static const struct flag no_parameters[] = { { .type = FLAG_END } };

#define MEMORY_PLACES 2 /* of each of the three questions about memory */

const struct remote_profile_kind_facts remote_profile_kinds[REMOTE_PROFILE_NR_KINDS] = {
	[REMOTE_PROFILE_PROFILE] = { "profile", "/profile", profile_parameters, 60,
				     .places = REMOTE_PROFILE_MAX_PROFILES },
	[REMOTE_PROFILE_DUMP] = { "dump", "/dump", dump_parameters, 30, .places = 1,
				  .is_command = true },
	[REMOTE_PROFILE_RECORD] = { "record", "/record", record_parameters, 60, .places = 4,
				    .places_of_one = 2, .is_command = true },
	[REMOTE_PROFILE_FILES] = { "files", "/files", no_parameters, 15, .places = 4 },
	[REMOTE_PROFILE_ATTACH] = { "memory_attach", "/memory/attach", attach_parameters, 30,
				    .places = MEMORY_PLACES },
	[REMOTE_PROFILE_DETACH] = { "memory_detach", "/memory/detach", detach_parameters, 60,
				    .places = MEMORY_PLACES },
	[REMOTE_PROFILE_REPORT] = { "memory_report", "/memory/report", report_parameters, 15,
				    .places = MEMORY_PLACES },
	[REMOTE_PROFILE_TOP] = { "top", "/top", top_parameters, 60, .places = 2, .places_of_one = 1,
				 .is_command = true },
};

bool remote_profile_kind_of(const char *path, enum remote_profile_kind *ret)
{
	enum remote_profile_kind kind;

	for (kind = 0; kind < REMOTE_PROFILE_NR_KINDS; kind++)
		if (!strcmp(path, remote_profile_kinds[kind].path))
			break;
	if (!strncmp(path, REMOTE_PROFILE_FILES_PREFIX, strlen(REMOTE_PROFILE_FILES_PREFIX)))
		kind = REMOTE_PROFILE_FILES;
	*ret = kind;
	return kind < REMOTE_PROFILE_NR_KINDS;
}

static size_t stars_in(const char *text)
{
	size_t nr = 0;

	for (; *text; text++)
		nr += *text == '*';
	return nr;
}

static size_t stars_of(const struct process_choice *choice)
{
	size_t i, nr = 0;

	for (i = 0; i < choice->containers.nr_pods; i++)
		nr += stars_in(choice->containers.pods[i]);
	for (i = 0; i < choice->nr_workers; i++)
		nr += stars_in(choice->workers[i]);
	return nr;
}

/* Each field has a bit, since two names may mean the same field. */
static uint64_t parameter_bit(const struct flag *rows, const struct flag *flag)
{
	struct flag_walk walk = flag_walk(rows, NULL);

	while (flag_next(&walk) && walk.flag->offset != flag->offset)
		;
	return 1ULL << walk.nr;
}

int remote_profile_query_take(struct remote_profile_query *query, enum remote_profile_kind kind,
			      const char *name, const char *value, struct buf *why)
{
	__cleanup(buf_fini) struct buf reason = { .max = WHY_MAX };
	const struct flag *parameters = remote_profile_kinds[kind].parameters;
	struct flag_walk walk = flag_walk(parameters, query);
	bool known = flag_find(&walk, name, strlen(name));
	const struct flag *flag = walk.flag;
	uint64_t bit = known ? parameter_bit(parameters, flag) : 0;
	int err;

	if (!known) {
		text_add_typed(why, name);
		buf_add_str(why, ": no such parameter");
		return -EINVAL;
	}
	if (!flag->repeatable && query->given & bit) {
		buf_printf(why, "%s: is given twice", name);
		return -EINVAL;
	}
	query->given |= bit;
	err = flag_take(flag, query, value, &reason);
	if (!err && stars_of(&query->choice) > REMOTE_PROFILE_STARS_MAX)
		err = value_refuse(&reason, "there may be 8 times * in all patterns together");
	if (err == -EINVAL) {
		buf_printf(why, "%s=", name);
		text_add_typed(why, value);
		buf_printf(why, ": %s", reason.data ? reason.data : "not understood");
	}
	return err;
}

int remote_profile_query_check(const struct remote_profile_query *query,
			       enum remote_profile_kind kind, struct buf *why)
{
	if (kind == REMOTE_PROFILE_DUMP && !process_choice_is_set(&query->choice))
		return value_refuse(why, "pid=, pod= or worker= is missing: which process?");
	if (kind == REMOTE_PROFILE_REPORT && !query->id)
		return value_refuse(why, "id= is missing: which recording?");
	if ((kind == REMOTE_PROFILE_RECORD || kind == REMOTE_PROFILE_ATTACH ||
	     kind == REMOTE_PROFILE_DETACH) &&
	    query->choice.nr_pids != 1)
		return value_refuse(why, "pid= must name one process");
	if (query->start_ticks && (query->choice.nr_pids != 1 || query->choice.nr_workers))
		return value_refuse(why, "start= goes with one pid=");
	return 0;
}

int remote_profile_query_check_bound(const struct remote_profile_query *query,
				     enum remote_profile_kind kind, struct buf *why)
{
	if (kind == REMOTE_PROFILE_PROFILE || kind == REMOTE_PROFILE_FILES)
		return value_refuse(why, "this token is for processes of some pods: it may ask for "
					 "/dump, /record, /top and /memory/");
	if (kind == REMOTE_PROFILE_REPORT)
		return 0;
	if (query->choice.nr_pids != 1 || query->choice.nr_workers)
		return value_refuse(why, "this token is for processes of some pods: pid= must name "
					 "one of them");
	return 0;
}

int remote_profile_path_check(const char *path)
{
	struct store_name name;
	unsigned int depth;
	size_t len, i;

	if (deaths_is_path(path))
		return 0;
	for (depth = 0; depth < PATH_DEPTH; depth++) {
		len = strcspn(path, "/");
		if (!path[len])
			return !len || store_is_latest(path) || store_name_parse(&name, path) ||
					       kills_is_file(path)
				       ? 0
				       : -ENOENT;
		if (!len || len > NAME_MAX || *path == '.')
			return -ENOENT;
		for (i = 0; i < len; i++)
			if ((unsigned char)path[i] < ' ' || path[i] == 0x7f)
				return -ENOENT;
		path += len + 1;
	}
	return -ENOENT;
}
