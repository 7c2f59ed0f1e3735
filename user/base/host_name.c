// SPDX-License-Identifier: Apache-2.0
#include "base/host_name.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_name(const char *text)
{
	size_t len = strlen(text);

	return len > 0 && len < HOST_NAME_BYTES && text[0] != '.' &&
	       strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") ==
		       len;
}

void host_name(char dst[HOST_NAME_BYTES])
{
	const char *given = getenv("BPFPROF_HOST");

	if (given && is_name(given)) {
		memcpy(dst, given, strlen(given) + 1);
		return;
	}
	if (gethostname(dst, HOST_NAME_BYTES))
		memcpy(dst, "localhost", sizeof("localhost"));
	dst[HOST_NAME_BYTES - 1] = 0; /* a longer name may have no NUL */
}
