// SPDX-License-Identifier: Apache-2.0
/* fuzz: max_len=4096 */
#include "proc/title.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proc/processes.h"

#define CUT "..."

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_retire(void *arg, struct process *process)
{
	(void)arg;
	(void)process;
}

/* What a terminal and JSON take as it is: UTF-8 by the table of RFC 3629, section 4, no controls. */
static bool is_shown(const char *text)
{
	const uint8_t *at = (const uint8_t *)text;
	size_t len, i;

	for (; *at; at += len) {
		if (*at < 0x80) {
			len = 1;
			if (*at < ' ' || *at == 0x7f)
				return false;
			continue;
		}
		if (*at < 0xc2 || *at > 0xf4)
			return false;
		len = *at < 0xe0 ? 2 : *at < 0xf0 ? 3 : 4;
		for (i = 1; i < len; i++)
			if (at[i] < 0x80 || at[i] > 0xbf)
				return false;
		if ((*at == 0xc2 && at[1] < 0xa0) || (*at == 0xe0 && at[1] < 0xa0) ||
		    (*at == 0xed && at[1] > 0x9f) || (*at == 0xf0 && at[1] < 0x90) ||
		    (*at == 0xf4 && at[1] > 0x8f))
			return false;
	}
	return true;
}

/* A title is what was written, or the beginning of it as far as there is room, and "...". */
static int title_try(char title[TITLE_MAX + 1], const char *raw, size_t len)
{
	size_t written = strnlen(raw, len), kept;
	int err;

	memset(title, 'x', TITLE_MAX + 1);
	err = title_parse(title, raw, len);
	if (err) {
		for (kept = 0; kept <= TITLE_MAX; kept++)
			if (err != -EBADMSG || title[kept] != 'x')
				abort();
		return err;
	}
	kept = strnlen(title, TITLE_MAX + 1);
	if (kept > TITLE_MAX || kept <= strlen(TITLE_PREFIX) ||
	    memcmp(title, TITLE_PREFIX, strlen(TITLE_PREFIX)) || !is_shown(title))
		abort();
	if (written > TITLE_MAX) {
		/* A character has at most four bytes. */
		if (kept < TITLE_MAX - 3 || strcmp(title + kept - strlen(CUT), CUT))
			abort();
		kept -= strlen(CUT);
	} else if (kept != written) {
		abort();
	}
	if (memcmp(title, raw, kept))
		abort();
	return 0;
}

/* The process has the last title that was good, and one that came twice without another between. */
static void process_try(struct process *process, const char *raw, size_t len)
{
	char title[TITLE_MAX + 1], before[TITLE_MAX + 1] = "";
	int err = title_try(title, raw, len), set;

	if (process->title)
		memcpy(before, process->title, strlen(process->title) + 1);
	set = process_title_set(process, raw, len);
	if (set == -EAGAIN) {
		if (err || strlen(before) != strlen(title) || strcmp(process->title, before) ||
		    process_title_set(process, raw, len))
			abort();
	} else if (set != err) {
		abort();
	}
	if (strcmp(process->title ? process->title : "", err ? before : title))
		abort();
}

/* Titles of one process, one after another, up to 0xff each: what was read may hold a NUL, or none. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bpfprof_task_id task = { .pid = 1, .tid = 1, .start_ns = 1, .exec_id = 1 };
	struct processes *processes;
	struct process *process;
	const uint8_t *end;
	size_t at, len;
	char *raw;

	if (processes_new(&processes, NULL, 0, on_retire, NULL))
		abort();
	process = processes_get(processes, &task);
	if (!process)
		abort();
	for (at = 0; at < size; at += len + 1) {
		end = memchr(data + at, 0xff, size - at);
		len = end ? (size_t)(end - data) - at : size - at;
		raw = malloc(len ? len : 1);
		if (!raw)
			abort();
		memcpy(raw, data + at, len);
		process_try(process, raw, len);
		free(raw);
	}
	processes_free(processes);
	return 0;
}
