// SPDX-License-Identifier: Apache-2.0
#include "daemon/remote_profile_query.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "base/time.h"
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
						.format = OUTPUT_PPROF };
}

void remote_profile_query_fini(struct remote_profile_query *query)
{
	process_choice_fini(&query->choice);
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

/* Marked parameters are of a profile alone; those that are not repeatable may be given once. */
static const struct flag parameters[] = {
	{ "seconds", NULL, NULL, SECONDS_ROW, .marked = true },
	{ "duration", NULL, NULL, SECONDS_ROW, .marked = true },
	{ "format", NULL, NULL, FLAG_CUSTOM, AT(format), .marked = true, .take = take_format,
	  .refusal = "must be " OUTPUT_NAMES },
	{ "native", NULL, NULL, FLAG_CUSTOM, AT(native), .take = take_native,
	  .refusal = "must be 1 or 0" },
	{ "pid", NULL, NULL, FLAG_PIDS, CHOICE_AT(pids), .repeatable = true },
	{ "pod", NULL, NULL, FLAG_CUSTOM, AT(choice.containers.nr_pods), .repeatable = true,
	  .take = take_pod },
	{ "worker", NULL, NULL, FLAG_PATTERNS, CHOICE_AT(workers), .repeatable = true },
	{ .type = FLAG_END },
};

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
static unsigned int parameter_bit(const struct flag *flag)
{
	size_t i;

	for (i = 0; parameters[i].offset != flag->offset; i++)
		;
	return 1U << i;
}

int remote_profile_query_take(struct remote_profile_query *query, enum remote_profile_kind kind,
			      const char *name, const char *value, struct buf *why)
{
	__cleanup(buf_fini) struct buf reason = { .max = WHY_MAX };
	struct flag_walk walk = flag_walk(parameters, query);
	bool known = flag_find(&walk, name, strlen(name));
	const struct flag *flag = walk.flag;
	int err;

	if (kind == REMOTE_PROFILE_FILES || !known ||
	    (flag->marked && kind != REMOTE_PROFILE_PROFILE)) {
		text_add_typed(why, name);
		buf_add_str(why, ": no such parameter");
		return -EINVAL;
	}
	if (!flag->repeatable && query->given & parameter_bit(flag)) {
		buf_printf(why, "%s: is given twice", name);
		return -EINVAL;
	}
	query->given |= parameter_bit(flag);
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
	return 0;
}

int remote_profile_token_check(const char *authorization, const char *token)
{
	static const char scheme[] = "Bearer";
	size_t len, token_len = strlen(token), i;
	unsigned int differs;

	if (!authorization || strncasecmp(authorization, scheme, sizeof(scheme) - 1))
		return -ENOENT;
	authorization += sizeof(scheme) - 1;
	len = strspn(authorization, " \t");
	authorization += len;
	if (!len || !*authorization || !token_len)
		return -ENOENT;
	len = strlen(authorization);
	while (len && strchr(" \t", authorization[len - 1]))
		len--;
	/*
	 * The number of steps is that of the client's bytes, so the time says nothing about the
	 * token.
	 */
	differs = len != token_len;
	for (i = 0; i < len; i++)
		differs |= (unsigned char)authorization[i] ^ (unsigned char)token[i % token_len];
	return differs ? -EACCES : 0;
}

int remote_profile_path_check(const char *path)
{
	struct store_name name;
	unsigned int depth;
	size_t len, i;

	for (depth = 0; depth < PATH_DEPTH; depth++) {
		len = strcspn(path, "/");
		if (!path[len])
			return !len || store_is_latest(path) || store_name_parse(&name, path)
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
