/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CLI_COMMAND_H
#define BPFPROF_CLI_COMMAND_H

/* What main.c calls for each subcommand, and the exit statuses that they share. */

struct record_options;
struct doctor_options;

enum exit_status {
	EXIT_DONE = 0, /* also when the target was idle: that is an answer */
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_PRIVILEGE = 3, /* missing privilege or kernel feature; the remedy was said */
	EXIT_NO_TARGET = 4,
};

/* Both return an exit status; what went wrong was said on standard error. */
int record_run(const struct record_options *options);
int doctor_run(const struct doctor_options *options);

#endif
