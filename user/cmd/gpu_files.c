// SPDX-License-Identifier: Apache-2.0
/* The files of `bpfprof gpu`. */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/exit_status.h"
#include "base/log.h"
#include "cmd/gpu_memory_moments.h"
#include "cmd/gpu_parts.h"
#include "cmd/output_files.h"
#include "formats/output.h"
#include "gpu/memory_log.h"
#include "gpu/memory_snapshot.h"
#include "gpu/job.h"
#include "memory/history.h"
#include "options/gpu_options.h"
#include "profile/profile.h"

static int expand(struct buf *dst, const struct gpu_job *job, const char *pattern)
{
	const struct output_names names =
		output_files_names(&job->options->record, job->start_wall_ns);

	return output_expand_path(dst, pattern, &names);
}

int gpu_files_check(const struct gpu_job *job)
{
	const struct record_options *record = &job->options->record;
	size_t i;
	int err;

	for (i = 0; i < record->nr_outputs; i++) {
		__cleanup(buf_fini) struct buf path = { .max = PATH_MAX };

		err = expand(&path, job, record->outputs[i].path);
		if (!err)
			err = output_check(path.data);
		if (err) {
			output_files_report(record->outputs[i].path, path.data, err);
			return EXIT_FAILED;
		}
	}
	return EXIT_DONE;
}

/* The first output of that format; NULL: there is none. */
static const char *first_pattern(const struct gpu_job *job, enum output_format format)
{
	const struct record_options *record = &job->options->record;
	size_t i;

	for (i = 0; i < record->nr_outputs; i++)
		if (record->outputs[i].format == format)
			return record->outputs[i].path;
	return NULL;
}

static bool needs_profile(const struct gpu_job *job)
{
	const struct record_options *record = &job->options->record;
	size_t i;

	for (i = 0; i < record->nr_outputs; i++)
		if (record->outputs[i].format != OUTPUT_TRACE)
			return true;
	return false;
}

int gpu_files_start(struct gpu_job *job)
{
	__cleanup(buf_fini) struct buf path = { .max = PATH_MAX };
	const char *pattern = first_pattern(job, OUTPUT_TRACE);
	int err;

	if ((first_pattern(job, OUTPUT_PICKLE) || first_pattern(job, OUTPUT_HTML)) &&
	    gpu_memory_log_new(&job->memory_log)) {
		log_error("%s", strerror(ENOMEM));
		return EXIT_FAILED;
	}

	if (!pattern)
		return EXIT_DONE;
	err = expand(&path, job, pattern);
	if (!err)
		err = gpu_trace_start(job, path.data);
	if (!err)
		return EXIT_DONE;
	log_error("%s: no room to store calls until the end: %s; remedy: TMPDIR=FOLDER, or -o "
		  "FOLDER/NAME.json",
		  pattern, strerror(-err));
	return EXIT_FAILED;
}

/* profile: of the same calls, with their stacks. */
static int memory_write(struct gpu_job *job, const struct profile *profile, const char *path)
{
	struct gpu_memory_snapshot snapshot = { .log = job->memory_log,
						.table = job->watch.table,
						.profile = profile,
						.start_ns = job->start_ns,
						.start_wall_ns = job->start_wall_ns };
	int err = output_write_by(path, gpu_memory_snapshot_write, &snapshot);

	if (!err)
		gpu_memory_log_say(job->memory_log, path, snapshot.nr_omitted);
	return err;
}

/* profile: NULL if all files are traces. */
static int write_all(struct gpu_job *job, const struct gpu_snapshot *snapshot,
		     const struct profile *profile)
{
	const struct record_options *record = &job->options->record;
	const struct output_options options = { .threads = record->threads,
						.several = record->capture.nr_pids != 1 };
	int status = EXIT_DONE, err;
	size_t i;

	for (i = 0; i < record->nr_outputs; i++) {
		__cleanup(buf_fini) struct buf path = { .max = PATH_MAX };

		err = expand(&path, job, record->outputs[i].path);
		if (!err && record->outputs[i].format == OUTPUT_TRACE)
			err = gpu_trace_write(job, snapshot, path.data);
		else if (!err && record->outputs[i].format == OUTPUT_PICKLE)
			err = memory_write(job, profile, path.data);
		else if (!err)
			err = output_write(path.data, record->outputs[i].format, profile, &options);
		if (output_files_report(record->outputs[i].path, path.data, err))
			status = EXIT_FAILED;
	}
	return status;
}

/* The profile of all calls, with the time line of memory if a file shows it. 0 or -errno. */
static int profile_make(struct gpu_job *job, const struct gpu_snapshot *snapshot,
			struct gpu_monitor_profile *ret)
{
	struct memory_moments moments = { 0 };
	int err;

	if (first_pattern(job, OUTPUT_HTML))
		gpu_memory_moments_fill(&moments, &job->watch, job->memory_log, job->start_ns,
					job->end_ns, &ret->stats.gpu_lost);
	err = gpu_monitor_profile_make(&job->watch, snapshot, ret);
	if (!err)
		memory_moments_history(&moments, "GPU memory", "calls", &ret->profile);
	memory_moments_fini(&moments);
	return err;
}

int gpu_files_write(struct gpu_job *job, const struct gpu_snapshot *snapshot)
{
	struct gpu_monitor_profile calls = { 0 };
	int status, err;

	if (!needs_profile(job))
		return write_all(job, snapshot, NULL);
	err = profile_make(job, snapshot, &calls);
	if (err) {
		log_error("%s", strerror(-err));
		profile_fini(&calls.profile);
		return EXIT_FAILED;
	}
	calls.stats.duration_seconds = (double)(job->end_ns - job->start_ns) / 1e9;
	calls.profile.time_ns = job->start_wall_ns;
	calls.profile.duration_ns = job->end_ns - job->start_ns;
	calls.profile.threads = job->options->record.threads;
	status = write_all(job, snapshot, &calls.profile);
	profile_fini(&calls.profile);
	return status;
}
