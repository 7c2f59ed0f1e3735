// SPDX-License-Identifier: Apache-2.0
#include "daemon/remote_profile_query.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/duration.h"
#include "base/text.h"
#include "base/time.h"
#include "daemon/store.h"
#include "options/flags.h"
#include "options/values.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define WHY_MAX 1024
#define PATH_DEPTH 3 /* NAMESPACE/POD/FILE */
#define TOKEN_MAX 4096

enum key { KEY_SECONDS, KEY_NATIVE, KEY_FORMAT, KEY_PID, KEY_POD, KEY_WORKER };

static const struct {
	const char *name;
	enum key key;
	bool once, profile_only;
} names[] = {
	{ "seconds", KEY_SECONDS, true, true }, { "duration", KEY_SECONDS, true, true },
	{ "format", KEY_FORMAT, true, true },	{ "native", KEY_NATIVE, true, false },
	{ "pid", KEY_PID, false, false },	{ "pod", KEY_POD, false, false },
	{ "worker", KEY_WORKER, false, false },
};

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

static int refuse(struct buf *why, const char *text)
{
	buf_add_str(why, text);
	return -EINVAL;
}

static int take_seconds(struct remote_profile_query *query, const char *value, struct buf *why)
{
	uint64_t ns;

	if (duration_parse(value, &ns) || ns > REMOTE_PROFILE_SECONDS_MAX * NS_PER_SECOND)
		return refuse(why, "must be a number of seconds up to 3600, or one like 30s, 5m");
	query->duration_ns = ns;
	return 0;
}

static int take_native(struct remote_profile_query *query, const char *value, struct buf *why)
{
	static const char *const words[] = {
		"", "1", "true", "yes", "on", "0", "false", "no", "off"
	};
	int choice = value_choice(value, words, ARRAY_SIZE(words));

	if (choice < 0)
		return refuse(why, "must be 1 or 0");
	query->native = choice < 5;
	return 0;
}

static int take_format(struct remote_profile_query *query, const char *value, struct buf *why)
{
	enum output_format format = output_format_by_name(value);

	if (format == OUTPUT_INVALID)
		return refuse(why, "must be pprof, folded, html, svg, speedscope or raw");
	query->format = format;
	return 0;
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

static int take_key(struct remote_profile_query *query, enum key key, const char *value,
		    struct buf *why)
{
	struct process_choice *choice = &query->choice;

	switch (key) {
	case KEY_SECONDS:
		return take_seconds(query, value, why);
	case KEY_NATIVE:
		return take_native(query, value, why);
	case KEY_FORMAT:
		return take_format(query, value, why);
	case KEY_PID:
		return value_add_pids(&choice->pids, &choice->nr_pids, value, why);
	case KEY_POD:
		return container_filter_add_pod(&choice->containers, value, why);
	case KEY_WORKER:
		return value_add_patterns(&choice->workers, &choice->nr_workers, value, why);
	}
	return refuse(why, "not understood");
}

int remote_profile_query_take(struct remote_profile_query *query, enum remote_profile_kind kind,
			      const char *name, const char *value, struct buf *why)
{
	__cleanup(buf_fini) struct buf reason = { .max = WHY_MAX };
	unsigned int bit;
	size_t i;
	int err;

	for (i = 0; i < ARRAY_SIZE(names) && strcmp(names[i].name, name); i++)
		;
	if (kind == REMOTE_PROFILE_FILES || i == ARRAY_SIZE(names) ||
	    (names[i].profile_only && kind != REMOTE_PROFILE_PROFILE)) {
		text_add_typed(why, name);
		buf_add_str(why, ": no such parameter");
		return -EINVAL;
	}
	bit = 1U << names[i].key;
	if (names[i].once && query->given & bit) {
		buf_printf(why, "%s: is given twice", name);
		return -EINVAL;
	}
	query->given |= bit;
	err = take_key(query, names[i].key, value, &reason);
	if (!err && stars_of(&query->choice) > REMOTE_PROFILE_STARS_MAX)
		err = refuse(&reason, "there may be 8 times * in all patterns together");
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
		return refuse(why, "pid=, pod= or worker= is missing: which process?");
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
	/* As many steps as the client sent bytes: says nothing of ours. */
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
