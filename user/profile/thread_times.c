// SPDX-License-Identifier: Apache-2.0
#include "profile/thread_times.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "profile/aggregate.h"
#include "profile/wakers.h"

#define HOLDER_BYTES (BPFPROF_COMM_LEN + 48)

struct thread_key {
	uint32_t pid, tid;
	uint64_t start_ns; /* of the process */
};

struct thread_time {
	UT_hash_handle hh;
	struct thread_key key;
	int64_t run, wait; /* samples in the aggregate, -1: none yet */
};

struct thread_times {
	struct aggregate *aggregate;
	struct thread_time *threads;
	uint64_t nr_full, nr_gil_waits, nr_holders_unknown;
};

int thread_times_new(struct thread_times **ret, struct aggregate *aggregate)
{
	struct thread_times *times = calloc(1, sizeof(*times));

	if (!times)
		return -ENOMEM;
	times->aggregate = aggregate;
	*ret = times;
	return 0;
}

void thread_times_free(struct thread_times *times)
{
	struct thread_time *thread, *next;

	if (!times)
		return;
	HASH_ITER(hh, times->threads, thread, next) {
		HASH_DEL(times->threads, thread);
		free(thread);
	}
	free(times);
}

static struct thread_time *thread_find(struct thread_times *times,
				       const struct bpfprof_task_id *task)
{
	struct thread_key key = { .pid = task->pid, .tid = task->tid, .start_ns = task->start_ns };
	struct thread_time *thread;

	HASH_FIND(hh, times->threads, &key, sizeof(key), thread);
	return thread;
}

static struct thread_time *thread_get(struct thread_times *times,
				      const struct bpfprof_task_id *task)
{
	struct thread_time *thread = thread_find(times, task);

	if (thread)
		return thread;
	if (HASH_COUNT(times->threads) < THREAD_TIMES_MAX)
		thread = calloc(1, sizeof(*thread));
	if (!thread) {
		times->nr_full++;
		return NULL;
	}
	thread->key = (struct thread_key){ .pid = task->pid,
					   .tid = task->tid,
					   .start_ns = task->start_ns };
	thread->run = thread->wait = -1;
	HASH_ADD(hh, times->threads, key, sizeof(thread->key), thread);
	return thread;
}

/* The leaf of a wait, apart from what it waited for a CPU; 0: the function that it was in says it all. */
static uint64_t wait_leaf(struct thread_times *times, const struct bpfprof_sample *s)
{
	char text[HOLDER_BYTES];

	if (s->flags & BPFPROF_SAMPLE_UNINTERRUPTIBLE)
		return aggregate_label(times->aggregate, THREAD_LEAF_UNINTERRUPTIBLE);
	if (!(s->flags & BPFPROF_SAMPLE_GIL_WAIT))
		return 0;
	times->nr_gil_waits++;
	times->nr_holders_unknown += !s->holder_tid;
	if (!s->holder_tid)
		return 0;
	snprintf(text, sizeof(text), THREAD_LEAF_GIL "%.*s-%" PRIu32 "]", BPFPROF_COMM_LEN,
		 s->holder_comm, s->holder_tid);
	return aggregate_label(times->aggregate, text);
}

/* Frames above those of a wait: who ended it. How many. */
static size_t waker_frames(struct thread_times *times, const struct waker *waker,
			   uint64_t above[AGGREGATE_MAX_ABOVE])
{
	size_t nr = 0;

	_Static_assert(WAKERS_MAX_FRAMES + 2 <= AGGREGATE_MAX_ABOVE,
		       "its name, and what is between");
	above[nr++] = aggregate_label(times->aggregate, waker->text);
	if (waker->nr_frames)
		memcpy(above + nr, waker->frames, waker->nr_frames * sizeof(*above));
	nr += waker->nr_frames;
	above[nr++] = aggregate_label(times->aggregate, WAKERS_SEPARATOR);
	return nr;
}

void thread_times_add(struct thread_times *times, const struct aggregate_input *input)
{
	const struct bpfprof_sample *s = input->sample;
	struct thread_time *thread = thread_get(times, &s->task);
	uint64_t runnable_ns = s->runnable_ns < s->period_ns ? s->runnable_ns : s->period_ns;
	struct aggregate_part parts[2] = { { .value_ns = s->period_ns - runnable_ns },
					   { .value_ns = runnable_ns } };
	uint64_t above[AGGREGATE_MAX_ABOVE];

	if (!(s->flags & BPFPROF_SAMPLE_WAIT)) {
		aggregate_add_parts(times->aggregate, input, parts, 1);
		if (thread && parts[0].sample >= 0)
			thread->run = parts[0].sample;
		return;
	}
	parts[0].leaf = wait_leaf(times, s);
	parts[0].asleep = !parts[0].leaf && !(s->flags & BPFPROF_SAMPLE_GIL_WAIT);
	if (input->waker) {
		parts[0].above = above;
		parts[0].nr_above = waker_frames(times, input->waker, above);
		parts[0].above_is_own = input->waker->own;
	}
	if (runnable_ns)
		parts[1].leaf = aggregate_label(times->aggregate, THREAD_LEAF_RUNNABLE);
	aggregate_add_parts(times->aggregate, input, parts, 2);
	if (!thread)
		return;
	/* The larger part: there is more to take something away from. */
	if (parts[0].sample >= 0 && parts[0].value_ns >= parts[1].value_ns)
		thread->wait = parts[0].sample;
	else if (parts[1].sample >= 0)
		thread->wait = parts[1].sample;
}

void thread_times_settle(struct thread_times *times, const struct aggregate_input *input,
			 uint64_t run_ns, int64_t wait_ns)
{
	const struct thread_time *thread = thread_find(times, &input->sample->task);
	int64_t run = thread ? thread->run : -1, wait = thread ? thread->wait : -1;
	struct aggregate_part rest = { 0 };

	if (run >= 0)
		aggregate_adjust(times->aggregate, run, (int64_t)run_ns);
	else
		rest.value_ns += run_ns;
	if (wait >= 0)
		aggregate_adjust(times->aggregate, wait, wait_ns);
	else if (wait_ns > 0)
		rest.value_ns += (uint64_t)wait_ns;
	if (!rest.value_ns)
		return;
	rest.leaf = aggregate_label(times->aggregate, THREAD_LEAF_NOT_SAMPLED);
	aggregate_add_parts(times->aggregate, input, &rest, 1);
}

uint64_t thread_times_nr_gil_waits(const struct thread_times *times, uint64_t *ret_unknown)
{
	*ret_unknown = times->nr_holders_unknown;
	return times->nr_gil_waits;
}

uint64_t thread_times_nr_full(const struct thread_times *times)
{
	return times->nr_full;
}
