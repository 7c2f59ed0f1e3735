// SPDX-License-Identifier: Apache-2.0
#include "kernel/tasks.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/vec.h"
#include "kernel/iterate.h"
#include "kernel/session.h"
#include "bpfprof.skel.h"

struct visit {
	int (*each)(void *arg, const struct bpfprof_task_state *state);
	void *arg;
};

static int state_visit(void *arg, const void *record)
{
	const struct visit *visit = arg;

	return visit->each(visit->arg, record);
}

int tasks_each(struct session *session, uint32_t pid,
	       int (*each)(void *arg, const struct bpfprof_task_state *state), void *arg)
{
	struct visit visit = { .each = each, .arg = arg };

	return iterate_each(bpf_program__fd(session->skel->progs.task_states), pid,
			    sizeof(struct bpfprof_task_state), state_visit, &visit);
}

/* A list with room for cap tasks. */
struct list {
	struct tasks tasks;
	size_t cap;
};

static int task_take(void *arg, const struct bpfprof_task_state *state)
{
	struct list *list = arg;
	struct tasks *tasks = &list->tasks;
	int err = vec_grow(tasks->states, tasks->nr + 1, list->cap, TASKS_MAX);

	if (!err)
		tasks->states[tasks->nr++] = *state;
	return err;
}

/* 0, -ESRCH or -errno. */
static int task_read(struct bpfprof_task_state *ret, struct session *session, uint32_t tid)
{
	__cleanup(close_fd) int fd =
		iterate_open(bpf_program__fd(session->skel->progs.task_states), tid);

	return fd < 0 ? fd : iterate_read(fd, ret, sizeof(*ret));
}

static int chosen_read(struct list *list, struct session *session,
		       const struct tasks_choice *choice)
{
	struct bpfprof_task_state state;
	int err = 0;
	size_t i;

	for (i = 0; i < choice->nr && !err; i++) {
		err = task_read(&state, session, choice->tids[i]);
		if (!err && state.task.pid == choice->kernel_pid)
			err = task_take(list, &state);
		else if (err == -ESRCH)
			err = 0;
	}
	return err || list->tasks.nr ? err : -ESRCH;
}

int tasks_read(struct tasks *ret, struct session *session, uint32_t pid,
	       const struct tasks_choice *choice)
{
	struct list list = { 0 };
	int err = choice ? chosen_read(&list, session, choice)
			 : tasks_each(session, pid, task_take, &list);

	list.tasks.cut = err == -E2BIG;
	if (err && !list.tasks.cut)
		tasks_fini(&list.tasks);
	*ret = list.tasks;
	return list.tasks.cut ? 0 : err;
}

void tasks_fini(struct tasks *tasks)
{
	free(tasks->states);
	*tasks = (struct tasks){ 0 };
}

const struct bpfprof_task_state *tasks_find(const struct tasks *tasks, uint32_t tid, size_t hint)
{
	size_t i;

	if (hint < tasks->nr && tasks->states[hint].task.tid == tid)
		return &tasks->states[hint];
	for (i = 0; i < tasks->nr; i++)
		if (tasks->states[i].task.tid == tid)
			return &tasks->states[i];
	return NULL;
}
