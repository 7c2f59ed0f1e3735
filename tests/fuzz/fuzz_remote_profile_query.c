// SPDX-License-Identifier: Apache-2.0
/* fuzz: max_len=2048 */
#include "daemon/remote_profile_query.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/time.h"
#include "daemon/tokens.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The text as a file of tokens, and as a header. */
static void check_tokens(const char *text)
{
	char one[] = "0123456789abcdef ml/*\n", *copy = strdup(text);
	struct buf why = { .max = 4096 };
	const struct token *found;
	struct tokens tokens;
	int err;

	if (!copy || tokens_parse(&tokens, one, &why))
		abort();
	if (!tokens_find(&found, &tokens, text) && !strstr(text, "0123456789abcdef"))
		abort();
	tokens_fini(&tokens);
	err = tokens_parse(&tokens, copy, &why);
	if (err && !why.len)
		abort();
	if (!err && (!tokens.nr || strlen(tokens.all[0].text) < TOKEN_MIN))
		abort();
	tokens_fini(&tokens);
	buf_fini(&why);
	free(copy);
}

/* The first byte: the kind. Lines follow: name=value; what stands before them: a header, a path. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf why = { .max = 4096 };
	enum remote_profile_kind kind =
		size ? data[0] % REMOTE_PROFILE_NR_KINDS : REMOTE_PROFILE_PROFILE;
	struct remote_profile_query query;
	char *text, *line, *next, *value;
	size_t i;
	int err;

	text = malloc(size + 1);
	if (!text)
		abort();
	memcpy(text, data, size);
	text[size] = 0;
	check_tokens(text);
	if (!remote_profile_path_check(text) &&
	    (*text == '.' || *text == '/' || strstr(text, "/.")))
		abort();
	remote_profile_query_init(&query);
	for (line = text + (size > 0); line && *line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		value = strchr(line, '=');
		if (value)
			*value++ = 0;
		err = remote_profile_query_take(&query, kind, line, value ? value : "", &why);
		if (!err != !why.len)
			abort();
		for (i = 0; i < why.len; i++)
			if ((unsigned char)why.data[i] < ' ')
				abort();
		buf_reset(&why);
	}
	if (query.duration_ns > REMOTE_PROFILE_SECONDS_MAX * NS_PER_SECOND || !query.duration_ns)
		abort();
	if (kind == REMOTE_PROFILE_FILES && process_choice_is_set(&query.choice))
		abort();
	remote_profile_query_fini(&query);
	buf_fini(&why);
	free(text);
	return 0;
}
