/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CAPTURE_CAPTURE_OPTIONS_H
#define BPFPROF_CAPTURE_CAPTURE_OPTIONS_H

/*
 * The processes and events of one recording. Flags fill the struct, the command sets the fields that
 * it decides itself, and sampler_open() borrows it. All zero but session.hz is the whole machine. A
 * field that the BPF programs need is a field of struct session_options.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "capture/container_filter.h"
#include "kernel/session.h"
#include "ray/steps.h"

/*
 * Filters add up: a process is recorded if a pid, a comm glob, a worker pattern or the child names
 * it; without any of the four, all are. The containers then exclude processes that live elsewhere.
 */
struct capture_options {
	struct session_options
		session; /* as asked for; capture_session_options() completes a copy */
	const pid_t *pids; /* -p, each once; with pods, as these see them */
	size_t nr_pids;
	uint64_t pid_start; /* of these, for target_has_start() */
	char *const *comms; /* --comm, fnmatch(3) patterns */
	size_t nr_comms;
	char *const
		*workers; /* --worker, patterns of ray/worker_match.h without blanks around them */
	size_t nr_workers;
	struct container_filter containers; /* --container, --pod */
	pid_t child; /* one more process, from its next exec on; 0: none */
	bool no_subprocesses; /* children of pids and of the child do not count */
	struct steps_range
		steps; /* --steps, with workers: only these calls; stop 0: all of the time */
	uint64_t start_at_ns; /* --start-at, by CLOCK_REALTIME; 0: at once */
	int ready_fd; /* gets a newline once the recording runs; 0: none */
	bool end_with_stdin; /* SIGINT comes when standard input ends */
	bool report_workers; /* name the workers that were found on standard error */
	bool gil; /* only samples whose thread holds Python's GIL */
	const char *host_root; /* absolute; or NULL */
	unsigned int background_share; /* of background_new(); 0: the loop itself reads files */
	size_t name_bytes; /* of a profile, see symbolize.h; 0: the default */
	size_t codes_bytes; /* the limit for facts about Python code; 0: the default */
};

/* The session for these options: filter, follow, titles, gaps_alone and no_clock follow from others. */
struct session_options capture_session_options(const struct capture_options *options);

#endif
