// SPDX-License-Identifier: Apache-2.0
/* record --memory: what processes hold at the end, in files beside those of the CPU. */
#include <string.h>

#include "base/log.h"
#include "cmd/recording.h"
#include "findings/record_findings.h"
#include "memory/growth.h"
#include "memory/monitor.h"
#include "profile/profile.h"

#define AGGREGATE_BYTES (6U << 20)

int recording_memory_open(struct recording *rec)
{
	const struct memory_options options = { .sample_bytes = MEMORY_SAMPLE_BYTES,
						.question = MEMORY_HELD,
						.timeline = rec->options->html };

	return rec->options->capture.session.pages
		       ? memory_monitor_open(&rec->pages, &rec->sampler, &options, AGGREGATE_BYTES)
		       : 0;
}

int recording_memory_start(struct recording *rec)
{
	return rec->options->capture.session.pages ? memory_monitor_start(&rec->pages) : 0;
}

void recording_memory_end(struct recording *rec)
{
	int err;

	if (!rec->options->capture.session.pages)
		return;
	err = memory_monitor_finish(&rec->pages);
	if (err)
		log_error("memory: %s", strerror(-err));
	memory_monitor_stats(&rec->pages, &rec->stats.memory);
}

int recording_memory_profile(struct recording *rec, struct profile *ret)
{
	struct findings findings = { 0 };
	int err;

	if (!rec->options->capture.session.pages)
		return 0;
	rec->memory_stats = rec->stats;
	err = memory_profile(ret, &findings, &rec->memory_stats, &rec->stats.files, &rec->pages);
	if (err) {
		log_error("the profile of memory cannot be made: %s", strerror(-err));
		return err;
	}
	record_findings_replace(rec->findings, FINDING_MEMORY_GROWS, &findings);
	ret->time_ns = rec->start_wall_ns;
	ret->duration_ns = rec->end_mono_ns - rec->start_mono_ns;
	return 0;
}
