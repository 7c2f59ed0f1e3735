// SPDX-License-Identifier: Apache-2.0
#include "findings/loader_wait.h"

#include "profile/wakers.h"

#define HANDED_ON 0.8 /* share of the helper's waits (ended by any thread) that children must end */

struct search {
	struct loader_wait *loader;
	const struct waker_link *links;
	size_t nr;
	bool (*is_child)(void *arg, uint32_t pid);
	void *arg;
};

static void child_note(struct loader_wait *loader, uint32_t pid)
{
	uint32_t i;

	for (i = 0; i < loader->nr_children; i++)
		if (loader->children[i] == pid)
			return;
	if (i < LOADER_WAIT_MAX_CHILDREN)
		loader->children[loader->nr_children++] = pid;
}

static bool hands_on(const struct search *s, uint32_t tid, uint32_t but)
{
	uint64_t all = 0, of_children = 0;
	size_t i;

	for (i = 0; i < s->nr; i++) {
		/* The first thread takes data from the helper, so it may wake the helper, too. */
		if (s->links[i].tid != tid || s->links[i].by_tid == but)
			continue;
		all += s->links[i].ns;
		if (s->is_child(s->arg, s->links[i].by_pid))
			of_children += s->links[i].ns;
	}
	return all && (double)of_children >= HANDED_ON * (double)all;
}

static void helper_note(const struct search *s, uint32_t tid)
{
	size_t i;

	for (i = 0; i < s->nr; i++)
		if (s->links[i].tid == tid && s->is_child(s->arg, s->links[i].by_pid))
			child_note(s->loader, s->links[i].by_pid);
}

void loader_wait_find(struct loader_wait *ret, const struct waker_link *links, size_t nr,
		      uint32_t pid, bool (*is_child)(void *arg, uint32_t pid), void *arg)
{
	const struct search s = {
		.loader = ret, .links = links, .nr = nr, .is_child = is_child, .arg = arg
	};
	const struct waker_link *link = links;
	size_t i;

	*ret = (struct loader_wait){ 0 };
	for (i = 0; i < nr; i++, link++) {
		if (link->pid != pid || link->tid != pid)
			continue;
		if (is_child(arg, link->by_pid))
			child_note(ret, link->by_pid);
		else if (link->by_pid == pid && hands_on(&s, link->by_tid, pid))
			helper_note(&s, link->by_tid);
		else
			continue;
		ret->ns += link->ns;
		ret->nr += link->nr;
	}
}
