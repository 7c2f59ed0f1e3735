// SPDX-License-Identifier: Apache-2.0
/* The page of a stall, out of the second dump. */
#include "watch/stalls.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/time.h"
#include "base/units.h"
#include "watch/folder_name.h"

#define TIME_BYTES 32
#define WHO_BYTES 65

static void line_add(struct buf *dst, const char *name, uint64_t wall_ns)
{
	time_t seconds = (time_t)(wall_ns / NS_PER_SECOND);
	char text[TIME_BYTES] = "";
	struct tm tm;

	if (gmtime_r(&seconds, &tm))
		strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &tm);
	buf_printf(dst, "%-14s%s", name, text);
}

void stall_summary(struct buf *dst, const struct stall *stall, uint64_t wall_ns)
{
	const struct buf *text = &stall->texts[1];
	uint64_t silent_ns = time_monotonic_ns() - stall->since_ns;
	const char *sentence, *waits, *end;
	size_t len = stall_sentence(text, &sentence);
	char silent[UNITS_TEXT];

	if (!len)
		return;
	buf_add(dst, sentence, len);
	buf_add_str(dst, ".\n\n");
	line_add(dst, "found", wall_ns);
	buf_add_char(dst, '\n');
	line_add(dst, "silent since", wall_ns - silent_ns);
	buf_printf(dst, ", for %s: no page fault, and no byte read or written\n",
		   units_ns(silent, silent_ns));
	buf_printf(dst, "%-14s%s\n\n", "files",
		   "dump-1.txt and dump-2.txt have the stacks, ten seconds apart");
	waits = sentence + len;
	end = memmem(waits, text->len - (size_t)(waits - text->data), "\nProcess ", 9);
	if (end)
		buf_add(dst, waits + 2, (size_t)(end - waits) - 2);
}

void stall_folder_name(struct buf *dst, const struct stall *stall, uint64_t wall_ns)
{
	const char *sentence, *end;
	size_t len = stall_sentence(&stall->texts[1], &sentence);
	char who[WHO_BYTES];

	end = len ? memmem(sentence, len, " (pid ", 6) : NULL;
	snprintf(who, sizeof(who), "%.*s", end ? (int)(end - sentence) : 0, end ? sentence : "");
	folder_name_make(dst, stall->suspect ? FOLDER_SUSPECT : FOLDER_STALL, wall_ns, who,
			 stall->pid);
}
