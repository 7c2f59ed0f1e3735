/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CAPTURE_DUMP_BURST_H
#define BPFPROF_CAPTURE_DUMP_BURST_H

#include <stdbool.h>
#include <stdint.h>

struct dump;

#define DUMP_ROW_SLOTS (1U << 17) /* 1 MiB of rows: few programs, for a moment */

struct dump_burst_options {
	const char *host_root;
	bool kernel; /* kernel frames are named, too */
	bool small; /* as in struct session_options, beside another session of ours */
	uint64_t ns; /* to sample, at most */
	uint64_t names_ns; /* to name frames, at most; 0: no limit */
};

/*
 * Samples threads that were on a CPU, fast and shortly: their registers are true inside an interrupt only.
 * Threads without a sample stay as they are. An exit status: EXIT_FAILED if naming took too long.
 */
int dump_burst(struct dump *dump, const struct dump_burst_options *options);
/* Has the dump such a thread? */
bool dump_burst_wanted(const struct dump *dump);

#endif
