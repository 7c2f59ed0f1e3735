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

/* Two seconds: for so long a thread of low priority may wait for a CPU while it holds the lock. */
#define NR_LOOKS 20
#define LOOK_NS 105000000L
#define AGAIN_NS 60000000000ULL

/* In ascending order of the pids, as the kernel visits them. */
struct locks {
	struct bpfprof_locked_memory *list;
	size_t nr, cap;
};

static int lock_take(void *arg, const void *record)
{
	const struct bpfprof_locked_memory *lock = record;
	struct locks *locks = arg;
	int err;

	if (locks->nr && locks->list[locks->nr - 1].task.pid == lock->task.pid)
		return 0;
	err = vec_grow(locks->list, locks->nr + 1, locks->cap, VEC_BOUNDED);
	if (!err)
		locks->list[locks->nr++] = *lock;
	return err;
}

static bool is_held(const struct locks *now, const struct bpfprof_locked_memory *before)
{
	size_t i;

	for (i = 0; i < now->nr; i++)
		if (now->list[i].task.pid == before->task.pid)
			return now->list[i].writer == before->writer;
	return false;
}

/* Keeps the locks that are still held; all of them at the first look. 0 or -errno. */
static int look(int prog_fd, struct locks *kept, bool first)
{
	struct locks now = { 0 };
	int err = iterate_each(prog_fd, 0, sizeof(struct bpfprof_locked_memory), lock_take,
			       first ? kept : &now);
	size_t i, nr = 0;

	if (err == -ESRCH)
		err = 0;
	for (i = 0; i < kept->nr && !first && !err; i++)
		if (is_held(&now, &kept->list[i]))
			kept->list[nr++] = kept->list[i];
	if (!first)
		kept->nr = nr;
	free(now.list);
	return err;
}

int64_t locked_memory_find(int prog_fd)
{
	const struct timespec pause = { .tv_nsec = LOOK_NS };
	struct locks kept = { 0 };
	int64_t ret;
	int i, err = 0;

	for (i = 0; i < NR_LOOKS && !err; i++) {
		if (i)
			nanosleep(&pause, NULL);
		err = look(prog_fd, &kept, !i);
		if (!kept.nr)
			break;
	}
	ret = err ? err : kept.nr ? (int64_t)kept.list[0].task.pid : 0;
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
