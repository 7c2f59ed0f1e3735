// SPDX-License-Identifier: Apache-2.0
#include "profile/thread_times.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash_table.h"
#include "profile/aggregate.h"
#include "profile/aggregate_rollover.h"
#include "profile/stats.h"
#include "profile/wakers.h"

#define HOLDER_BYTES (BPFPROF_COMM_LEN + 48)
#define MALLOC_BYTES 16 /* overhead of malloc(3), about */
#define STACK_WORTH_NS 20000000LL /* a shorter wait needs no stack of its own */

struct thread_key {
	uint32_t pid, tid;
	uint64_t start_ns; /* start of the process */
};

/* The last samples in an aggregate, -1: none yet. */
struct thread_samples {
	int32_t run, wait;
};

struct thread_time {
	struct hash_node node;
	struct thread_key key;
	struct thread_samples ended, latest;
	int64_t run_ahead_ns, wait_ahead_ns; /* time added before samples of it arrived */
	uint64_t after_ns; /* time after the boundary that samples have covered */
	uint64_t open_since_ns; /* begin of the wait whose stack is in `latest`, 0: none */
	bool heard; /* a sample has come */
	bool seen; /* it was looked up since the interval boundary */
	bool settled; /* all time before the boundary was added */
};

/* The aggregate that takes time before the interval boundary, or all time. */
struct thread_side {
	struct aggregate *aggregate;
	struct thread_samples *samples;
};

struct thread_times {
	struct aggregate *aggregate; /* may be NULL after a boundary */
	struct aggregate *ended; /* NULL: there was no boundary, or it is closed */
	uint64_t from_ns, ended_from_ns, boundary_ns;
	struct hash_table threads;
	uint64_t nr_full, nr_gil_waits, nr_holders_unknown;
};

int thread_times_new(struct thread_times **ret, struct aggregate *aggregate, uint64_t from_ns)
{
	struct thread_times *times = calloc(1, sizeof(*times));

	if (!times)
		return -ENOMEM;
	times->aggregate = aggregate;
	times->from_ns = from_ns;
	hash_table_init(&times->threads, THREAD_TIMES_MAX, struct thread_time, key);
	*ret = times;
	return 0;
}

void thread_times_free(struct thread_times *times)
{
	if (!times)
		return;
	hash_table_clear(&times->threads);
	free(times);
}

static struct thread_time *thread_find(const struct thread_times *times,
				       const struct bpfprof_task_id *task)
{
	struct thread_key key = { .pid = task->pid, .tid = task->tid, .start_ns = task->start_ns };

	return hash_table_find(&times->threads, &key);
}

/* fresh: the thread was not known before. */
static struct thread_time *thread_get(struct thread_times *times,
				      const struct bpfprof_task_id *task, bool *fresh)
{
	struct thread_key key = { .pid = task->pid, .tid = task->tid, .start_ns = task->start_ns };
	struct thread_time *thread = hash_table_find(&times->threads, &key);

	*fresh = !thread;
	if (thread) {
		thread->seen = true;
		return thread;
	}
	thread = hash_table_add(&times->threads, &key);
	if (!thread) {
		times->nr_full++;
		return NULL;
	}
	thread->latest.run = thread->latest.wait = -1;
	thread->ended = thread->latest;
	thread->seen = true;
	return thread;
}

/*
 * The leaf for the wait itself, without the time for a CPU; 0: there is none, as the function is
 * enough.
 */
static uint64_t wait_leaf(struct thread_times *times, struct aggregate *aggregate,
			  const struct bpfprof_sample *s)
{
	char text[HOLDER_BYTES];

	if (s->flags & BPFPROF_SAMPLE_UNINTERRUPTIBLE)
		return aggregate_label(aggregate, THREAD_LEAF_UNINTERRUPTIBLE);
	if (!(s->flags & BPFPROF_SAMPLE_GIL_WAIT))
		return 0;
	times->nr_gil_waits++;
	times->nr_holders_unknown += !s->holder_tid;
	if (!s->holder_tid)
		return 0;
	snprintf(text, sizeof(text), THREAD_LEAF_GIL "%.*s-%" PRIu32 "]", BPFPROF_COMM_LEN,
		 s->holder_comm, s->holder_tid);
	return aggregate_label(aggregate, text);
}

/* Writes the frames of the waker above those of a wait. Returns their number. */
static size_t waker_frames(struct aggregate *aggregate, const struct waker *waker,
			   uint64_t above[AGGREGATE_MAX_ABOVE])
{
	size_t nr = 0;

	_Static_assert(WAKERS_MAX_FRAMES + 2 <= AGGREGATE_MAX_ABOVE,
		       "its name, and what is between");
	above[nr++] = aggregate_label(aggregate, waker->text);
	if (waker->nr_frames)
		memcpy(above + nr, waker->frames, waker->nr_frames * sizeof(*above));
	nr += waker->nr_frames;
	above[nr++] = aggregate_label(aggregate, WAKERS_SEPARATOR);
	return nr;
}

/* Adds the time of a sample. The thread waited for a CPU during runnable_ns of it. */
static void side_add(struct thread_times *times, struct thread_side side,
		     const struct aggregate_input *input, uint64_t ns, uint64_t runnable_ns)
{
	struct aggregate_part parts[2] = { { .value_ns = ns - runnable_ns },
					   { .value_ns = runnable_ns } };
	uint64_t above[AGGREGATE_MAX_ABOVE];
	const struct bpfprof_sample *s = input->sample;

	if (!ns || !side.aggregate)
		return;
	if (!(s->flags & BPFPROF_SAMPLE_WAIT)) {
		parts[0].value_ns = ns;
		parts[0].runs = true;
		aggregate_add_parts(side.aggregate, input, parts, 1);
		if (parts[0].sample >= 0)
			side.samples->run = (int32_t)parts[0].sample;
		return;
	}
	parts[0].leaf = wait_leaf(times, side.aggregate, s);
	parts[0].asleep = !parts[0].leaf && !(s->flags & BPFPROF_SAMPLE_GIL_WAIT);
	if (input->waker) {
		parts[0].above = above;
		parts[0].nr_above = waker_frames(side.aggregate, input->waker, above);
		parts[0].above_is_own = input->waker->own;
	}
	if (runnable_ns)
		parts[1].leaf = aggregate_label(side.aggregate, THREAD_LEAF_RUNNABLE);
	aggregate_add_parts(side.aggregate, input, parts, 2);
	/* The larger part is kept: time may have to be subtracted from it. */
	if (parts[0].sample >= 0 && parts[0].value_ns >= parts[1].value_ns)
		side.samples->wait = (int32_t)parts[0].sample;
	else if (parts[1].sample >= 0)
		side.samples->wait = (int32_t)parts[1].sample;
}

/* Subtracts time that was added ahead. Returns the rest. */
static uint64_t ahead_take(int64_t *ahead_ns, uint64_t ns)
{
	uint64_t ahead = *ahead_ns > 0 ? (uint64_t)*ahead_ns : 0;

	if (ahead > ns)
		ahead = ns;
	*ahead_ns -= (int64_t)ahead;
	return ns - ahead;
}

static uint64_t oldest_ns(const struct thread_times *times)
{
	return times->ended ? times->ended_from_ns : times->from_ns;
}

static uint64_t at_most(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/*
 * A wait whose stack was read at a boundary is over, and its own sample has no complete stack,
 * since a thread that is killed in a wait may exit first. The boundary's stack is the better one of
 * the same wait.
 */
static bool is_known_better(const struct thread_time *thread, const struct aggregate_input *input)
{
	return thread && input->sample->flags & BPFPROF_SAMPLE_WAIT && thread->open_since_ns &&
	       thread->latest.wait >= 0 && input->stop != BPFPROF_STOP_COMPLETE;
}

void thread_times_add(struct thread_times *times, const struct aggregate_input *input)
{
	const struct bpfprof_sample *s = input->sample;
	uint64_t ts_ns = s->rec.ts_ns, ns = s->period_ns, after_ns, runnable_ns;
	struct thread_samples nobodys = { -1, -1 };
	struct thread_side before = { times->ended, &nobodys },
			   after = { times->aggregate, &nobodys };
	bool fresh, wait = s->flags & BPFPROF_SAMPLE_WAIT;
	struct thread_time *thread = thread_get(times, &s->task, &fresh);

	if (thread) {
		ns = ahead_take(wait ? &thread->wait_ahead_ns : &thread->run_ahead_ns, ns);
		before.samples = &thread->ended;
		after.samples = &thread->latest;
		thread->heard = true;
	}
	if (fresh && oldest_ns(times)) /* the earlier part was not recorded */
		ns = ts_ns > oldest_ns(times) ? at_most(ns, ts_ns - oldest_ns(times)) : 0;
	after_ns = ns;
	if (times->ended && !(thread && thread->settled)) {
		after_ns = ts_ns > times->boundary_ns ? at_most(ns, ts_ns - times->boundary_ns) : 0;
		if (thread)
			thread->after_ns += after_ns;
	}
	if (is_known_better(thread, input)) {
		thread->open_since_ns = 0;
		aggregate_release(times->aggregate, thread->latest.wait);
		aggregate_adjust(times->aggregate, thread->latest.wait, (int64_t)after_ns);
		after_ns = ns = 0;
	}
	if (thread && wait)
		thread->open_since_ns = 0;
	/* The wait for a CPU comes last. */
	runnable_ns = at_most(s->runnable_ns, ns);
	side_add(times, after, input, after_ns, at_most(runnable_ns, after_ns));
	side_add(times, before, input, ns - after_ns, runnable_ns - at_most(runnable_ns, after_ns));
}

void thread_times_boundary(struct thread_times *times, struct aggregate *next, uint64_t boundary_ns)
{
	struct thread_time *thread;

	times->ended = times->aggregate;
	times->aggregate = next;
	times->ended_from_ns = times->from_ns;
	times->from_ns = times->boundary_ns = boundary_ns;
	hash_table_each(&times->threads, thread) {
		thread->ended = thread->latest;
		thread->latest.run = thread->latest.wait = -1;
		thread->after_ns = 0;
		thread->seen = thread->settled = false;
	}
}

void thread_times_close(struct thread_times *times)
{
	struct thread_time *thread;

	times->ended = NULL;
	hash_table_each(&times->threads, thread)
		if (!thread->seen)
			hash_table_remove(&times->threads, thread);
}

/* The interval that is settled: the one that has ended, or the whole recording. */
static struct thread_side side_of(const struct thread_times *times, struct thread_time *thread)
{
	if (times->ended)
		return (struct thread_side){ times->ended, &thread->ended };
	return (struct thread_side){ times->aggregate, &thread->latest };
}

/* Removes later time from the rest. */
static void rest_cut(const struct thread_times *times, const struct thread_time *thread,
		     const struct thread_rest *rest, int64_t *run_ns, int64_t *wait_ns)
{
	int64_t after_ns = (int64_t)rest->after_ns;

	*run_ns = (int64_t)rest->run_ns;
	*wait_ns = rest->wait_ns + (int64_t)rest->open_ns;
	if (!times->ended)
		return;
	if (thread)
		after_ns -= (int64_t)thread->after_ns;
	if (after_ns > 0 && *run_ns > 0) {
		int64_t of_run_ns = after_ns < *run_ns ? after_ns : *run_ns;

		*run_ns -= of_run_ns;
		after_ns -= of_run_ns;
	}
	*wait_ns -= after_ns;
}

/* Limits the wait to time after from_ns. */
static int64_t wait_bound(const struct thread_times *times, bool fresh, int64_t ns)
{
	int64_t most = (int64_t)(times->boundary_ns - times->ended_from_ns);

	return fresh && times->ended && times->ended_from_ns && ns > most ? most : ns;
}

/* The wait time that is not reported yet. */
static int64_t wait_unreported(const struct thread_times *times, const struct thread_time *thread,
			       bool fresh, const struct thread_rest *rest)
{
	int64_t run_ns, wait_ns;

	rest_cut(times, thread, rest, &run_ns, &wait_ns);
	if (thread)
		wait_ns -= thread->wait_ahead_ns;
	return wait_bound(times, fresh, wait_ns);
}

bool thread_times_wants_stack(const struct thread_times *times, const struct bpfprof_task_id *task,
			      const struct thread_rest *rest)
{
	const struct thread_time *thread = thread_find(times, task);

	if (!rest->open_ns || wait_unreported(times, thread, !thread, rest) < STACK_WORTH_NS)
		return false;
	return !thread || thread->open_since_ns != rest->since_ns ||
	       (times->ended ? thread->ended : thread->latest).wait < 0;
}

/* Adds ns to the sample, or subtracts it. Returns the rest; it is above 0 only without a sample. */
static int64_t sample_adjust(struct aggregate *aggregate, int64_t sample, int64_t ns)
{
	if (sample < 0)
		return ns;
	if (ns > 0)
		aggregate_release(aggregate, sample);
	return ns - aggregate_adjust(aggregate, sample, ns);
}

/* Moves the stack of a wait that goes on to the next interval. */
static void open_rollover(struct thread_times *times, struct thread_time *thread,
			  const struct thread_rest *rest)
{
	thread->open_since_ns = 0;
	if (!rest->open_ns || thread->ended.wait < 0)
		return;
	thread->open_since_ns = rest->since_ns;
	if (times->ended && times->aggregate)
		thread->latest.wait = (int32_t)aggregate_rollover_sample(
			times->aggregate, times->ended, thread->ended.wait);
}

void thread_times_open(struct thread_times *times, const struct aggregate_input *input,
		       const struct thread_rest *rest)
{
	bool fresh;
	struct thread_time *thread = thread_get(times, &input->sample->task, &fresh);
	int64_t run_ns, wait_ns, unreported_ns;
	struct thread_side side;

	if (!thread)
		return;
	side = side_of(times, thread);
	rest_cut(times, thread, rest, &run_ns, &wait_ns);
	unreported_ns = wait_unreported(times, thread, fresh, rest);
	if (unreported_ns > 0) {
		side_add(times, side, input, (uint64_t)unreported_ns, 0);
		thread->wait_ahead_ns = wait_ns;
		open_rollover(times, thread, rest);
	}
	thread_times_settle(times, input, rest);
}

void thread_times_settle(struct thread_times *times, const struct aggregate_input *input,
			 const struct thread_rest *rest)
{
	bool fresh, same;
	struct thread_time *thread = thread_get(times, &input->sample->task, &fresh);
	struct aggregate_part unsampled = { 0 };
	int64_t run_ns, wait_ns, run_left, wait_left;
	struct thread_side side;

	if (!thread)
		return;
	side = side_of(times, thread);
	rest_cut(times, thread, rest, &run_ns, &wait_ns);
	thread->settled = times->ended;
	same = rest->open_ns && thread->open_since_ns == rest->since_ns;
	run_left = sample_adjust(side.aggregate, side.samples->run, run_ns - thread->run_ahead_ns);
	wait_left = sample_adjust(side.aggregate, side.samples->wait,
				  wait_unreported(times, thread, fresh, rest));
	/* Time that could not be subtracted now is subtracted later. */
	thread->run_ahead_ns = run_ns - (run_left < 0 ? run_left : 0);
	thread->wait_ahead_ns = wait_ns - (wait_left < 0 ? wait_left : 0);
	unsampled.value_ns =
		(run_left > 0 ? (uint64_t)run_left : 0) + (wait_left > 0 ? (uint64_t)wait_left : 0);
	if (unsampled.value_ns) {
		unsampled.leaf = aggregate_label(side.aggregate, THREAD_LEAF_NOT_SAMPLED);
		aggregate_add_parts(side.aggregate, input, &unsampled, 1);
	}
	if (times->ended && same && thread->latest.wait < 0)
		open_rollover(times, thread, rest);
}

bool thread_times_settled(const struct thread_times *times, const struct bpfprof_task_id *task)
{
	const struct thread_time *thread = thread_find(times, task);

	return thread && thread->settled;
}

bool thread_times_heard(struct thread_times *times, const struct bpfprof_task_id *task)
{
	struct thread_time *thread = thread_find(times, task);
	bool heard = thread && thread->heard;

	if (thread)
		thread->heard = false;
	return heard;
}

void thread_times_end(struct thread_times *times, const struct aggregate_input *input,
		      const struct thread_rest *rest)
{
	struct thread_time *thread = thread_find(times, &input->sample->task);
	struct aggregate *ended = times->ended;

	/* A thread with a sample after the boundary belongs to the new interval. */
	if (thread && (thread->latest.run >= 0 || thread->latest.wait >= 0))
		times->ended = NULL;
	thread_times_settle(times, input, rest);
	times->ended = ended;
	thread = thread_find(times, &input->sample->task);
	if (thread && !ended)
		hash_table_remove(&times->threads, thread);
}

size_t thread_times_bytes(const struct thread_times *times)
{
	return times->threads.nr * (sizeof(struct thread_time) + MALLOC_BYTES) +
	       times->threads.nr_slots * sizeof(*times->threads.slots);
}

#define AT(field) offsetof(struct thread_times, field)

const struct counter thread_times_counters[] = {
	{ COUNTER_WAITS, "for_the_gil", AT(nr_gil_waits), .help = "waits for Python's GIL" },
	{ COUNTER_WAITS, "gil_holder_unknown", AT(nr_holders_unknown),
	  .help = "waits for the GIL whose holder is not known" },
	{ COUNTER_WAITS, "threads_no_room", AT(nr_full), .help = "threads over the limit" },
	{ 0 },
};

void thread_times_stats(const struct thread_times *times, struct stats_reasons *waits)
{
	stats_add_rows(waits, thread_times_counters, times, false);
}
