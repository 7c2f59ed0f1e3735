// SPDX-License-Identifier: Apache-2.0
#include "watch/notification.h"

#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/strtab.h"
#include "base/time.h"
#include "base/utf8.h"
#include "proc/ranks.h"
#include "profile/profile.h"

/* In JSON each byte may become two. */
#define SENTENCE_BYTES 2048U
#define SUMMARY_BYTES (16U << 10)
#define TEXT_BYTES 512U
#define CUT "...\n"

/* Adds at most max bytes of the text, in whole characters, and then the mark of a cut. */
static void text_cut(struct buf *dst, const char *name, const char *text, size_t max,
		     const char *mark)
{
	struct buf part = { .max = max + sizeof(CUT) };
	size_t len = strlen(text);

	if (len > max) {
		for (len = max; len && utf8_continues(text[len]); len--)
			;
		buf_add(&part, text, len);
		buf_add_str(&part, mark);
		text = part.data ?: mark;
	}
	json_key_text(dst, name, text);
	buf_fini(&part);
}

void notification_begin(struct buf *dst, const char *event, const char *why, uint64_t wall_ns,
			const char *host)
{
	char time[TIME_TEXT_BYTES];

	buf_add_char(dst, '{');
	json_key_text(dst, "event", event);
	text_cut(dst, "why", why, SENTENCE_BYTES, "...");
	json_key_text(dst, "time", time_text_ms(time, wall_ns));
	notification_text(dst, "host", host);
}

void notification_text(struct buf *dst, const char *name, const char *text)
{
	if (text && *text)
		text_cut(dst, name, text, TEXT_BYTES, "...");
}

void notification_process(struct buf *dst, const struct profile *profile,
			  const struct profile_process *process)
{
	const struct profile_container *container;
	size_t i;

	if (!process)
		return;
	if (process->container) {
		container = &profile->containers[process->container - 1];
		notification_text(dst, "namespace",
				  strtab_get(profile->strings, container->namespace));
		notification_text(dst, "pod", strtab_get(profile->strings, container->pod));
		notification_text(dst, "container", strtab_get(profile->strings, container->name));
		notification_text(dst, "container_id", strtab_get(profile->strings, container->id));
	}
	notification_text(dst, "ray_task", strtab_get(profile->strings, process->task));
	notification_text(dst, "ray_role", strtab_get(profile->strings, process->ray_role));
	for (i = 0; i < RANKS_NR; i++)
		notification_text(dst, ranks_variables[i].label,
				  strtab_get(profile->strings, process->ranks.texts[i]));
}

void notification_end(struct buf *dst, const char *summary)
{
	if (summary)
		text_cut(dst, "summary", summary, SUMMARY_BYTES, CUT);
	buf_add_char(dst, '}');
}
