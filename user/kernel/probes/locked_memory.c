// SPDX-License-Identifier: Apache-2.0
#include "kernel/probes/locked_memory.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "base/time.h"
#include "base/vec.h"
#include "bpfprof.h"
#include "kernel/iterate.h"

#define NR_LOOKS 10
#define LOOK_NS 50000000L
#define AGAIN_NS 60000000000ULL

/* Pids in ascending order, as the kernel visits them. */
struct pids {
	uint32_t *list;
	size_t nr, cap;
};

static int pid_take(void *arg, const void *record)
{
	const struct bpfprof_task_id *id = record;
	struct pids *pids = arg;
	int err;

	if (pids->nr && pids->list[pids->nr - 1] == id->pid)
		return 0;
	err = vec_grow(pids->list, pids->nr + 1, pids->cap, VEC_BOUNDED);
	if (!err)
		pids->list[pids->nr++] = id->pid;
	return err;
}

static bool pids_have(const struct pids *pids, uint32_t pid)
{
	size_t i;

	for (i = 0; i < pids->nr; i++)
		if (pids->list[i] == pid)
			return true;
	return false;
}

/* Keeps the pids that are locked now, too; all of them at the first look. 0 or -errno. */
static int look(int prog_fd, struct pids *kept, bool first)
{
	struct pids now = { 0 };
	int err = iterate_each(prog_fd, 0, sizeof(struct bpfprof_task_id), pid_take,
			       first ? kept : &now);
	size_t i, nr = 0;

	if (err == -ESRCH)
		err = 0;
	for (i = 0; i < kept->nr && !first && !err; i++)
		if (pids_have(&now, kept->list[i]))
			kept->list[nr++] = kept->list[i];
	if (!first)
		kept->nr = nr;
	free(now.list);
	return err;
}

int64_t locked_memory_find(int prog_fd)
{
	const struct timespec pause = { .tv_nsec = LOOK_NS };
	struct pids kept = { 0 };
	int64_t ret;
	int i, err = 0;

	for (i = 0; i < NR_LOOKS && !err; i++) {
		if (i)
			nanosleep(&pause, NULL);
		err = look(prog_fd, &kept, !i);
		if (!kept.nr)
			break;
	}
	ret = err ? err : kept.nr ? (int64_t)kept.list[0] : 0;
	free(kept.list);
	return ret;
}

void locked_memory_wait(void *arg)
{
	struct locked_memory_patience *patience = arg;
	uint64_t begun_ns = time_monotonic_ns();

	while (locked_memory_find(patience->prog_fd) > 0) {
		if (time_monotonic_ns() < atomic_load(&patience->over_until_ns))
			return;
		if (time_monotonic_ns() - begun_ns > LOCKED_MEMORY_WAIT_NS)
			atomic_store(&patience->over_until_ns, time_monotonic_ns() + AGAIN_NS);
	}
}
