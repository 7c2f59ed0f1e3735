// SPDX-License-Identifier: Apache-2.0
#include "profile/wakers.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "base/hash_table.h"
#include "proc/ranks.h"
#include "proc/title.h"
#include "profile/aggregate.h"

#define LINK_KEY_BYTES offsetof(struct waker_link, ns)
#define PROCESS_BYTES 128 /* longer titles are cut */
#define NAME_BYTES (PROCESS_BYTES + BPFPROF_COMM_LEN + RANKS_TEXT_MAX + 64)

struct entry {
	UT_hash_handle hh; /* in the order of arrival */
	uint32_t tid; /* the woken thread */
	uint32_t wait_nr;
	uint32_t waker_pid, waker_tid;
	bool interrupt, truncated;
	char comm[BPFPROF_COMM_LEN + 1];
	char process[PROCESS_BYTES];
	char rank[RANKS_TEXT_MAX];
	size_t nr_frames;
	uint64_t frames[];
};

struct link_entry {
	struct hash_node node;
	struct waker_link link; /* the key is everything but the counts */
};

struct wakers {
	struct entry *entries;
	struct hash_table links;
	size_t bytes;
	struct wakers_stats stats;
	struct waker taken;
	struct entry *taken_entry;
	char text[NAME_BYTES];
	uint64_t frames[AGGREGATE_MAX_STACK];
};

int wakers_new(struct wakers **ret)
{
	*ret = calloc(1, sizeof(**ret));
	if (!*ret)
		return -ENOMEM;
	hash_table_init_raw(&(*ret)->links, WAKERS_MAX_LINKS, sizeof(struct link_entry),
			    offsetof(struct link_entry, link), LINK_KEY_BYTES);
	return 0;
}

static size_t entry_bytes(const struct entry *entry)
{
	return sizeof(*entry) + entry->nr_frames * sizeof(*entry->frames);
}

static void entry_remove(struct wakers *wakers, struct entry *entry)
{
	wakers->bytes -= entry_bytes(entry);
	HASH_DEL(wakers->entries, entry);
}

void wakers_free(struct wakers *wakers)
{
	struct entry *entry, *next;

	if (!wakers)
		return;
	HASH_ITER(hh, wakers->entries, entry, next) {
		HASH_DEL(wakers->entries, entry);
		free(entry);
	}
	hash_table_clear(&wakers->links);
	free(wakers->taken_entry);
	free(wakers);
}

/* Copies a comm, which may have no terminator, or a longer text. */
static void name_copy(char *dst, size_t cap, const char *src, size_t max)
{
	size_t len = strnlen(src, max < cap - 1 ? max : cap - 1);

	memcpy(dst, src, len);
	dst[len] = '\0';
}

static struct entry *entry_new(struct wakers *wakers, const struct aggregate_input *input)
{
	const struct bpfprof_sample *s = input->sample;
	size_t nr = aggregate_frames(input, wakers->frames), i;
	bool cut = nr > WAKERS_MAX_FRAMES;
	struct entry *entry;

	if (cut) {
		nr = WAKERS_MAX_FRAMES;
		wakers->frames[nr - 1] =
			(uint64_t)BPFPROF_FRAME_MARKER << BPFPROF_FRAME_SHIFT | BPFPROF_STOP_DEPTH;
	}
	entry = calloc(1, sizeof(*entry) + nr * sizeof(*entry->frames));
	if (!entry)
		return NULL;
	entry->tid = s->holder_tid;
	entry->wait_nr = s->wait_nr;
	entry->waker_pid = s->task.pid;
	entry->waker_tid = s->task.tid;
	entry->interrupt = s->flags & BPFPROF_SAMPLE_INTERRUPT;
	entry->truncated = cut || (input->stop != BPFPROF_STOP_COMPLETE &&
				   input->stop != BPFPROF_STOP_NO_USER);
	name_copy(entry->comm, sizeof(entry->comm), s->comm, sizeof(s->comm));
	if (input->title)
		title_cut(entry->process, sizeof(entry->process), input->title,
			  strlen(input->title));
	else
		name_copy(entry->process, sizeof(entry->process), s->leader_comm,
			  sizeof(s->leader_comm));
	if (input->ranks)
		name_copy(entry->rank, sizeof(entry->rank), input->ranks->rank, RANKS_TEXT_MAX);
	entry->nr_frames = nr;
	for (i = 0; i < nr; i++)
		entry->frames[i] = wakers->frames[nr - 1 - i];
	return entry;
}

void wakers_add(struct wakers *wakers, const struct aggregate_input *input)
{
	struct entry *entry = entry_new(wakers, input), *old;

	if (!entry) {
		wakers->stats.no_room++;
		return;
	}
	/* The previous wait of that thread had no sample. */
	HASH_FIND(hh, wakers->entries, &entry->tid, sizeof(entry->tid), old);
	if (old) {
		entry_remove(wakers, old);
		free(old);
	}
	while (wakers->entries && (HASH_COUNT(wakers->entries) >= WAKERS_MAX ||
				   wakers->bytes + entry_bytes(entry) > WAKERS_MAX_BYTES)) {
		old = wakers->entries;
		entry_remove(wakers, old);
		free(old);
		wakers->stats.no_room++;
	}
	wakers->bytes += entry_bytes(entry);
	HASH_ADD(hh, wakers->entries, tid, sizeof(entry->tid), entry);
}

static const char *name_text(struct wakers *wakers, const struct entry *entry, bool own)
{
	bool itself = entry->waker_pid == entry->waker_tid && !strcmp(entry->comm, entry->process);
	char process[PROCESS_BYTES + 16] = "", rank[RANKS_TEXT_MAX + 8] = "";

	if (entry->interrupt)
		return WAKERS_INTERRUPT;
	if (!own && !itself)
		snprintf(process, sizeof(process), " of %s-%" PRIu32, entry->process,
			 entry->waker_pid);
	if (!own && *entry->rank)
		snprintf(rank, sizeof(rank), ", rank %s", entry->rank);
	snprintf(wakers->text, sizeof(wakers->text), WAKERS_BEGIN "%s-%" PRIu32 "%s%s]",
		 entry->comm, entry->waker_tid, process, rank);
	return wakers->text;
}

static void link_count(struct wakers *wakers, const struct bpfprof_sample *wait,
		       const struct entry *entry)
{
	const struct waker_link key = { .pid = wait->task.pid,
					.tid = wait->task.tid,
					.by_pid = entry->waker_pid,
					.by_tid = entry->waker_tid };
	struct link_entry *found = hash_table_get(&wakers->links, &key);

	if (!found) {
		wakers->stats.links_no_room++;
		return;
	}
	if (wait->period_ns > wait->runnable_ns)
		found->link.ns += wait->period_ns - wait->runnable_ns;
	found->link.nr++;
}

const struct waker *wakers_take(struct wakers *wakers, const struct bpfprof_sample *wait)
{
	struct waker *taken = &wakers->taken;
	struct entry *entry;

	if (!wait->wait_nr)
		return NULL;
	*taken = (struct waker){ .text = WAKERS_UNKNOWN };
	HASH_FIND(hh, wakers->entries, &wait->task.tid, sizeof(wait->task.tid), entry);
	if (entry) {
		entry_remove(wakers, entry);
		free(wakers->taken_entry);
		wakers->taken_entry = entry;
	}
	if (!entry || entry->wait_nr != wait->wait_nr) {
		wakers->stats.unknown++;
		return taken;
	}
	taken->own = entry->waker_pid == wait->task.pid;
	taken->text = name_text(wakers, entry, taken->own);
	taken->frames = entry->frames;
	taken->nr_frames = entry->nr_frames;
	if (!entry->interrupt)
		link_count(wakers, wait, entry);
	wakers->stats.interrupts += entry->interrupt;
	wakers->stats.threads += !entry->interrupt;
	wakers->stats.truncated += entry->truncated;
	return taken;
}

const struct wakers_stats *wakers_stats(const struct wakers *wakers)
{
	return &wakers->stats;
}

int wakers_links(const struct wakers *wakers, struct waker_link **ret, size_t *ret_nr)
{
	struct waker_link *links = calloc(wakers->links.nr + 1, sizeof(*links));
	struct link_entry *entry;
	size_t nr = 0;

	if (!links)
		return -ENOMEM;
	hash_table_each(&wakers->links, entry)
		links[nr++] = entry->link;
	*ret = links;
	*ret_nr = nr;
	return 0;
}
