// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/deadline.h"
#include "kernel/memory.h"
#include "kernel/remote.h"

#define NR 4

static sem_t gates[NR]; /* what hangs in a slot waits here */
static atomic_int nr_begun;

static long hang(void *arg)
{
	atomic_fetch_add(&nr_begun, 1);
	while (sem_wait(&gates[*(int *)arg]))
		;
	return 0;
}

/*
 * Reads as memory.c does: an abandoned read keeps its slot. A read that had not begun in time
 * (other tests run at the same time) gives it back itself.
 */
static int slot_hang(uint64_t *hung, struct deadline_runner *runner)
{
	int at = memory_slot_find(hung, NR, runner), job = at, before = atomic_load(&nr_begun);

	cr_assert_geq(at, 0);
	while (atomic_load(&nr_begun) == before) {
		cr_assert_eq(deadline_run(runner, DEADLINE_NODE, hang, NULL, &job, sizeof(job), 20),
			     -ETIMEDOUT);
		hung[at] = deadline_last_stuck(runner);
		while (atomic_load(&nr_begun) == before && deadline_is_stuck(runner, hung[at]))
			usleep(1000);
	}
	return at;
}

static void slot_let_go(const uint64_t *hung, const struct deadline_runner *runner, int at)
{
	sem_post(&gates[at]);
	for (int i = 0; i < 5000 && deadline_is_stuck(runner, hung[at]); i++)
		usleep(1000);
	cr_assert_not(deadline_is_stuck(runner, hung[at]));
}

/* Each slot serves again once its read has come back, however many have timed out before. */
Test(memory_slots, reads)
{
	struct deadline_runner *runner;
	uint64_t hung[NR] = { 0 };
	int i;

	for (i = 0; i < NR; i++)
		cr_assert_eq(sem_init(&gates[i], 0, 0), 0);
	cr_assert_eq(deadline_runner_new(&runner), 0);
	for (i = 0; i < 3 * NR; i++) {
		cr_expect_eq(slot_hang(hung, runner), 0);
		slot_let_go(hung, runner, 0);
	}
	for (i = 0; i < NR; i++)
		cr_expect_eq(slot_hang(hung, runner), i);
	cr_expect_eq(memory_slot_find(hung, NR, runner), -EBUSY);
	for (i = 0; i < 3 * NR; i++) {
		slot_let_go(hung, runner, i % NR);
		cr_expect_eq(slot_hang(hung, runner), i % NR);
		cr_expect_eq(memory_slot_find(hung, NR, runner), -EBUSY);
	}
	for (i = 0; i < NR; i++)
		slot_let_go(hung, runner, i);
	cr_expect_eq(memory_slot_find(hung, NR, runner), 0);
	deadline_runner_free(runner);
}

static pid_t child_new(void)
{
	pid_t parent = getpid(), pid = fork();

	/* None outlives a test that failed. */
	if (!pid && (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent))
		_exit(1);
	while (!pid)
		pause();
	cr_assert_gt(pid, 0);
	return pid;
}

/* Once the child in that slot has died, which takes as long as it takes. */
static int slot_after_death(pid_t *hung, int at)
{
	int found = -EBUSY;

	cr_assert_eq(kill(hung[at], SIGKILL), 0);
	for (int i = 0; i < 5000 && hung[at]; i++) {
		usleep(1000);
		found = remote_slot_find(hung, NR);
	}
	cr_assert_eq(hung[at], 0);
	return found;
}

/* A child that was killed and does not die keeps its slot until it does; none is left as a zombie. */
Test(memory_slots, children)
{
	pid_t hung[NR] = { 0 }, pid;
	int i;

	for (i = 0; i < NR; i++) {
		cr_expect_eq(remote_slot_find(hung, NR), i);
		hung[i] = child_new();
	}
	for (i = 0; i < 2 * NR; i++) {
		cr_expect_eq(remote_slot_find(hung, NR), -EBUSY);
		pid = hung[i % NR];
		cr_expect_eq(slot_after_death(hung, i % NR), i % NR);
		cr_expect(waitpid(pid, NULL, WNOHANG) < 0 && errno == ECHILD);
		hung[i % NR] = child_new();
	}
	for (i = NR; i--;)
		cr_expect_eq(slot_after_death(hung, i), i);
	/* The first of several that are free; those that die are waited for wherever they are. */
	hung[1] = child_new();
	hung[2] = child_new();
	cr_expect_eq(remote_slot_find(hung, NR), 0);
	for (i = 1; i <= 2; i++)
		cr_assert_eq(kill(hung[i], SIGKILL), 0);
	for (i = 0; i < 5000 && (hung[1] || hung[2]); i++) {
		usleep(1000);
		cr_expect_eq(remote_slot_find(hung, NR), 0);
	}
	cr_expect(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
}
