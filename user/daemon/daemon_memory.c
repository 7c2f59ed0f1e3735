// SPDX-License-Identifier: Apache-2.0
/*
 * --memory: what processes held at the end of each interval. The writer is a fork of this process, so it
 * has the last answer; nothing is handed over.
 */
#include "daemon/daemon.h"

#include "findings/findings.h"
#include "memory/growth.h"
#include "memory/monitor.h"
#include "profile/profile.h"

#define AGGREGATE_BYTES (4U << 20)

static bool wants(void *arg, const struct aggregate_input *input)
{
	struct daemon *daemon = arg;

	return process_filter_wants(&daemon->filter, &daemon->sampler, input);
}

int pages_open(struct daemon *daemon)
{
	const struct memory_options options = { .sample_bytes = MEMORY_SAMPLE_BYTES,
						.question = MEMORY_HELD,
						.timeline = true };
	int status;

	if (!daemon->options->capture.session.pages)
		return 0;
	status = memory_monitor_open(&daemon->pages, &daemon->sampler, &options, AGGREGATE_BYTES);
	daemon->pages.wants = wants;
	daemon->pages.arg = daemon;
	return status;
}

int pages_start(struct daemon *daemon)
{
	return daemon->options->capture.session.pages ? memory_monitor_start(&daemon->pages) : 0;
}

void pages_run(struct daemon *daemon, uint64_t now_ns)
{
	if (daemon->options->capture.session.pages)
		memory_monitor_run(&daemon->pages, now_ns);
}

int pages_profile(struct daemon *daemon, struct profile *ret, struct run_stats *stats,
		  struct write_result *result)
{
	const struct interval *interval = &daemon->ended;
	struct findings findings = { 0 };
	int err;

	*stats = daemon->writer.stats;
	err = memory_monitor_fill(&daemon->pages);
	if (!err)
		err = memory_profile(ret, &findings, stats, &result->files, &daemon->pages);
	ret->time_ns = interval->start_ns + interval->offset_ns;
	ret->duration_ns = interval->end_ns - interval->start_ns;
	findings_report(&findings);
	return err;
}

void pages_stats(const struct daemon *daemon, struct stats_reasons *dst)
{
	if (daemon->options->capture.session.pages)
		memory_monitor_stats(&daemon->pages, dst);
}

void pages_next(struct daemon *daemon)
{
	if (daemon->options->capture.session.pages)
		memory_monitor_next(&daemon->pages);
}
