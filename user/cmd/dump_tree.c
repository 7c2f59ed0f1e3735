// SPDX-License-Identifier: Apache-2.0
#include "cmd/dump_tree.h"

#include <errno.h>
#include <stdlib.h>

#include "base/vec.h"
#include "proc/pids.h"
#include "proc/usage.h"

struct targets {
	struct dump_target *list;
	size_t nr, cap;
};

static bool targets_have(const struct targets *targets, pid_t pid)
{
	size_t i;

	for (i = 0; i < targets->nr; i++)
		if (targets->list[i].pid == pid)
			return true;
	return false;
}

static int targets_add(struct targets *targets, pid_t pid, pid_t parent)
{
	int err = vec_grow(targets->list, targets->nr + 1, targets->cap, DUMP_MAX_TARGETS);

	if (!err)
		targets->list[targets->nr++] = (struct dump_target){ .pid = pid, .parent = parent };
	return err;
}

static int note_parent(void *all, pid_t pid, const struct proc_usage *usage)
{
	return targets_add(all, pid, usage->parent);
}

/* Adds the descendants of parent, depth first. */
static int descend(struct targets *targets, const struct targets *all, pid_t parent)
{
	size_t i;
	int err = 0;

	for (i = 0; i < all->nr && !err; i++) {
		if (all->list[i].parent != parent || targets_have(targets, all->list[i].pid))
			continue;
		err = targets_add(targets, all->list[i].pid, parent);
		if (!err)
			err = descend(targets, all, all->list[i].pid);
	}
	return err;
}

int dump_tree(struct dump_target **ret, size_t *ret_nr, const pid_t *pids, size_t nr,
	      bool descendants)
{
	struct targets targets = { 0 }, all = { 0 };
	int err = descendants ? pids_each(note_parent, &all) : 0;
	size_t i;

	for (i = 0; i < nr && !err; i++) {
		if (targets_have(&targets, pids[i]))
			continue;
		err = targets_add(&targets, pids[i], 0);
		if (!err && descendants)
			err = descend(&targets, &all, pids[i]);
	}
	free(all.list);
	if (err) {
		free(targets.list);
		return err;
	}
	*ret = targets.list;
	*ret_nr = targets.nr;
	return 0;
}
