// SPDX-License-Identifier: Apache-2.0
/* The page of a stall, out of the second dump. */
#include "watch/stalls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/time.h"
#include "base/units.h"
#include "watch/folder_name.h"
#include "watch/samples_row.h"

#define WHO_BYTES 65
#define READ_BYTES 16384
#define WAITS_BYTES (320U << 10) /* of a dump, before the stacks */

static void line_add(struct buf *dst, const char *name, uint64_t wall_ns)
{
	char text[TIME_TEXT_BYTES];

	buf_printf(dst, "%-14s%s", name, time_text(text, wall_ns / NS_PER_SECOND, TIME_OF_PEOPLE));
}

/* The part of the second dump before the stacks: the waits. */
static void waits_add(struct buf *dst, int dump)
{
	__cleanup(free_mem) char *text = calloc(1, WAITS_BYTES + 1);
	char *begin, *end;
	ssize_t n = text ? pread(dump, text, WAITS_BYTES, 0) : 0;

	begin = n > 0 ? strstr(text, "\nWaits:\n") : NULL;
	if (!begin)
		return;
	begin++;
	end = strstr(begin, "\nProcess ");
	buf_add(dst, begin, end && end > begin ? (size_t)(end - begin) : strlen(begin));
}

void stall_summary(struct buf *dst, const struct stall *stall, uint64_t wall_ns, const char *store)
{
	uint64_t silent_ns = stall->found_ns - stall->since_ns;
	char silent[UNITS_TEXT];

	buf_printf(dst, "%s.\n\n", stall->sentence);
	line_add(dst, "found", wall_ns);
	buf_add_char(dst, '\n');
	line_add(dst, "silent since", wall_ns - silent_ns);
	buf_printf(dst, ", for %s: no page fault, and no byte read or written\n",
		   units_ns(silent, silent_ns));
	buf_printf(dst, "%-14s%s\n", "reason", wait_reasons[stall->reason]);
	buf_printf(dst, "%-14s%s\n", "files",
		   "dump-1.txt and dump-2.txt have the stacks, ten seconds apart");
	samples_row(dst, store, stall->pid, wall_ns - silent_ns);
	buf_add_char(dst, '\n');
	waits_add(dst, stall->dumps[1]);
}

void stall_folder_name(struct buf *dst, const struct stall *stall, const char *who,
		       uint64_t wall_ns)
{
	const char *end = strstr(stall->sentence, " (pid ");
	char name[WHO_BYTES];

	snprintf(name, sizeof(name), "%.*s", end ? (int)(end - stall->sentence) : 0,
		 stall->sentence);
	folder_name_make(dst,
			 stall->verdict == WAIT_VERDICT_SUSPECT ? FOLDER_SUSPECT : FOLDER_STALL,
			 wall_ns, who && *who ? who : name, stall->pid);
}

int stall_dump(struct buf *dst, int dump)
{
	char room[READ_BYTES];
	off_t at = 0;
	ssize_t n;

	while ((n = pread(dump, room, sizeof(room), at)) > 0) {
		buf_add(dst, room, (size_t)n);
		at += n;
	}
	return n < 0 ? -errno : buf_error(dst);
}
