// SPDX-License-Identifier: Apache-2.0
/*
 * --start-at: several machines begin to sample at the same moment of their clocks. All that takes long is
 * done before: the programs are attached and the processes are read. --ready-fd: a script learns when that is done.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/exit_status.h"
#include "base/log.h"
#include "base/time.h"
#include "capture/sampler.h"
#include "capture/worker_steps.h"

#define LAST_NS (20 * 1000000ULL) /* the sleep before the start, in which no event is read */
#define LATE_NS (10 * 1000000ULL) /* a start is reported as late from here on */
#define POLL_MS 200 /* the clock may be set meanwhile */

static int sleep_until(uint64_t at_ns)
{
	const struct timespec at = { .tv_sec = (time_t)(at_ns / NS_PER_SECOND),
				     .tv_nsec = (long)(at_ns % NS_PER_SECOND) };
	int err;

	do
		err = clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &at, NULL);
	while (err == EINTR);
	return -err;
}

/* Passes on events until shortly before the start. False: a signal came. */
static bool events_run(struct sampler *sampler, int signal_fd)
{
	struct pollfd fds[] = { { .fd = sampler_fd(sampler), .events = POLLIN },
				{ .fd = signal_fd, .events = POLLIN } };
	uint64_t until_ns = sampler->options->start_at_ns - LAST_NS, now_ns;
	int wait_ms;

	while ((now_ns = time_wall_ns()) < until_ns) {
		wait_ms = sampler_run(sampler);
		if (wait_ms > POLL_MS)
			wait_ms = POLL_MS;
		sampler_poll(sampler, fds, 2, time_poll_ms(now_ns, until_ns, wait_ms));
		if (fds[1].revents)
			return false;
	}
	return true;
}

int sampler_await_start(struct sampler *sampler, int signal_fd)
{
	uint64_t start_ns = sampler->options->start_at_ns, now_ns;
	/* A step that begins before the start is not one of the recording. */
	bool hold = sampler->steps && !sampler->options->session.gpu;
	int status, err;

	if (!start_ns)
		return EXIT_DONE;
	status = sampler_attach(sampler);
	if (status)
		return status;
	if (hold)
		worker_steps_from(sampler->steps, UINT64_MAX);
	now_ns = time_wall_ns();
	sampler->waited_ns = start_ns > now_ns ? start_ns - now_ns : 0;
	if (!events_run(sampler, signal_fd)) {
		log_error("a signal came before the time of --start-at: nothing is recorded");
		return EXIT_FAILED;
	}
	err = sleep_until(start_ns);
	if (err) {
		log_error("--start-at: %s", strerror(-err));
		return EXIT_FAILED;
	}
	if (hold)
		worker_steps_from(sampler->steps, time_monotonic_ns());
	now_ns = time_wall_ns();
	if (now_ns > start_ns + LATE_NS)
		log_warn("--start-at: it begins %.3f s late", (double)(now_ns - start_ns) / 1e9);
	return EXIT_DONE;
}

void sampler_report_ready(const struct sampler *sampler)
{
	int fd = sampler->options->ready_fd;

	if (fd && write(fd, "\n", 1) != 1)
		log_warn("--ready-fd: %s", strerror(errno));
	if (fd > STDERR_FILENO)
		close(fd);
}
