// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/deadline.h"
#include "base/refusals.h"
#include "base/time.h"

/* Jobs that hang wait here until the test releases them. */
static sem_t gate;
static atomic_int nr_started, nr_abandoned, last_abandoned;

static void setup(void)
{
	sem_init(&gate, 0, 0);
	atomic_store(&nr_started, 0);
	atomic_store(&nr_abandoned, 0);
}

static void wait_until(atomic_int *value, int wanted)
{
	for (int i = 0; i < 5000 && atomic_load(value) != wanted; i++)
		usleep(1000);
	cr_assert_eq(atomic_load(value), wanted);
}

static void wait_unstuck(const struct deadline_runner *runner, unsigned int wanted)
{
	for (int i = 0; i < 5000 && deadline_nr_stuck(runner) != wanted; i++)
		usleep(1000);
	cr_assert_eq(deadline_nr_stuck(runner), wanted);
}

struct sum {
	int a, b, result;
	char *text; /* result, malloc()ed */
};

static long add(void *arg)
{
	struct sum *sum = arg;

	sum->result = sum->a + sum->b;
	return sum->result - 1;
}

static long hang(void *arg)
{
	struct sum *sum = arg;

	atomic_fetch_add(&nr_started, 1);
	while (sem_wait(&gate))
		;
	sum->text = strdup("got late");
	return sum->a;
}

static void let_go(void *arg)
{
	struct sum *sum = arg;

	free(sum->text);
	atomic_store(&last_abandoned, sum->a);
	atomic_fetch_add(&nr_abandoned, 1);
}

Test(deadline, result_is_copied_back, .init = setup)
{
	struct deadline_runner *runner;
	struct sum sum = { .a = 3, .b = 4 };

	cr_assert_eq(deadline_runner_new(&runner), 0);
	cr_expect_eq(deadline_run(runner, DEADLINE_NODE, add, NULL, &sum, sizeof(sum), 10000), 6);
	cr_expect_eq(sum.result, 7);
	cr_expect_eq(deadline_nr_stuck(runner), 0);
	cr_expect_eq(deadline_last_stuck(runner), 0);
	cr_expect_not(deadline_is_stuck(runner, 0));
	deadline_runner_free(runner);
	deadline_runner_free(NULL);
}

static long grow(void *arg)
{
	unsigned char *bytes = arg;
	size_t nr;

	memcpy(&nr, bytes, sizeof(nr));
	memset(bytes + sizeof(nr), 0xa5, nr - sizeof(nr));
	return (long)nr;
}

/* Jobs of other sizes and functions one after another use one thread. */
Test(deadline, many_calls, .init = setup)
{
	struct deadline_runner *runner;
	unsigned char bytes[4096];
	struct sum sum;
	size_t nr;
	int i;

	cr_assert_eq(deadline_runner_new(&runner), 0);
	for (i = 0; i < 5000; i++) {
		sum = (struct sum){ .a = i, .b = 1 };
		cr_assert_eq(
			deadline_run(runner, DEADLINE_NODE, add, NULL, &sum, sizeof(sum), 10000),
			i);
		nr = 16 + (size_t)i % 4000;
		memset(bytes, 0, sizeof(bytes));
		memcpy(bytes, &nr, sizeof(nr));
		cr_assert_eq(deadline_run(runner, DEADLINE_NODE, grow, NULL, bytes, nr, 10000),
			     (long)nr);
		cr_assert(bytes[nr - 1] == 0xa5 && bytes[nr] == 0);
	}
	deadline_runner_free(runner);
}

Test(deadline, late_result_goes_to_abandon, .init = setup)
{
	struct deadline_runner *runner;
	struct sum sum = { .a = 42, .result = 5 };
	uint64_t start = time_monotonic_ns(), taken, call;

	cr_assert_eq(deadline_runner_new(&runner), 0);
	cr_expect_eq(deadline_run(runner, DEADLINE_NODE, hang, let_go, &sum, sizeof(sum), 50),
		     -ETIMEDOUT);
	taken = time_monotonic_ns() - start;
	cr_expect(taken >= 49000000 && taken < 5 * NS_PER_SECOND, "%lu ns", (unsigned long)taken);
	cr_expect_null(sum.text);
	cr_expect_eq(deadline_nr_stuck(runner), 1);
	call = deadline_last_stuck(runner);
	cr_expect_neq(call, 0);
	cr_expect(deadline_is_stuck(runner, call));
	/* Others go on meanwhile, and do not change that. */
	sum = (struct sum){ .a = 1, .b = 2 };
	cr_expect_eq(deadline_run(runner, DEADLINE_NODE, add, NULL, &sum, sizeof(sum), 10000), 2);
	cr_expect_eq(atomic_load(&nr_abandoned), 0);
	cr_expect(deadline_is_stuck(runner, call));
	sem_post(&gate);
	wait_until(&nr_abandoned, 1);
	cr_expect_eq(atomic_load(&last_abandoned), 42);
	wait_unstuck(runner, 0);
	cr_expect_not(deadline_is_stuck(runner, call));
	cr_expect_eq(deadline_last_stuck(runner), call);
	deadline_runner_free(runner);
}

Test(deadline, at_most_max_stuck, .init = setup)
{
	struct deadline_runner *runner;
	uint64_t calls[DEADLINE_MAX_NODE];
	struct sum sum = { .a = 1 };
	unsigned int i, k;

	cr_assert_eq(deadline_runner_new(&runner), 0);
	for (i = 0; i < DEADLINE_MAX_NODE; i++) {
		cr_assert_eq(
			deadline_run(runner, DEADLINE_NODE, hang, let_go, &sum, sizeof(sum), 100),
			-ETIMEDOUT);
		calls[i] = deadline_last_stuck(runner);
		for (k = 0; k < i; k++)
			cr_expect_neq(calls[k], calls[i]);
	}
	cr_expect_eq(deadline_nr_stuck(runner), DEADLINE_MAX_NODE);
	for (i = 0; i < DEADLINE_MAX_NODE; i++)
		cr_expect(deadline_is_stuck(runner, calls[i]));
	cr_expect_eq(deadline_run(runner, DEADLINE_NODE, add, NULL, &sum, sizeof(sum), 1000),
		     -EBUSY);
	wait_until(&nr_started, DEADLINE_MAX_NODE);
	sem_post(&gate);
	wait_unstuck(runner, DEADLINE_MAX_NODE - 1);
	cr_expect_eq(deadline_run(runner, DEADLINE_NODE, add, NULL, &sum, sizeof(sum), 10000), 0);
	/* The place that became free is used again. */
	cr_expect_eq(deadline_run(runner, DEADLINE_NODE, hang, let_go, &sum, sizeof(sum), 100),
		     -ETIMEDOUT);
	cr_expect(deadline_is_stuck(runner, deadline_last_stuck(runner)));
	for (i = 0; i < DEADLINE_MAX_NODE; i++)
		sem_post(&gate);
	wait_unstuck(runner, 0);
	cr_expect_eq(atomic_load(&nr_abandoned), DEADLINE_MAX_NODE + 1);
	deadline_runner_free(runner);
}

/* A call that hangs refuses those with its key, and no others. */
Test(deadline, one_call_of_a_key_hangs, .init = setup)
{
	const uint64_t keys[] = { deadline_process(1), deadline_mount(1), deadline_mount(2) };
	struct deadline_runner *runner;
	struct sum sum = { .a = 1 };
	size_t i;

	cr_assert_eq(deadline_runner_new(&runner), 0);
	for (i = 0; i < 3; i++) {
		cr_expect_eq(deadline_run(runner, keys[i], hang, let_go, &sum, sizeof(sum), 100),
			     -ETIMEDOUT);
		cr_expect_eq(deadline_run(runner, keys[i], add, NULL, &sum, sizeof(sum), 10000),
			     -EBUSY);
	}
	cr_expect_eq(deadline_run(runner, deadline_process(2), add, NULL, &sum, sizeof(sum), 10000),
		     0);
	for (i = 0; i < 3; i++)
		sem_post(&gate);
	wait_unstuck(runner, 0);
	cr_expect_eq(deadline_run(runner, keys[0], add, NULL, &sum, sizeof(sum), 10000), 0);
	deadline_runner_free(runner);
}

Test(deadline, kinds_have_limits_of_their_own, .init = setup)
{
	struct deadline_runner *runner;
	struct refusals refusals;
	struct sum sum = { .a = 1 };
	uint32_t i;

	cr_assert_eq(deadline_runner_new(&runner), 0);
	refusals_init(&refusals);
	deadline_set_refusals(runner, &refusals);
	cr_expect_not(deadline_is_full(runner, DEADLINE_KIND_MOUNT));
	for (i = 0; i < DEADLINE_MAX_MOUNTS; i++)
		cr_assert_eq(deadline_run(runner, deadline_mount(i), hang, let_go, &sum,
					  sizeof(sum), 100),
			     -ETIMEDOUT);
	cr_expect_eq(refusals.rows.nr, 0);
	cr_expect_eq(deadline_run(runner, deadline_mount(i), add, NULL, &sum, sizeof(sum), 10000),
		     -EBUSY);
	cr_expect_eq(refusals.rows.nr, 1);
	cr_expect(deadline_is_full(runner, DEADLINE_KIND_MOUNT));
	cr_expect_not(deadline_is_full(runner, DEADLINE_KIND_NODE));
	cr_expect_not(deadline_is_full(runner, DEADLINE_KIND_PROCESS));
	cr_expect_eq(deadline_run(runner, deadline_process(1), add, NULL, &sum, sizeof(sum), 10000),
		     0);
	cr_expect_eq(deadline_run(runner, DEADLINE_NODE, add, NULL, &sum, sizeof(sum), 10000), 0);
	for (i = 0; i < DEADLINE_MAX_MOUNTS; i++)
		sem_post(&gate);
	wait_unstuck(runner, 0);
	cr_expect_not(deadline_is_full(runner, DEADLINE_KIND_MOUNT));
	deadline_runner_free(runner);
	refusals_fini(&refusals);
}

/* The runner is freed first, and the hanging thread ends later: it must not touch freed memory. */
Test(deadline, runner_freed_while_stuck, .init = setup)
{
	struct deadline_runner *runner;
	struct sum sum = { .a = 9 };

	cr_assert_eq(deadline_runner_new(&runner), 0);
	cr_expect_eq(deadline_run(runner, DEADLINE_NODE, hang, let_go, &sum, sizeof(sum), 100),
		     -ETIMEDOUT);
	deadline_runner_free(runner);
	sem_post(&gate);
	wait_until(&nr_abandoned, 1);
	usleep(20000); /* the rest of that thread: a sanitizer sees what it does */
}

/* A call that returns just when its time is up is either done or abandoned, never both. */
static long nap(void *arg)
{
	struct sum *sum = arg;

	usleep((useconds_t)sum->b);
	sum->text = strdup("text");
	return sum->a;
}

Test(deadline, photo_finish, .init = setup)
{
	struct deadline_runner *runner;
	int i, nr_done = 0, nr_late = 0;
	struct sum sum;
	long result;

	cr_assert_eq(deadline_runner_new(&runner), 0);
	for (i = 0; i < 300; i++) {
		sum = (struct sum){ .a = i, .b = 900 + i % 10 * 20 };
		result = deadline_run(runner, DEADLINE_NODE, nap, let_go, &sum, sizeof(sum), 1);
		if (result == -EBUSY) {
			wait_unstuck(runner, 0);
			continue;
		}
		cr_assert(result == i || result == -ETIMEDOUT, "%ld", result);
		nr_done += result == i;
		nr_late += result == -ETIMEDOUT;
		cr_assert_eq(sum.text != NULL, result == i);
		free(sum.text);
	}
	wait_unstuck(runner, 0);
	cr_expect_eq(atomic_load(&nr_abandoned), nr_late, "%d done, %d late", nr_done, nr_late);
	deadline_runner_free(runner);
}

static int nr_threads(void)
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *entry;
	int nr = 0;

	while (dir && (entry = readdir(dir)))
		nr += entry->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return nr;
}

Test(deadline, threads_end, .init = setup)
{
	struct deadline_runner *runner;
	int before = nr_threads(), i, now = -1;
	struct sum sum = { .a = 1 };

	for (i = 0; i < 20; i++) {
		cr_assert_eq(deadline_runner_new(&runner), 0);
		cr_expect_eq(
			deadline_run(runner, DEADLINE_NODE, hang, let_go, &sum, sizeof(sum), 100),
			-ETIMEDOUT);
		cr_expect_eq(
			deadline_run(runner, DEADLINE_NODE, add, NULL, &sum, sizeof(sum), 10000),
			0);
		sem_post(&gate);
		wait_unstuck(runner, 0);
		/* On a busy machine the call that should hang may never have begun to wait. */
		while (!sem_trywait(&gate))
			;
		deadline_runner_free(runner);
	}
	/* Fewer than before: a thread of the test framework may have ended meanwhile. */
	for (i = 0; i < 5000 && (now = nr_threads()) > before; i++)
		usleep(1000);
	cr_expect_leq(now, before);
}

/* A thread may not even begin before the time is over: its job is given back. */
Test(deadline, no_time_at_all, .init = setup)
{
	struct deadline_runner *runner;
	int i, nr_late = 0;
	struct sum sum;
	long result;

	cr_assert_eq(deadline_runner_new(&runner), 0);
	for (i = 0; i < 200; i++) {
		sum = (struct sum){ .a = 1 };
		result = deadline_run(runner, DEADLINE_NODE, nap, let_go, &sum, sizeof(sum), 0);
		if (result == 1)
			free(sum.text);
		else
			cr_assert(result == -ETIMEDOUT || result == -EBUSY, "%ld", result);
		nr_late += result == -ETIMEDOUT;
		if (result == -EBUSY)
			wait_unstuck(runner, 0);
	}
	cr_expect_gt(nr_late, 0);
	wait_unstuck(runner, 0);
	cr_expect_eq(atomic_load(&nr_abandoned), nr_late);
	deadline_runner_free(runner);
}

static void *gate_open(void *arg)
{
	wait_until(&nr_started, 1);
	usleep(300000);
	sem_post(&gate);
	return arg;
}

/* The caller waits longer for calls that sleep, as long as its patience lasts. */
Test(deadline, patience_with_sleepers, .init = setup, .timeout = 60)
{
	struct deadline_runner *runner;
	struct deadline_wait wait;
	struct sum sum = { .a = 5 };
	pthread_t thread;

	cr_assert_eq(deadline_runner_new(&runner), 0);
	deadline_patience(runner, 30000, 30000);
	cr_assert_eq(pthread_create(&thread, NULL, gate_open, NULL), 0);
	cr_expect_eq(deadline_run(runner, DEADLINE_NODE, hang, let_go, &sum, sizeof(sum), 1), 5);
	pthread_join(thread, NULL);
	free(sum.text);
	cr_expect_eq(deadline_nr_stuck(runner), 0);

	deadline_patience(runner, 30000, 100);
	cr_expect_eq(deadline_run(runner, DEADLINE_NODE, hang, let_go, &sum, sizeof(sum), 500),
		     -ETIMEDOUT);
	wait = deadline_last_wait(runner);
	cr_expect(wait.known && !wait.ready, "%d %d %s", wait.known, wait.ready, wait.in);
	sem_post(&gate);
	wait_until(&nr_abandoned, 1);
	deadline_runner_free(runner);
}

static atomic_bool spin_over;

static long spin(void *arg)
{
	while (!atomic_load(&spin_over))
		;
	return ((struct sum *)arg)->a;
}

static void *spin_end(void *arg)
{
	usleep(300000);
	atomic_store(&spin_over, true);
	return arg;
}

/* The same holds for calls that wait for a CPU; the error of an abandoned one shows that. */
Test(deadline, patience_with_the_ready, .init = setup, .timeout = 60)
{
	struct deadline_runner *runner;
	struct sum sum = { .a = 6 };
	struct deadline_wait wait;
	pthread_t thread;

	cr_assert_eq(deadline_runner_new(&runner), 0);
	cr_expect_not(deadline_last_wait(runner).known);
	deadline_patience(runner, 30000, 0);
	cr_assert_eq(pthread_create(&thread, NULL, spin_end, NULL), 0);
	cr_expect_eq(deadline_run(runner, DEADLINE_NODE, spin, NULL, &sum, sizeof(sum), 1), 6);
	pthread_join(thread, NULL);

	atomic_store(&spin_over, false);
	deadline_patience(runner, 100, 30000);
	cr_expect_eq(deadline_run(runner, DEADLINE_NODE, spin, NULL, &sum, sizeof(sum), 1),
		     -ETIMEDOUT);
	wait = deadline_last_wait(runner);
	cr_expect(wait.known && wait.ready && !wait.in[0]);
	atomic_store(&spin_over, true);
	wait_unstuck(runner, 0);
	deadline_runner_free(runner);
}

/* A descriptor stays open while calls with its key hang, and is closed by a later call. */
Test(deadline, refused_closes_come_later, .init = setup, .timeout = 30)
{
	struct deadline_runner *runner;
	struct sum sum = { .a = 1 };
	int pipes[2][2], i;
	char byte;

	cr_assert_eq(deadline_runner_new(&runner), 0);
	for (i = 0; i < 2; i++)
		cr_assert_eq(pipe2(pipes[i], O_NONBLOCK), 0);
	cr_assert_eq(deadline_run(runner, deadline_mount(7), hang, let_go, &sum, sizeof(sum), 10),
		     -ETIMEDOUT);
	deadline_close(runner, deadline_mount(7), pipes[0][1]);
	deadline_close(runner, deadline_mount(8), pipes[1][1]);
	deadline_close_all(runner);
	deadline_close_all(runner);
	cr_expect_eq(read(pipes[1][0], &byte, 1), 0); /* its writer is closed */
	cr_expect_eq(read(pipes[0][0], &byte, 1), -1);
	cr_expect_eq(errno, EAGAIN);
	sem_post(&gate);
	wait_unstuck(runner, 0);
	deadline_close_all(runner);
	cr_expect_eq(read(pipes[0][0], &byte, 1), 0);
	deadline_runner_free(runner);
	for (i = 0; i < 2; i++)
		close(pipes[i][0]);
}
