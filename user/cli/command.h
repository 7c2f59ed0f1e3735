/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CLI_COMMAND_H
#define BPFPROF_CLI_COMMAND_H

/* What main.c calls for each subcommand, and the exit statuses that they share. */

struct config;
struct daemon_options;
struct record_options;
struct top_options;
struct doctor_options;
struct dump_options;
struct gpu_options;
struct report_options;

enum exit_status {
	EXIT_DONE = 0, /* also when the target was idle: that is an answer */
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_PRIVILEGE = 3, /* missing privilege or kernel feature; the remedy was said */
	EXIT_NO_TARGET = 4,
};

/* All return an exit status; what went wrong was said on standard error. */
int record_run(const struct record_options *options);
int top_run(const struct top_options *options);
int doctor_run(const struct doctor_options *options);
int dump_run(const struct dump_options *options);
int gpu_run(const struct gpu_options *options);
int report_run(const struct report_options *options);
/* Both change at SIGHUP, and remain the caller's: argv is parsed again then. */
int daemon_run(struct daemon_options *options, struct config *config, int argc, char *const argv[]);

#endif
