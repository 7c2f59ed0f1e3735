/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_DAEMON_DAEMON_OPTIONS_H
#define BPFPROF_DAEMON_DAEMON_OPTIONS_H

/* The flags of `bpfprof daemon`; rules as in options/options.h. */

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "capture/process_choice.h"
#include "daemon/push_options.h"
#include "daemon/store.h"
#include "daemon/tokens.h"
#include "options/options.h"

struct buf;
struct config;

enum daemon_split { DAEMON_SPLIT_NODE, DAEMON_SPLIT_POD };

struct daemon_options {
	struct capture_options capture; /* of all processes */
	bool threads; /* keep threads apart */
	bool parked; /* with --wall: stacks of idle threads, too */
	char *output; /* folder, pattern with % forms; never empty */
	uint64_t interval_seconds;
	struct store_limits limits;
	struct store_access access;
	uint64_t max_memory; /* 0: the default for this number of CPUs */
	struct stall_options stall; /* --watch */
	enum daemon_split split;
	char *config; /* a file with more variables (options/config.h), or NULL */
	char *listen; /* ADDRESS:PORT or "none"; NULL: the default */
	char *socket; /* a Unix socket whose clients may ask about their own pod, or NULL */
	struct push_options push, notify;
	struct tokens tokens; /* clients must send one of them; none: no remote profiling */
	struct process_choice choice; /* the processes that are written */
	enum log_format log_format;
	enum log_level log_level;
};

extern const struct flag_set daemon_flags;

/*
 * options_parse() with the file that --config names, which it loads into config; SIGHUP repeats it.
 */
int daemon_configure(struct daemon_options *options, struct config *config, int argc,
		     char *const argv[], struct buf *error);

/*
 * Runs until SIGTERM or SIGINT. SIGHUP parses argv again and changes options, which remain the
 * caller's. An exit status.
 */
int daemon_run(struct daemon_options *options, int argc, char *const argv[]);

#endif
