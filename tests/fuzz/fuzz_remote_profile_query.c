// SPDX-License-Identifier: Apache-2.0
/* fuzz: max_len=2048 */
#include "daemon/remote_profile_query.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/time.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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
	if (!remote_profile_token_check(text, "secret") && !strstr(text, "secret"))
		abort();
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
