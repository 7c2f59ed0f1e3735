/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CAPTURE_READER_OPEN_H
#define BPFPROF_CAPTURE_READER_OPEN_H

struct session_options;
struct thread_reader;

/*
 * As thread_reader_open(), and says on standard error what failed, with the remedy. An exit status.
 * thread_reader_close() is due whatever this returns.
 */
int reader_open(struct thread_reader *reader, const struct session_options *options,
		const char *host_root);

#endif
