// SPDX-License-Identifier: Apache-2.0
#include "capture/dump_burst.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/exit_status.h"
#include "base/log.h"
#include "base/strtab.h"
#include "base/time.h"
#include "capture/sampler.h"
#include "profile/aggregate.h"
#include "profile/stats.h"
#include "threads/stack_names.h"
#include "threads/thread_sample.h"
#include "threads/thread_dump.h"

#define BURST_HZ 1997
#define POLL_MS 2
#define RING_BYTES (4U << 20)

struct burst {
	struct dump *dump;
	size_t nr_waiting; /* threads without a good sample */
	int error;
};

static struct thread_dump *thread_find(struct dump *dump, uint32_t pid, uint32_t tid)
{
	size_t i;

	for (i = 0; i < dump->nr_processes; i++)
		if (dump->processes[i].kernel_pid == pid)
			return process_dump_find(&dump->processes[i], tid);
	return NULL;
}

static void on_sample(struct burst *burst, const struct aggregate_input *input)
{
	struct thread_dump *thread =
		thread_find(burst->dump, input->sample->task.pid, input->sample->task.tid);
	bool good = thread_sample_is_whole(input);

	/* The first good sample is kept; before it, the last bad one. */
	if (!thread || !thread->running || thread->sampled_well || burst->error)
		return;
	burst->error = thread_sample_take(thread, input, burst->dump->strings);
	thread->sampled = !burst->error;
	thread->sampled_well = good && !burst->error;
	burst->nr_waiting -= thread->sampled_well;
}

static void on_event(void *arg, const struct event *event)
{
	if (event->kind == EVENT_SAMPLE)
		on_sample(arg, event->input);
}

static size_t running_collect(const struct dump *dump, pid_t *pids, size_t *ret_nr_threads)
{
	size_t i, k, nr = 0, nr_here;

	*ret_nr_threads = 0;
	for (i = 0; i < dump->nr_processes; i++) {
		nr_here = 0;
		for (k = 0; k < dump->processes[i].nr_threads; k++)
			nr_here += dump->processes[i].threads[k].running;
		if (nr_here && pids)
			pids[nr] = (pid_t)dump->processes[i].pid;
		nr += nr_here != 0;
		*ret_nr_threads += nr_here;
	}
	return nr;
}

static void sample_shortly(struct sampler *sampler, const struct burst *burst, uint64_t ns)
{
	uint64_t end_ns = time_monotonic_ns() + ns;
	struct pollfd fd = { .fd = sampler_fd(sampler), .events = POLLIN };

	while (burst->nr_waiting && !burst->error && time_monotonic_ns() < end_ns) {
		sampler_poll(sampler, &fd, 1, POLL_MS);
		sampler_run(sampler);
	}
	sampler_stop(sampler);
}

bool dump_burst_wanted(const struct dump *dump)
{
	size_t nr_threads;

	return running_collect(dump, NULL, &nr_threads) > 0;
}

int dump_burst(struct dump *dump, const struct dump_burst_options *options)
{
	__cleanup(free_mem) pid_t *pids = calloc(dump->nr_processes + 1, sizeof(*pids));
	struct burst burst = { .dump = dump };
	struct capture_options capture = {
		.session = { .hz = BURST_HZ,
			     .small = options->small,
			     .ring_bytes = options->small ? RING_BYTES / 4 : RING_BYTES,
			     .nr_rows = DUMP_ROW_SLOTS },
		.pids = pids,
		.no_subprocesses = true,
		.host_root = options->host_root,
	};
	struct stack_names_options names = { .kernel = options->kernel, .sampled = true };
	struct sampler sampler;
	int status;

	if (!pids)
		return EXIT_FAILED;
	capture.nr_pids = running_collect(dump, pids, &burst.nr_waiting);
	if (!capture.nr_pids)
		return EXIT_DONE;
	status = sampler_open(&sampler, &capture);
	sampler_observe(&sampler, on_event, &burst);
	if (!status)
		status = sampler_start(&sampler);
	if (!status) {
		sample_shortly(&sampler, &burst, options->ns);
		names.codes = sampler.codes;
		if (options->names_ns)
			names.deadline_ns = time_monotonic_ns() + options->names_ns;
		if (!burst.error)
			burst.error = stack_names_find(dump, &sampler.reader, &names);
	}
	sampler_close(&sampler);
	if (burst.error) {
		log_error("%s", strerror(-burst.error));
		return EXIT_FAILED;
	}
	return status;
}
