// SPDX-License-Identifier: Apache-2.0
#include "kernel/tasks.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "kernel/iterate.h"
#include "kernel/session.h"
#include "bpfprof.skel.h"

#define READ_RECORDS 64

static int room_make(struct tasks *tasks, size_t *cap)
{
	struct bpfprof_task_state *tmp;

	if (*cap - tasks->nr > READ_RECORDS)
		return 0;
	*cap = *cap ? *cap * 2 : 2 * READ_RECORDS;
	tmp = reallocarray(tasks->states, *cap, sizeof(*tmp));
	if (!tmp)
		return -ENOMEM;
	tasks->states = tmp;
	return 0;
}

/* Records may come in pieces. */
static int read_all(struct tasks *tasks, int fd)
{
	size_t cap = 0, len = 0;
	ssize_t n;
	int err;

	for (;;) {
		err = room_make(tasks, &cap);
		if (err)
			return err;
		n = read(fd, (char *)tasks->states + len, cap * sizeof(*tasks->states) - len);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			return tasks->nr ? 0 : -ESRCH;
		len += (size_t)n;
		tasks->nr = len / sizeof(*tasks->states);
		if (tasks->nr >= TASKS_MAX)
			return -E2BIG;
	}
}

int tasks_read(struct tasks *ret, struct session *session, uint32_t pid)
{
	struct tasks tasks = { 0 };
	__cleanup(close_fd) int fd = -1;
	__cleanup(close_fd) int link_fd =
		iterate_link_process(bpf_program__fd(session->skel->progs.task_states), pid);
	int err;

	if (link_fd < 0)
		return link_fd;
	fd = bpf_iter_create(link_fd);
	if (fd < 0)
		return fd;
	err = read_all(&tasks, fd);
	if (err && err != -E2BIG) {
		tasks_fini(&tasks);
		return err;
	}
	*ret = tasks;
	return err;
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
