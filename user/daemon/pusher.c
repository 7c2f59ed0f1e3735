// SPDX-License-Identifier: Apache-2.0
#include "daemon/pusher.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/buf.h"
#include "base/time.h"
#include "daemon/push_queue.h"

/* Each byte of a label may become three. */
#define REQUEST_MAX (16U << 10)

struct pusher {
	const struct pusher_options *options;
	struct push_post *post; /* the thread's */
	pthread_t thread;
	atomic_bool stop;
	pthread_mutex_t lock; /* of all below; never held while something is sent */
	pthread_cond_t changed;
	struct push_queue queue;
	bool sending;
	bool drain; /* do not wait before the next try */
	uint64_t drain_failures; /* more failures in a row than these end the drain */
	struct pusher_stats stats;
};

const char *push_drop_name(enum push_drop drop)
{
	static const char *const names[PUSH_NR_DROPS] = {
		[PUSH_DROP_QUEUE_FULL] = "queue_full",
		[PUSH_DROP_REFUSED] = "refused",
		[PUSH_DROP_GONE] = "gone",
		[PUSH_DROP_FILE] = "file",
		[PUSH_DROP_NO_MEMORY] = "no_memory",
	};

	return names[drop];
}

static uint32_t random_number(void)
{
	uint32_t number;

	if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != sizeof(number))
		number = (uint32_t)time_monotonic_ns();
	return number;
}

static void send_one(struct pusher *pusher, const struct push_item *item, struct push_result *ret)
{
	struct buf url;

	buf_init(&url, REQUEST_MAX);
	if (pusher->options->as_is)
		buf_add_str(&url, pusher->options->url);
	else
		push_url_make(&url, pusher->options->url, &pusher->options->labels, item);
	if (buf_error(&url))
		*ret = (struct push_result){ .outcome = PUSH_FILE, .why = "its URL is too long" };
	else
		push_post_send(pusher->post, url.data, item, &pusher->stop, ret);
	buf_fini(&url);
}

/* Can the same request succeed later? */
static bool is_final(enum push_outcome outcome, enum push_drop *drop)
{
	switch (outcome) {
	case PUSH_REFUSED:
		*drop = PUSH_DROP_REFUSED;
		return true;
	case PUSH_GONE:
		*drop = PUSH_DROP_GONE;
		return true;
	case PUSH_FILE:
		*drop = PUSH_DROP_FILE;
		return true;
	default:
		return false;
	}
}

/* Notes the result of a try; true: the item is finished. Called with the lock. */
static bool result_take(struct pusher *pusher, const struct push_result *result)
{
	struct pusher_stats *stats = &pusher->stats;
	uint64_t asked_ms = result->retry_after_s * 1000ULL;
	enum push_drop drop;

	if (result->outcome == PUSH_DELIVERED) {
		stats->pushed++;
		stats->bytes += result->bytes;
		stats->last_pushed_s = time_wall_ns() / NS_PER_SECOND;
		stats->failures = 0;
		return true;
	}
	if (result->outcome == PUSH_STOPPED)
		return false;
	stats->failed[result->outcome]++;
	stats->last_failure = *result;
	if (is_final(result->outcome, &drop)) {
		stats->dropped[drop]++;
		/* A server that refuses an item can be reached. */
		if (result->outcome == PUSH_REFUSED)
			stats->failures = 0;
		return true;
	}
	stats->failures++;
	stats->wait_ms = push_wait_ms((unsigned int)stats->failures, random_number());
	if (stats->wait_ms < asked_ms)
		stats->wait_ms = asked_ms;
	return false;
}

/*
 * Called with the lock. Waits until the next try is due, or the pusher must end, or must not wait.
 */
static void wait_ms(struct pusher *pusher, uint64_t ms)
{
	uint64_t end = time_monotonic_ns() + ms * 1000000;
	struct timespec at = { .tv_sec = (time_t)(end / NS_PER_SECOND),
			       .tv_nsec = (long)(end % NS_PER_SECOND) };

	while (!atomic_load(&pusher->stop) && !pusher->drain)
		if (pthread_cond_timedwait(&pusher->changed, &pusher->lock, &at) == ETIMEDOUT)
			return;
}

static void *thread_main(void *arg)
{
	struct pusher *pusher = arg;
	struct push_result result;
	struct push_item item;
	bool done;

	pthread_mutex_lock(&pusher->lock);
	while (!atomic_load(&pusher->stop)) {
		if (push_queue_take(&pusher->queue, &item)) {
			pthread_cond_wait(&pusher->changed, &pusher->lock);
			continue;
		}
		pusher->sending = true;
		pthread_mutex_unlock(&pusher->lock);
		send_one(pusher, &item, &result);
		pthread_mutex_lock(&pusher->lock);
		pusher->sending = false;
		done = result_take(pusher, &result);
		if (done)
			push_item_fini(&item);
		else
			pusher->stats.dropped[PUSH_DROP_QUEUE_FULL] +=
				push_queue_return(&pusher->queue, &item);
		pthread_cond_broadcast(&pusher->changed);
		if (!done)
			wait_ms(pusher, pusher->stats.wait_ms);
		pusher->drain = false;
	}
	pthread_mutex_unlock(&pusher->lock);
	return NULL;
}

int pusher_new(struct pusher **ret, const struct pusher_options *options)
{
	struct pusher *pusher = calloc(1, sizeof(*pusher));
	pthread_condattr_t monotonic;
	int err;

	if (!pusher)
		return -ENOMEM;
	pusher->options = options;
	pthread_mutex_init(&pusher->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&pusher->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	err = push_queue_init(&pusher->queue, options->queue);
	if (!err)
		err = push_post_open(&pusher->post, &options->access);
	if (!err)
		err = -pthread_create(&pusher->thread, NULL, thread_main, pusher);
	if (err) {
		push_post_close(pusher->post);
		push_queue_fini(&pusher->queue);
		free(pusher);
		return err;
	}
	*ret = pusher;
	return 0;
}

void pusher_add(struct pusher *pusher, const struct push_item *item)
{
	pthread_mutex_lock(&pusher->lock);
	pusher->stats.dropped[PUSH_DROP_QUEUE_FULL] += push_queue_add(&pusher->queue, item);
	pthread_cond_broadcast(&pusher->changed);
	pthread_mutex_unlock(&pusher->lock);
}

void pusher_no_memory(struct pusher *pusher)
{
	pthread_mutex_lock(&pusher->lock);
	pusher->stats.dropped[PUSH_DROP_NO_MEMORY]++;
	pthread_mutex_unlock(&pusher->lock);
}

void pusher_stats_get(struct pusher *pusher, struct pusher_stats *ret)
{
	pthread_mutex_lock(&pusher->lock);
	*ret = pusher->stats;
	ret->waiting = pusher->queue.nr + pusher->sending;
	pthread_mutex_unlock(&pusher->lock);
}

void pusher_drain_begin(struct pusher *pusher)
{
	pthread_mutex_lock(&pusher->lock);
	/*
	 * A running try may fail for a reason that is over by now: the result of the next one
	 * counts.
	 */
	pusher->drain_failures = pusher->stats.failures + pusher->sending;
	pusher->drain = true;
	pthread_cond_broadcast(&pusher->changed);
	pthread_mutex_unlock(&pusher->lock);
}

void pusher_drain_wait(struct pusher *pusher, uint64_t until_ns)
{
	struct timespec at = { .tv_sec = (time_t)(until_ns / NS_PER_SECOND),
			       .tv_nsec = (long)(until_ns % NS_PER_SECOND) };

	pthread_mutex_lock(&pusher->lock);
	while ((pusher->queue.nr || pusher->sending) &&
	       pusher->stats.failures <= pusher->drain_failures)
		if (pthread_cond_timedwait(&pusher->changed, &pusher->lock, &at) == ETIMEDOUT)
			break;
	pthread_mutex_unlock(&pusher->lock);
}

void pusher_free(struct pusher *pusher)
{
	if (!pusher)
		return;
	atomic_store(&pusher->stop, true);
	pthread_mutex_lock(&pusher->lock);
	pthread_cond_broadcast(&pusher->changed);
	pthread_mutex_unlock(&pusher->lock);
	pthread_join(pusher->thread, NULL);
	push_post_close(pusher->post);
	push_queue_fini(&pusher->queue);
	pthread_mutex_destroy(&pusher->lock);
	pthread_cond_destroy(&pusher->changed);
	free(pusher);
}
