/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_DAEMON_DAEMON_OPTIONS_H
#define BPFPROF_DAEMON_DAEMON_OPTIONS_H

/* The flags of `bpfprof daemon`; rules as in options/options.h. */

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "capture/process_choice.h"
#include "capture/sampler.h"
#include "daemon/push_options.h"
#include "daemon/store.h"

struct buf;
struct config;

enum daemon_split { DAEMON_SPLIT_NODE, DAEMON_SPLIT_POD };

struct daemon_options {
	char *output; /* folder, pattern with % forms; never empty */
	uint64_t interval_seconds;
	struct store_limits limits;
	uint64_t max_memory; /* 0: as much as is usual for so many CPUs */
	uint32_t hz;
	enum sampler_clock clock;
	bool threads;
	bool gpu; /* calls of CUDA and NCCL, too */
	bool tensors, gc; /* with them: as of struct record_options */
	bool wall; /* all time of threads instead of time on a CPU */
	bool parked; /* with wall: threads without work are not folded */
	enum daemon_split split;
	char *config; /* or NULL: file with more of the environment (options/config.h) */
	char *host_root; /* or NULL */
	char *listen; /* ADDRESS:PORT or "none"; NULL: nothing was said */
	struct push_options push;
	char *token; /* what remote profiling asks for; NULL: there is none */
	struct process_choice choice; /* what is written */
	enum log_format log_format;
	enum log_level log_level;
};

/* config: what the environment does not have, or NULL. */
int daemon_options_parse(struct daemon_options *options, const struct config *config, int argc,
			 char *const argv[], struct buf *error);
/*
 * The same with the file that --config names, which it loads into config; checks what flags need of
 * each other. Results as of daemon_options_parse().
 */
int daemon_configure(struct daemon_options *options, struct config *config, int argc,
		     char *const argv[], struct buf *error);
void daemon_options_fini(struct daemon_options *options);
void daemon_help(struct buf *dst);

/*
 * Runs until SIGTERM or SIGINT. SIGHUP parses argv again and changes options and config, which
 * remain the caller's. An exit status.
 */
int daemon_run(struct daemon_options *options, struct config *config, int argc, char *const argv[]);

#endif
