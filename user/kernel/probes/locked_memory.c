// SPDX-License-Identifier: Apache-2.0
#include "kernel/probes/locked_memory.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "bpfprof.h"
#include "kernel/iterate.h"

/* Pauses of 1, 2, 4 ... ms: for two seconds a thread of low priority may wait for a CPU while it holds the lock. */
#define FIRST_PAUSE_US 1000
#define LAST_PAUSE_US 1024000
#define WAIT_NS (10 * NS_PER_SECOND)
#define NO_WAIT_NS (60 * NS_PER_SECOND)
#define LOCKS_MAX 128 /* at the first look; a further one is not looked at again */

struct locks {
	struct bpfprof_locked_memory list[LOCKS_MAX];
	bool again[LOCKS_MAX]; /* found by this look */
	size_t nr;
	bool first; /* look */
};

static int lock_take(void *arg, const void *record)
{
	const struct bpfprof_locked_memory *lock = record;
	struct locks *locks = arg;
	size_t i;

	if (locks->first && locks->nr < LOCKS_MAX) {
		locks->again[locks->nr] = true;
		locks->list[locks->nr++] = *lock;
	}
	for (i = 0; i < locks->nr && !locks->first; i++)
		locks->again[i] |= locks->list[i].task.pid == lock->task.pid &&
				   locks->list[i].writer == lock->writer;
	return 0;
}

/* Keeps the locks that are still held; all of them at the first look. 0 or -errno. */
static int look(int prog_fd, struct locks *locks)
{
	int err = iterate_each(prog_fd, 0, sizeof(struct bpfprof_locked_memory), lock_take, locks);
	size_t i, nr = 0;

	for (i = 0; i < locks->nr; i++)
		if (locks->again[i])
			locks->list[nr++] = locks->list[i];
	locks->nr = nr;
	locks->first = false;
	memset(locks->again, 0, sizeof(locks->again));
	return err == -ESRCH ? 0 : err;
}

int64_t locked_memory_find(int prog_fd)
{
	struct locks locks = { .first = true };
	int err = look(prog_fd, &locks);
	useconds_t pause;

	for (pause = FIRST_PAUSE_US; !err && locks.nr && pause <= LAST_PAUSE_US; pause *= 2) {
		usleep(pause);
		err = look(prog_fd, &locks);
	}
	return err ? err : locks.nr ? (int64_t)locks.list[0].task.pid : 0;
}

void locked_memory_wait(void *arg)
{
	struct locked_memory_patience *patience = arg;
	uint64_t begun_ns = time_monotonic_ns();

	while (time_monotonic_ns() >= atomic_load(&patience->over_until_ns) &&
	       locked_memory_find(patience->prog_fd) > 0)
		if (time_monotonic_ns() - begun_ns > WAIT_NS)
			atomic_store(&patience->over_until_ns, time_monotonic_ns() + NO_WAIT_NS);
}
