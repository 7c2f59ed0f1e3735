/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CAPTURE_DUMP_BURST_H
#define BPFPROF_CAPTURE_DUMP_BURST_H

#include <stdbool.h>
#include <stdint.h>

struct dump;

#define DUMP_ROW_SLOTS (1U << 17) /* 1 MiB of rows: few programs, and for a moment only */

struct dump_burst_options {
	const char *host_root;
	bool kernel; /* its frames are named, too */
	bool small; /* beside a session of ours: as of struct session_options */
	uint64_t ns; /* at most so long */
	uint64_t names_ns; /* so long for names; 0: as long as it takes */
};

/*
 * The stacks of threads that were on a CPU: their registers are true inside an interrupt only, so
 * they are sampled, fast and shortly. Those that no sample met stay as they are. An exit
 * status; if names took too long that is EXIT_FAILED.
 */
int dump_burst(struct dump *dump, const struct dump_burst_options *options);
/* Is there any such thread? */
bool dump_burst_wanted(const struct dump *dump);

#endif
