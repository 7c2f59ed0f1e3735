// SPDX-License-Identifier: Apache-2.0
#include "watch/folder_name.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"
#include "base/time.h"

#define WHO_BYTES 40
#define TIME_BYTES 17

static const char *const kinds[] = {
	[FOLDER_DEATH] = "death-", [FOLDER_STALL] = "stall-", [FOLDER_SUSPECT] = "suspect-"
};

void folder_name_make(struct buf *dst, enum folder_kind kind, uint64_t wall_ns, const char *who,
		      uint32_t pid)
{
	char text[TIME_TEXT_BYTES], safe[WHO_BYTES + 1];
	size_t i;

	snprintf(safe, sizeof(safe), "%.*s", WHO_BYTES, who);
	for (i = 0; safe[i]; i++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-",
			    safe[i]))
			safe[i] = '_';
	buf_printf(dst, "%s%s-%s-%u", kinds[kind],
		   time_text(text, wall_ns / NS_PER_SECOND, TIME_OF_NAMES), safe, pid);
}

bool folder_name_is(const char *name)
{
	size_t i;

	for (i = 0; i < FOLDER_NR_KINDS && !text_begins(name, kinds[i]); i++)
		;
	if (i == FOLDER_NR_KINDS)
		return false;
	name += strlen(kinds[i]);
	return strlen(name) > TIME_BYTES && strspn(name, "0123456789") == 8 && name[8] == 'T' &&
	       strspn(name + 9, "0123456789") == 6 && name[15] == 'Z' && name[16] == '-' &&
	       !strchr(name, '/');
}
