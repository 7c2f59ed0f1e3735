/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CMD_REPORT_STORE_H
#define BPFPROF_CMD_REPORT_STORE_H

/* Folders that bpfprof daemon writes, as operands of report: the profiles of CPU time of some intervals. */

#include <stddef.h>
#include <stdint.h>

struct profile;
struct process_choice;

/* --at, --for and --last; all 0: every interval. */
struct report_window {
	uint64_t at_s; /* Unix time, 0: not given */
	uint64_t for_s;
	uint64_t last_s; /* before the end of the newest interval, 0: not given */
};

/* A list that owns its paths. */
struct report_paths {
	char **list;
	size_t nr;
};

/*
 * The files, with each folder replaced by its profiles in the window, the oldest first. 0 or an error, which is
 * reported but for -ENOMEM; report_paths_fini() is due.
 */
int report_paths_expand(struct report_paths *ret, char *const *files, size_t nr,
			const struct report_window *window);
void report_paths_fini(struct report_paths *paths);

/* Leaves the samples out that --pod, --container and -p do not choose. 0; -ENOENT, which is reported: all; -ENOMEM. */
int report_samples_choose(struct profile *profile, const struct process_choice *choice);

/* "14:03", "14:03:20": the last such time of UTC; seconds since 1970. 0 or -EINVAL. */
int report_time(const char *text, uint64_t now_s, uint64_t *ret_s);

#endif
