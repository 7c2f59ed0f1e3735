// SPDX-License-Identifier: Apache-2.0
#include "base/deadline.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/background.h"
#include "base/file_read.h"
#include "base/refusals.h"
#include "base/vec.h"

#define STACK_BYTES (256 * 1024)
#define CLOSE_MS 200
#define RESERVED UINT64_MAX /* the number of a call whose key is not written yet */
#define MAX_CALLERS 2 /* at once: the loop and a job */
#define MAX_CALLS (DEADLINE_MAX_NODE + DEADLINE_MAX_PROCESSES + DEADLINE_MAX_MOUNTS + MAX_CALLERS)
#define CHECK_MS 50 /* a call that takes too long is checked this often */

enum call_state { CALL_NONE, CALL_WAITING, CALL_DONE, CALL_ABANDONED };

/* The calls that hang. The struct lives on while threads hang: the last of them frees it. */
struct stuck_calls {
	atomic_uint nr_users; /* the runner, and the hanging threads */
	atomic_uint nr;
	_Atomic uint64_t last; /* number of the last one */
	struct stuck_call {
		_Atomic uint64_t nr; /* number of the call, 0: free */
		uint64_t key;
		uint32_t tenant;
	} calls[MAX_CALLS];
};

/* One thread. An abandoned thread frees itself. */
struct worker {
	pthread_mutex_t lock;
	pthread_cond_t to_worker, to_caller;
	enum call_state state;
	int quit;
	long (*fn)(void *job);
	void (*abandon)(void *job);
	void *job;
	size_t cap;
	long result;
	_Atomic pid_t tid; /* 0: the thread has not begun yet */
	struct stuck_calls *stuck;
	_Atomic uint64_t *stuck_call; /* its entry in stuck, once abandoned */
};

struct close_request {
	uint64_t key;
	int fd;
};

struct deadline_runner {
	struct close_request *closes; /* at most as many as there can be descriptors */
	size_t nr_closes, cap_closes;
	struct worker *worker; /* idle, or NULL */
	struct stuck_calls *stuck;
	uint64_t last_stuck;
	struct deadline_wait last_wait;
	unsigned int ready_ms, asleep_ms; /* rest of deadline_patience() */
	struct refusals *refusals; /* or NULL */
};

static void stuck_put(struct stuck_calls *stuck)
{
	if (atomic_fetch_sub(&stuck->nr_users, 1) == 1)
		free(stuck);
}

static void worker_free(struct worker *w)
{
	pthread_mutex_destroy(&w->lock);
	pthread_cond_destroy(&w->to_worker);
	pthread_cond_destroy(&w->to_caller);
	free(w->job);
	free(w);
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	int abandoned;

	atomic_store(&w->tid, gettid());
	pthread_mutex_lock(&w->lock);
	for (;;) {
		while ((w->state == CALL_NONE || w->state == CALL_DONE) && !w->quit)
			pthread_cond_wait(&w->to_worker, &w->lock);
		/* The time was over before this thread ran at all. */
		if (w->quit || w->state == CALL_ABANDONED)
			break;
		pthread_mutex_unlock(&w->lock);
		w->result = w->fn(w->job);
		pthread_mutex_lock(&w->lock);
		if (w->state == CALL_ABANDONED)
			break;
		w->state = CALL_DONE;
		pthread_cond_signal(&w->to_caller);
	}
	abandoned = w->state == CALL_ABANDONED;
	pthread_mutex_unlock(&w->lock);
	if (abandoned) {
		if (w->abandon)
			w->abandon(w->job);
		atomic_store(w->stuck_call, 0);
		atomic_fetch_sub(&w->stuck->nr, 1);
		stuck_put(w->stuck);
	}
	worker_free(w);
	return NULL;
}

static struct worker *worker_new(struct stuck_calls *stuck)
{
	struct worker *w = calloc(1, sizeof(*w));
	pthread_condattr_t monotonic;
	pthread_attr_t attr;
	pthread_t thread;
	int err;

	if (!w)
		return NULL;
	w->stuck = stuck;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->to_worker, NULL);
	pthread_cond_init(&w->to_caller, &monotonic);
	pthread_condattr_destroy(&monotonic);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	err = pthread_create(&thread, &attr, worker_main, w);
	pthread_attr_destroy(&attr);
	if (err) {
		worker_free(w);
		return NULL;
	}
	return w;
}

int deadline_runner_new(struct deadline_runner **ret)
{
	struct deadline_runner *runner = calloc(1, sizeof(*runner));

	if (!runner)
		return -ENOMEM;
	runner->stuck = calloc(1, sizeof(*runner->stuck));
	if (!runner->stuck) {
		free(runner);
		return -ENOMEM;
	}
	runner->stuck->nr_users = 1;
	*ret = runner;
	return 0;
}

void deadline_set_refusals(struct deadline_runner *runner, struct refusals *refusals)
{
	runner->refusals = refusals;
}

static void worker_end(struct worker *w)
{
	pthread_mutex_lock(&w->lock);
	w->quit = 1;
	pthread_cond_signal(&w->to_worker);
	pthread_mutex_unlock(&w->lock);
}

void deadline_runner_free(struct deadline_runner *runner)
{
	if (!runner)
		return;
	if (runner->worker)
		worker_end(runner->worker);
	stuck_put(runner->stuck);
	free(runner->closes);
	free(runner);
}

static int worker_take_job(struct worker *w, const void *job, size_t bytes)
{
	void *copy;

	if (bytes > w->cap) {
		copy = realloc(w->job, bytes);
		if (!copy)
			return -ENOMEM;
		w->job = copy;
		w->cap = bytes;
	}
	memcpy(w->job, job, bytes);
	return 0;
}

/* Reads a file in /proc. Returns its length, or -errno. */
static ssize_t proc_read(pid_t tid, const char *name, char *text, size_t bytes)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", tid, name);
	return file_read_text(text, bytes, path);
}

struct deadline_wait deadline_wait_of(pid_t tid)
{
	struct deadline_wait wait = { 0 };
	char stat[256];
	const char *end;

	if (!tid) /* a thread that has not run yet waits for a CPU */
		return (struct deadline_wait){ .known = true, .ready = true };
	if (proc_read(tid, "stat", stat, sizeof(stat)) <= 0)
		return wait;
	end = strrchr(stat, ')'); /* the fields after the name have no ')' */
	if (!end || !end[1])
		return wait;
	wait.known = true;
	wait.ready = end[2] == 'R';
	if (wait.ready || proc_read(tid, "wchan", wait.in, sizeof(wait.in)) <= 0 ||
	    !strcmp(wait.in, "0"))
		wait.in[0] = '\0';
	return wait;
}

struct deadline_wait deadline_last_wait(const struct deadline_runner *runner)
{
	return runner->last_wait;
}

void deadline_patience(struct deadline_runner *runner, unsigned int ready_ms,
		       unsigned int asleep_ms)
{
	runner->ready_ms = ready_ms;
	runner->asleep_ms = asleep_ms;
}

/* The time of the call in w is over. May the caller wait a little longer? */
static bool is_patient(struct deadline_runner *runner, struct worker *w)
{
	unsigned int *left;

	runner->last_wait = deadline_wait_of(atomic_load(&w->tid));
	/* While a job waits, the loop goes on. */
	if (runner->last_wait.ready && background_is_job() && !background_is_over())
		return true;
	left = runner->last_wait.ready ? &runner->ready_ms : &runner->asleep_ms;
	if (!*left)
		return false;
	*left -= *left < CHECK_MS ? *left : CHECK_MS;
	return true;
}

static struct timespec time_after_ms(unsigned int ms)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += ms / 1000;
	t.tv_nsec += (long)(ms % 1000) * 1000000;
	if (t.tv_nsec >= 1000000000) {
		t.tv_sec++;
		t.tv_nsec -= 1000000000;
	}
	return t;
}

/* Abandons the worker, whose lock the caller holds. Returns the number of the call. */
static uint64_t worker_abandon(struct worker *w, uint64_t key)
{
	struct stuck_calls *stuck = w->stuck;
	uint64_t call = atomic_fetch_add(&stuck->last, 1) + 1, none;
	struct stuck_call *at = stuck->calls;

	/* There is a free place: is_free() has found one for each caller. */
	do
		none = 0;
	while (!atomic_compare_exchange_strong(&at->nr, &none, RESERVED) &&
	       ++at < stuck->calls + MAX_CALLS - 1);
	at->key = key;
	at->tenant = background_tenant();
	w->stuck_call = &at->nr;
	atomic_store(&at->nr, call);
	atomic_fetch_add(&stuck->nr, 1);
	atomic_fetch_add(&stuck->nr_users, 1);
	w->state = CALL_ABANDONED;
	return call;
}

/* The worker waits for the next call. One that was made while it ran is enough. */
static void worker_put(struct deadline_runner *runner, struct worker *w)
{
	if (runner->worker)
		worker_end(w);
	else
		runner->worker = w;
}

static const struct {
	unsigned int all, tenant;
} limits[] = {
	[DEADLINE_KIND_NODE] = { DEADLINE_MAX_NODE, DEADLINE_MAX_NODE },
	[DEADLINE_KIND_PROCESS] = { DEADLINE_MAX_PROCESSES, DEADLINE_TENANT_PROCESSES },
	[DEADLINE_KIND_MOUNT] = { DEADLINE_MAX_MOUNTS, DEADLINE_TENANT_MOUNTS },
};

/* May a call of that key begin? */
static bool is_free(const struct deadline_runner *runner, uint64_t key, uint32_t tenant)
{
	const struct stuck_calls *stuck = runner->stuck;
	const struct stuck_call *at;
	unsigned int nr = 0, nr_tenant = 0;

	if (!atomic_load(&stuck->nr))
		return true;
	for (at = stuck->calls; at < stuck->calls + MAX_CALLS; at++) {
		if (!atomic_load(&at->nr) || at->key >> 32 != key >> 32)
			continue;
		if (key != DEADLINE_NODE && at->key == key)
			return false;
		nr++;
		nr_tenant += tenant && at->tenant == tenant;
	}
	if (nr < limits[key >> 32].all && nr_tenant < limits[key >> 32].tenant)
		return true;
	refusals_count(runner->refusals, tenant, REFUSAL_CALL);
	return false;
}

long deadline_run(struct deadline_runner *runner, uint64_t key, long (*fn)(void *job),
		  void (*abandon)(void *job), void *job, size_t bytes, unsigned int timeout_ms)
{
	struct timespec end = time_after_ms(timeout_ms);
	struct worker *w = runner->worker;
	uint64_t call;
	long result;
	int err = 0;

	if (background_is_over() || !is_free(runner, key, background_tenant()))
		return -EBUSY;
	runner->worker = NULL; /* another thread may call meanwhile */
	if (!w)
		w = worker_new(runner->stuck);
	if (!w)
		return -ENOMEM;
	pthread_mutex_lock(&w->lock);
	if (worker_take_job(w, job, bytes)) {
		pthread_mutex_unlock(&w->lock);
		worker_put(runner, w);
		return -ENOMEM;
	}
	w->fn = fn;
	w->abandon = abandon;
	w->state = CALL_WAITING;
	pthread_cond_signal(&w->to_worker);
	background_wait_begin();
	while (w->state != CALL_DONE && !err) {
		err = pthread_cond_timedwait(&w->to_caller, &w->lock, &end);
		if (err != ETIMEDOUT || w->state == CALL_DONE || !is_patient(runner, w))
			continue;
		end = time_after_ms(CHECK_MS);
		err = 0;
	}
	if (w->state != CALL_DONE) {
		call = worker_abandon(w, key);
		pthread_mutex_unlock(&w->lock);
		background_wait_end();
		runner->last_stuck = call;
		return -ETIMEDOUT;
	}
	memcpy(job, w->job, bytes);
	result = w->result;
	w->state = CALL_NONE;
	pthread_mutex_unlock(&w->lock);
	background_wait_end();
	worker_put(runner, w);
	return result;
}

static long close_run(void *arg)
{
	return close(*(const int *)arg);
}

void deadline_close(struct deadline_runner *runner, uint64_t key, int fd)
{
	if (!vec_grow(runner->closes, runner->nr_closes + 1, runner->cap_closes, VEC_BOUNDED))
		runner->closes[runner->nr_closes++] = (struct close_request){ key, fd };
}

void deadline_close_all(struct deadline_runner *runner)
{
	struct close_request request;
	size_t left;
	long err;

	/* Others may ask for more meanwhile. */
	for (left = runner->nr_closes; left && runner->nr_closes; left--) {
		request = runner->closes[0];
		runner->closes[0] = runner->closes[--runner->nr_closes];
		err = deadline_run(runner, request.key, close_run, NULL, &request.fd,
				   sizeof(request.fd), CLOSE_MS);
		if (err == -EBUSY || err == -ENOMEM)
			deadline_close(runner, request.key, request.fd);
	}
}

void deadline_runner_forked(struct deadline_runner *runner)
{
	/*
	 * The thread does not exist in this process, and may hold the lock: the worker cannot even
	 * be freed.
	 */
	runner->worker = NULL;
}

unsigned int deadline_nr_stuck(const struct deadline_runner *runner)
{
	return atomic_load(&runner->stuck->nr);
}

bool deadline_is_full(const struct deadline_runner *runner, enum deadline_kind kind)
{
	const struct stuck_calls *stuck = runner->stuck;
	const struct stuck_call *at;
	unsigned int nr = 0;

	for (at = stuck->calls; at < stuck->calls + MAX_CALLS; at++)
		nr += atomic_load(&at->nr) && at->key >> 32 == kind;
	return nr >= limits[kind].all;
}

uint64_t deadline_last_stuck(const struct deadline_runner *runner)
{
	return runner->last_stuck;
}

bool deadline_is_stuck(const struct deadline_runner *runner, uint64_t call)
{
	uint32_t i;

	for (i = 0; call && i < MAX_CALLS; i++)
		if (atomic_load(&runner->stuck->calls[i].nr) == call)
			return true;
	return false;
}
