// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/background.h"
#include "base/deadline.h"
#include "base/refusals.h"
#include "base/time.h"

#define SLOW_MS 300
#define NR_KEYS 8
#define NR_EACH 200

/* Jobs and the loop share it under the lock alone. */
struct shared {
	struct background *background;
	uint32_t last[NR_KEYS]; /* the number of the last job of each key */
	uint32_t order[64], nr_order; /* keys, as their jobs ended */
	uint64_t nr_done, nr_late, nr_wrong;
	bool may_wait, time_was_up;
};

struct work {
	uint32_t key, nr;
};

static void count(void *arg, const void *data, size_t bytes, bool late)
{
	struct shared *shared = arg;
	const struct work *work = data;

	shared->nr_wrong += bytes != sizeof(*work) || work->nr != shared->last[work->key] + 1;
	shared->last[work->key] = work->nr;
	if (shared->nr_order < sizeof(shared->order) / sizeof(shared->order[0]))
		shared->order[shared->nr_order++] = work->key;
	shared->nr_done++;
	shared->nr_late += late;
	background_give_way();
}

/* Waits as a read of a file does. */
static void wait_slowly(void *arg, const void *data, size_t bytes, bool late)
{
	struct shared *shared = arg;

	background_wait_begin();
	usleep(SLOW_MS * 1000);
	background_wait_end();
	count(shared, data, bytes, late);
}

/* Computes for as long as reading a large table takes. */
static void compute(void *arg, const void *data, size_t bytes, bool late)
{
	struct shared *shared = arg;
	uint64_t end_ns = time_monotonic_ns() + SLOW_MS * 1000000ULL, piece_ns;

	while (time_monotonic_ns() < end_ns) {
		piece_ns = time_monotonic_ns() + 1000000;
		while (time_monotonic_ns() < piece_ns)
			;
		background_give_way();
	}
	count(shared, data, bytes, late);
}

static int post(struct shared *shared, background_fn fn, uint32_t key, uint32_t tenant, uint32_t nr)
{
	const struct work work = { .key = key, .nr = nr };
	const struct background_job job = { .fn = fn,
					    .arg = shared,
					    .data = &work,
					    .bytes = sizeof(work),
					    .key = key,
					    .tenant = tenant };

	return background_post(shared->background, &job);
}

static struct refusals refusals;

static struct shared begin(void)
{
	struct shared shared = { 0 };

	refusals_init(&refusals);
	cr_assert_eq(background_new(&shared.background, &refusals, 4), 0);
	return shared;
}

static void wait_done(struct shared *shared, uint64_t wanted)
{
	uint64_t end_ns = time_monotonic_ns() + 20 * NS_PER_SECOND;

	while (shared->nr_done < wanted && time_monotonic_ns() < end_ns)
		background_poll(shared->background, NULL, 0, 1);
	cr_assert_eq(shared->nr_done, wanted);
}

Test(background, each_key_in_its_order)
{
	struct shared shared = begin();
	uint32_t key, nr;

	for (nr = 1; nr <= NR_EACH; nr++)
		for (key = 0; key < NR_KEYS; key++)
			cr_assert_eq(post(&shared, count, key, key / 2, nr), 0);
	cr_expect(background_has(shared.background, 3));
	wait_done(&shared, NR_KEYS * NR_EACH);
	cr_expect_eq(shared.nr_wrong, 0);
	cr_expect_eq(shared.nr_late, 0);
	background_pause(shared.background); /* the last job has ended */
	cr_expect_not(background_has(shared.background, 3));
	background_free(shared.background);
}

static uint32_t order[4], nr_in_order;

static void note_key(void *arg, const void *data, size_t bytes, bool late)
{
	const struct work *work = data;

	order[nr_in_order++] = work->key;
	count(arg, data, bytes, late);
}

/* A child is known after its parent, and its own child after it, though no job of their tenants took time. */
Test(background, after_the_jobs_of_a_parent)
{
	static const struct work works[] = { { 1, 1 }, { 1, 2 }, { 2, 1 }, { 3, 1 } };
	struct shared shared = begin();
	size_t i;

	background_pause(shared.background);
	for (i = 0; i < 4; i++) {
		const struct background_job job = { .fn = note_key,
						    .arg = &shared,
						    .data = &works[i],
						    .bytes = sizeof(works[i]),
						    .key = works[i].key,
						    .tenant = 10 - works[i].key,
						    .after = works[i].key - 1 };

		cr_assert_eq(background_post(shared.background, &job), 0);
	}
	background_resume(shared.background);
	wait_done(&shared, 4);
	cr_expect(order[0] == 1 && order[1] == 1 && order[2] == 2 && order[3] == 3, "%u %u %u %u",
		  order[0], order[1], order[2], order[3]);
	background_free(shared.background);
}

/* The longest time that the loop could not go on while the job ran. */
static uint64_t longest_turn_ns(struct shared *shared)
{
	uint64_t longest_ns = 0, start_ns, ns;

	while (!shared->nr_done) {
		start_ns = time_monotonic_ns();
		background_poll(shared->background, NULL, 0, 0);
		ns = time_monotonic_ns() - start_ns;
		longest_ns = ns > longest_ns ? ns : longest_ns;
	}
	return longest_ns;
}

Test(background, loop_goes_on_while_a_job_waits_or_computes)
{
	const background_fn slow[] = { wait_slowly, compute };
	struct shared shared;
	size_t i;

	for (i = 0; i < 2; i++) {
		shared = begin();
		cr_assert_eq(post(&shared, slow[i], 1, 1, 1), 0);
		cr_expect_lt(longest_turn_ns(&shared), SLOW_MS * 1000000ULL / 2, "job %zu", i);
		background_free(shared.background);
	}
}

/* One tenant has much to do; the job of another one, posted last, does not wait for all of it. */
Test(background, quiet_tenant_comes_first)
{
	struct shared shared = begin();
	uint32_t nr, at;

	background_pause(shared.background);
	for (nr = 1; nr <= 6; nr++)
		cr_assert_eq(post(&shared, wait_slowly, 1, 1, nr), 0);
	background_resume(shared.background);
	background_poll(shared.background, NULL, 0, SLOW_MS / 2);
	cr_assert_eq(post(&shared, count, 2, 2, 1), 0);
	wait_done(&shared, 7);
	for (at = 0; shared.order[at] != 2; at++)
		;
	cr_expect_leq(at, 2, "after %u jobs of the other tenant", at);
	background_free(shared.background);
}

/* A tenant that had nothing to do until now does not make up for that. */
Test(background, quiet_time_is_not_saved_up)
{
	struct shared shared = begin();
	uint32_t nr, at;

	for (nr = 1; nr <= 4; nr++)
		cr_assert_eq(post(&shared, wait_slowly, 1, 1, nr), 0);
	wait_done(&shared, 4);
	background_pause(shared.background);
	for (nr = 1; nr <= 4; nr++)
		cr_assert_eq(post(&shared, wait_slowly, 2, 2, nr), 0);
	cr_assert_eq(post(&shared, count, 1, 1, 5), 0);
	background_resume(shared.background);
	wait_done(&shared, 9);
	for (at = 4; shared.order[at] != 1; at++)
		;
	cr_expect_leq(at, 6, "after %u jobs of the other tenant", at - 4);
	background_free(shared.background);
}

/* The only row that there is. */
static uint64_t nr_refused(uint32_t tenant, enum refusal reason)
{
	const struct refused *row = (const void *)refusals.rows.oldest;

	return refusals.rows.nr == 1 && row->of.tenant == tenant && row->of.reason == reason
		       ? row->count
		       : 0;
}

Test(background, memory_is_shared_fairly)
{
	struct shared shared = begin();
	static uint8_t large[64 << 10];
	struct background_job job = { .fn = count,
				      .arg = &shared,
				      .data = large,
				      .bytes = sizeof(large),
				      .key = 1,
				      .tenant = 1 };
	size_t nr = 0;

	background_pause(shared.background);
	while (!background_post(shared.background, &job))
		nr++;
	cr_expect_leq(nr * sizeof(large), BACKGROUND_MAX_BYTES / 3);
	cr_expect_geq(nr, 8);
	cr_expect_eq(background_post(shared.background, &job), -ENOSPC);
	cr_expect_eq(background_counts(shared.background).refused, 2);
	cr_expect_eq(nr_refused(1, REFUSAL_JOB), 2);
	job.key = 2;
	job.tenant = 2;
	cr_expect_eq(background_post(shared.background, &job), 0);
	background_free(shared.background); /* drops them */
}

Test(background, stalls_are_seen)
{
	struct shared shared = begin();
	uint64_t now_ns = time_monotonic_ns();

	cr_expect_eq(background_stalled_ns(NULL, now_ns), 0);
	cr_expect_eq(background_stalled_ns(shared.background, now_ns + NS_PER_SECOND), 0);
	background_pause(shared.background);
	cr_assert_eq(post(&shared, count, 1, 1, 1), 0);
	now_ns = time_monotonic_ns();
	cr_assert_eq(post(&shared, count, 1, 1, 2), 0);
	cr_expect_geq(background_stalled_ns(shared.background, now_ns + NS_PER_SECOND),
		      NS_PER_SECOND, "since the first one came");
	background_resume(shared.background);
	wait_done(&shared, 2);
	while (!background_is_idle(shared.background))
		background_poll(shared.background, NULL, 0, 1);
	cr_expect_eq(background_stalled_ns(shared.background, now_ns + NS_PER_SECOND), 0);
	background_free(shared.background);
}

/* Events of processes are small, and come through when samples are refused. */
Test(background, small_jobs_have_a_reserve)
{
	struct shared shared = begin();
	static uint8_t large[64 << 10];
	struct background_job job = {
		.fn = count, .arg = &shared, .data = large, .key = 1, .tenant = 1
	};

	background_pause(shared.background);
	job.bytes = sizeof(large);
	while (!background_post(shared.background, &job))
		;
	job.bytes = BACKGROUND_SMALL_BYTES + 1;
	while (!background_post(shared.background, &job))
		;
	job.bytes = BACKGROUND_SMALL_BYTES;
	cr_expect_eq(background_post(shared.background, &job), 0);
	while (!background_post(shared.background, &job))
		;
	cr_expect_eq(background_post(shared.background, &job), -ENOSPC);
	background_free(shared.background);
}

static void note_rights(void *arg, const void *data, size_t bytes, bool late)
{
	struct shared *shared = arg;

	shared->may_wait = background_may_wait(shared->background);
	cr_expect_eq(background_tenant(), 7);
	cr_expect(background_is_job());
	count(shared, data, bytes, late);
}

Test(background, who_may_wait)
{
	struct shared shared = begin();

	cr_expect(background_may_wait(NULL));
	cr_expect_not(background_may_wait(shared.background));
	cr_expect_eq(background_tenant(), 0);
	background_serve(8);
	cr_expect_eq(background_tenant(), 8);
	cr_expect_not(background_is_job());
	cr_assert_eq(post(&shared, note_rights, 1, 7, 1), 0);
	wait_done(&shared, 1);
	cr_expect(shared.may_wait);
	background_pause(shared.background);
	cr_expect(background_may_wait(shared.background));
	background_resume(shared.background);
	cr_expect_not(background_may_wait(shared.background));
	background_serve(0);
	background_free(shared.background);
}

Test(background, pause_waits_for_the_job_that_runs)
{
	struct shared shared = begin();
	uint64_t done;

	cr_assert_eq(post(&shared, wait_slowly, 1, 1, 1), 0);
	cr_assert_eq(post(&shared, wait_slowly, 1, 1, 2), 0);
	background_poll(shared.background, NULL, 0, SLOW_MS / 3);
	cr_expect_not(background_try_pause(shared.background));
	background_pause(shared.background);
	done = shared.nr_done;
	cr_expect_eq(done, 1);
	background_poll(shared.background, NULL, 0, 2 * SLOW_MS);
	cr_expect_eq(shared.nr_done, done);
	background_resume(shared.background);
	cr_expect(background_try_pause(shared.background));
	background_resume(shared.background);
	wait_done(&shared, 2);
	background_free(shared.background);
}

Test(background, finish_ends_in_time_and_runs_the_rest_late)
{
	struct shared shared = begin();
	uint64_t start_ns = time_monotonic_ns();
	uint32_t nr;

	for (nr = 1; nr <= 3; nr++)
		cr_assert_eq(post(&shared, count, 1, 1, nr), 0);
	cr_expect(background_finish(shared.background, 10000));
	cr_expect_eq(shared.nr_done, 3);
	cr_expect_eq(shared.nr_late, 0);
	cr_assert_eq(post(&shared, wait_slowly, 1, 1, 4), 0);
	for (nr = 5; nr <= 50; nr++)
		cr_assert_eq(post(&shared, count, 1, 1, nr), 0);
	cr_expect_not(background_finish(shared.background, SLOW_MS / 3));
	cr_expect_eq(shared.nr_done, 50);
	cr_expect_eq(shared.nr_wrong, 0);
	cr_expect_eq(shared.nr_late, 46);
	cr_expect_lt(time_monotonic_ns() - start_ns, 10 * NS_PER_SECOND);
	background_free(shared.background);
}

static void note_late(void *arg, const void *data, size_t bytes, bool late)
{
	struct shared *shared = arg;

	cr_expect_eq(background_may_wait(shared->background), !late);
	count(arg, data, bytes, late);
}

Test(background, late_jobs_may_not_wait)
{
	struct shared shared = begin();

	cr_assert_eq(post(&shared, wait_slowly, 1, 1, 1), 0);
	cr_assert_eq(post(&shared, note_late, 1, 1, 2), 0);
	cr_expect_not(background_finish(shared.background, 1));
	cr_expect_eq(shared.nr_late, 1);
	cr_assert_eq(post(&shared, note_late, 1, 1, 3), 0);
	cr_expect(background_finish(shared.background, 10000));
	cr_expect_eq(shared.nr_late, 1);
	cr_expect_eq(nr_refused(1, REFUSAL_LATE_JOB), 1);
	background_free(shared.background);
}

static long hang(void *arg)
{
	usleep(3 * SLOW_MS * 1000);
	(void)arg;
	return 0;
}

static void hang_job(void *arg, const void *data, size_t bytes, bool late)
{
	struct deadline_runner **runner = arg;
	int job = 0;

	deadline_run(*runner, deadline_process(5), hang, NULL, &job, sizeof(job), SLOW_MS);
	(void)data;
	(void)bytes;
	(void)late;
}

static long nothing(void *arg)
{
	(void)arg;
	return 42;
}

/* While a job waits for a call that hangs, the loop can make calls itself. */
Test(background, loop_and_job_call_at_once)
{
	struct deadline_runner *runner;
	struct shared shared = begin();
	struct background_job job = { .fn = hang_job, .arg = &runner, .key = 1 };
	int nr = 0, copy = 0;

	cr_assert_eq(deadline_runner_new(&runner), 0);
	cr_assert_eq(background_post(shared.background, &job), 0);
	while (background_has(shared.background, 1)) {
		cr_assert_eq(deadline_run(runner, DEADLINE_NODE, nothing, NULL, &copy, sizeof(copy),
					  10000),
			     42);
		nr++;
		background_poll(shared.background, NULL, 0, 1);
	}
	cr_expect_gt(nr, 3);
	background_free(shared.background);
	deadline_runner_free(runner);
}
