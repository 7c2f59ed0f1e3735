// SPDX-License-Identifier: Apache-2.0
#include "profile/wakers.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "proc/ranks.h"
#include "profile/aggregate.h"

TestSuite(wakers, .timeout = 60);

#define PYTHON(n) ((uint64_t)BPFPROF_FRAME_PYTHON << BPFPROF_FRAME_SHIFT | (n))
#define KERNEL(n) ((uint64_t)BPFPROF_FRAME_KERNEL << BPFPROF_FRAME_SHIFT | (n))

/* The thread tid of process pid wakes the thread woken, which waits for the nr-th time. */
static struct bpfprof_sample waker(uint32_t pid, uint32_t tid, uint32_t woken, uint32_t nr)
{
	struct bpfprof_sample sample = { .task = { .pid = pid, .tid = tid },
					 .flags = BPFPROF_SAMPLE_WAKER,
					 .holder_tid = woken,
					 .wait_nr = nr };

	memcpy(sample.comm, "giver", 5);
	memcpy(sample.leader_comm, "program", 7);
	return sample;
}

static struct bpfprof_sample wait_of(uint32_t pid, uint32_t tid, uint32_t nr)
{
	return (struct bpfprof_sample){ .task = { .pid = pid, .tid = tid },
					.flags = BPFPROF_SAMPLE_WAIT,
					.wait_nr = nr };
}

static void add(struct wakers *wakers, const struct bpfprof_sample *sample)
{
	const struct aggregate_input input = { .sample = sample, .stop = BPFPROF_STOP_NO_USER };

	wakers_add(wakers, &input);
}

static void expect_text(struct wakers *wakers, struct bpfprof_sample wait, const char *text)
{
	const struct waker *taken = wakers_take(wakers, &wait);

	cr_assert(taken);
	cr_expect_str_eq(taken->text, text);
}

Test(wakers, stack_and_name)
{
	const uint64_t kernel[] = { 0x1000, 0x2001 }, user[] = { PYTHON(3), PYTHON(4) };
	struct bpfprof_sample sample = waker(7, 8, 9, 5), wait = wait_of(7, 9, 5);
	const struct aggregate_input input = { .sample = &sample,
					       .kernel = kernel,
					       .nr_kernel = 2,
					       .user = user,
					       .nr_user = 2,
					       .stop = BPFPROF_STOP_COMPLETE };
	const struct waker *taken;
	struct wakers *wakers;

	cr_assert_not(wakers_new(&wakers));
	wakers_add(wakers, &input);
	taken = wakers_take(wakers, &wait);
	cr_assert(taken);
	cr_expect_str_eq(taken->text, "[woken by giver-8]");
	cr_expect(taken->own);
	cr_assert_eq(taken->nr_frames, 4);
	cr_expect(taken->frames[0] == PYTHON(4) && taken->frames[1] == PYTHON(3));
	cr_expect(taken->frames[2] == KERNEL(0x2000) && taken->frames[3] == KERNEL(0x1000));
	cr_expect_eq(wakers_stats(wakers)->threads, 1);
	/* Once. */
	expect_text(wakers, wait, WAKERS_UNKNOWN);
	cr_expect_eq(wakers_stats(wakers)->unknown, 1);
	cr_expect_eq(wakers_stats(wakers)->truncated, 0);
	wakers_free(wakers);
}

Test(wakers, only_of_the_same_wait)
{
	struct bpfprof_sample first = waker(7, 8, 9, 5), second = waker(7, 6, 9, 11);
	struct bpfprof_sample none = wait_of(7, 9, 0);
	struct wakers *wakers;

	cr_assert_not(wakers_new(&wakers));
	add(wakers, &first);
	cr_expect_null(wakers_take(wakers, &none), "a thread that was not asleep");
	expect_text(wakers, wait_of(7, 9, 7), WAKERS_UNKNOWN);
	add(wakers, &first);
	add(wakers, &second); /* the first wait had no sample */
	expect_text(wakers, wait_of(7, 9, 11), "[woken by giver-6]");
	add(wakers, &second);
	expect_text(wakers, wait_of(7, 10, 11), WAKERS_UNKNOWN);
	wakers_free(wakers);
}

Test(wakers, of_another_process)
{
	struct bpfprof_sample sample = waker(7, 8, 9, 5), leader = waker(7, 7, 9, 5);
	const struct ranks ranks = { .rank = "3" };
	struct aggregate_input input = { .sample = &sample, .stop = BPFPROF_STOP_NO_USER };
	struct wakers *wakers;

	cr_assert_not(wakers_new(&wakers));
	wakers_add(wakers, &input);
	expect_text(wakers, wait_of(20, 9, 5), "[woken by giver-8 of program-7]");
	input.title = "ray::Trainer.fit";
	input.ranks = &ranks;
	wakers_add(wakers, &input);
	expect_text(wakers, wait_of(20, 9, 5), "[woken by giver-8 of ray::Trainer.fit-7, rank 3]");
	input = (struct aggregate_input){ .sample = &leader, .stop = BPFPROF_STOP_NO_USER };
	memcpy(leader.comm, "program", 8);
	wakers_add(wakers, &input);
	expect_text(wakers, wait_of(20, 9, 5), "[woken by program-7]");
	/* A name of all its bytes does not end. */
	memset(leader.comm, 'x', sizeof(leader.comm));
	wakers_add(wakers, &input);
	expect_text(wakers, wait_of(7, 9, 5), "[woken by xxxxxxxxxxxxxxxx-7]");
	wakers_free(wakers);
}

Test(wakers, interrupts)
{
	struct bpfprof_sample sample = waker(7, 8, 9, 5), wait = wait_of(7, 9, 5);
	const uint64_t kernel[] = { 0x1000 };
	const struct aggregate_input input = {
		.sample = &sample, .kernel = kernel, .nr_kernel = 1, .stop = BPFPROF_STOP_NO_USER
	};
	const struct waker *taken;
	struct wakers *wakers;

	cr_assert_not(wakers_new(&wakers));
	sample.flags |= BPFPROF_SAMPLE_INTERRUPT;
	wakers_add(wakers, &input);
	taken = wakers_take(wakers, &wait);
	cr_assert(taken);
	cr_expect_str_eq(taken->text, WAKERS_INTERRUPT);
	cr_expect_eq(taken->nr_frames, 1);
	cr_expect_eq(wakers_stats(wakers)->interrupts, 1);
	cr_expect_eq(wakers_stats(wakers)->threads, 0);
	wakers_free(wakers);
}

/* The time for which one thread waited for another, without the waits for a CPU. */
Test(wakers, links)
{
	struct bpfprof_sample give = waker(7, 8, 9, 5), wait = wait_of(20, 9, 5);
	struct bpfprof_sample timer = waker(7, 8, 9, 5);
	struct waker_link *links;
	struct wakers *wakers;
	size_t nr, i;

	cr_assert_not(wakers_new(&wakers));
	wait.period_ns = 1000;
	wait.runnable_ns = 100;
	timer.flags |= BPFPROF_SAMPLE_INTERRUPT;
	for (i = 0; i < 3; i++) {
		add(wakers, &give);
		wakers_take(wakers, &wait);
		add(wakers, &timer);
		wakers_take(wakers, &wait);
		wakers_take(wakers, &wait);
	}
	cr_assert_not(wakers_links(wakers, &links, &nr));
	cr_assert_eq(nr, 1);
	cr_expect(links->pid == 20 && links->tid == 9 && links->by_pid == 7 && links->by_tid == 8);
	cr_expect(links->ns == 2700 && links->nr == 3);
	free(links);
	for (i = 0; i < WAKERS_MAX_LINKS + 5; i++) {
		give = waker(7, 100 + (uint32_t)i, 9, 5);
		add(wakers, &give);
		wakers_take(wakers, &wait);
	}
	cr_expect_eq(wakers_stats(wakers)->links_no_room, 6);
	wakers_free(wakers);
}

/* The oldest entry is evicted. */
Test(wakers, bounded)
{
	static uint64_t user[BPFPROF_MAX_FRAMES];
	struct bpfprof_sample sample;
	struct aggregate_input input = { .sample = &sample, .stop = BPFPROF_STOP_COMPLETE };
	const struct waker *taken;
	struct wakers *wakers;
	uint32_t i;

	cr_assert_not(wakers_new(&wakers));
	for (i = 0; i < WAKERS_MAX + 3; i++) {
		sample = waker(7, 8, 100 + i, 5);
		wakers_add(wakers, &input);
	}
	cr_expect_eq(wakers_stats(wakers)->no_room, 3);
	expect_text(wakers, wait_of(7, 102, 5), WAKERS_UNKNOWN);
	expect_text(wakers, wait_of(7, 103, 5), "[woken by giver-8]");
	for (i = 0; i < BPFPROF_MAX_FRAMES; i++)
		user[i] = PYTHON(i);
	input.user = user;
	input.nr_user = BPFPROF_MAX_FRAMES;
	for (i = 0; i < 2 * WAKERS_MAX_BYTES / (WAKERS_MAX_FRAMES * 8); i++) {
		sample = waker(7, 8, i, 5);
		wakers_add(wakers, &input);
	}
	cr_expect_gt(wakers_stats(wakers)->no_room, WAKERS_MAX_BYTES / (WAKERS_MAX_FRAMES * 8));
	sample = wait_of(7, i - 1, 5);
	taken = wakers_take(wakers, &sample);
	cr_assert(taken && taken->nr_frames == WAKERS_MAX_FRAMES);
	cr_expect_eq(taken->frames[WAKERS_MAX_FRAMES - 1], PYTHON(0));
	cr_expect_eq(taken->frames[0] >> BPFPROF_FRAME_SHIFT, BPFPROF_FRAME_MARKER);
	cr_expect_eq(wakers_stats(wakers)->truncated, 1);
	wakers_free(wakers);
}
