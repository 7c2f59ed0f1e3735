/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CMD_COMMAND_H
#define BPFPROF_CMD_COMMAND_H

/*
 * Room cmd: has main(), and one file or a few for each command.
 *
 * The commands that main.c runs.
 */

struct record_options;
struct top_options;
struct doctor_options;
struct dump_options;
struct gpu_options;
struct memory_options;
struct report_options;
struct watch_options;

/* All return an exit status (base/exit_status.h), and report errors. */
int record_run(const struct record_options *options);
int top_run(const struct top_options *options);
int doctor_run(const struct doctor_options *options);
int dump_run(const struct dump_options *options);
int gpu_run(const struct gpu_options *options);
int memory_run(const struct memory_options *options);
int watch_run(const struct watch_options *options);
int clock_run(void);
int report_run(const struct report_options *options);

#endif
