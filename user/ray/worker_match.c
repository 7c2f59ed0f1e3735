// SPDX-License-Identifier: Apache-2.0
#include "ray/worker_match.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdbool.h>
#include <string.h>

#define PREFIX_LEN (sizeof(TITLE_PREFIX) - 1)

/*
 * Writes lower-case letters without `_`; text in brackets of a pattern stays. False: it is too
 * long.
 */
static bool fold(char dst[WORKER_PATTERN_MAX + 1], const char *text, size_t len, bool pattern)
{
	bool in_brackets = false;
	size_t nr = 0, i;

	if (len > WORKER_PATTERN_MAX)
		return false;
	for (i = 0; i < len; i++) {
		if (pattern && text[i] == '[')
			in_brackets = memchr(text + i, ']', len - i) != NULL;
		else if (text[i] == ']')
			in_brackets = false;
		if (text[i] != '_' || in_brackets)
			dst[nr++] = (char)tolower((unsigned char)text[i]);
	}
	dst[nr] = 0;
	return true;
}

static bool name_matches(const char *folded, const char *name, size_t len)
{
	char text[WORKER_PATTERN_MAX + 1];

	return len && fold(text, name, len, false) && !fnmatch(folded, text, FNM_NOESCAPE);
}

size_t worker_class_length(const char *title)
{
	size_t len = strcspn(title, "("), i;

	for (i = len; i-- > 0;)
		if (title[i] == '.')
			return i;
	return len;
}

static bool matches(const char *pattern, const struct worker_names *names)
{
	char folded[WORKER_PATTERN_MAX + 1];
	const char *title = names->title ? names->title + PREFIX_LEN : NULL;

	if (!fold(folded, pattern, strlen(pattern), true))
		return false;
	return (title && (name_matches(folded, title, strlen(title)) ||
			  name_matches(folded, title, worker_class_length(title)))) ||
	       name_matches(folded, names->comm, strlen(names->comm)) ||
	       (names->script && name_matches(folded, names->script, strlen(names->script)));
}

int worker_match(char *const *patterns, size_t nr, const struct worker_names *names)
{
	size_t i;

	for (i = 0; i < nr; i++)
		if (matches(patterns[i], names))
			return (int)i;
	return -1;
}

/* Does the class match? `trainer.fit` matches the class `trainer`; `*.fit` matches no class. */
static bool class_matches(const char *pattern, const struct worker_names *names)
{
	const char *title = names->title ? names->title + PREFIX_LEN : NULL;
	char folded[WORKER_PATTERN_MAX + 1];
	char *dot;

	if (!title || !fold(folded, pattern, strlen(pattern), true))
		return false;
	dot = strrchr(folded, '.');
	if (!dot)
		return false;
	*dot = 0;
	return folded[strspn(folded, "*?")] &&
	       name_matches(folded, title, worker_class_length(title));
}

int worker_match_class(char *const *patterns, size_t nr, const struct worker_names *names)
{
	size_t i;

	for (i = 0; i < nr; i++)
		if (matches(patterns[i], names) || class_matches(patterns[i], names))
			return (int)i;
	return -1;
}

const char *worker_name(const struct worker_names *names)
{
	if (names->title)
		return names->title + PREFIX_LEN;
	return names->script ? names->script : names->comm;
}
