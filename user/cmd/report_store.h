/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CMD_REPORT_STORE_H
#define BPFPROF_CMD_REPORT_STORE_H

/* Folders that bpfprof daemon writes, as operands of report: the profiles of CPU time of some intervals. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct profile;
struct process_choice;

/* --at, --for and --last; all 0: every interval. */
struct report_window {
	uint64_t at_s; /* Unix time, 0: not given */
	uint64_t for_s; /* 0: not given: the whole interval that holds at_s */
	uint64_t last_s; /* before the end of the newest interval, 0: not given */
};

/* A file to be read. */
struct report_path {
	char *path;
	char *seconds; /* the file with the seconds of its samples; NULL: all of it is wanted */
	uint64_t from_s, until_s; /* with seconds: the wanted ones, Unix time */
};

/* A list that owns its paths. */
struct report_paths {
	struct report_path *list;
	size_t nr, cap;
	size_t nr_without; /* files whose seconds do not exist */
	uint64_t nr_left_out; /* samples without a second, of files that were cut */
};

struct seconds_cut;

/*
 * The files, with each folder replaced by its profiles in the window, the oldest first; those at its edges have
 * seconds. 0 or an error, which is reported but for -ENOMEM; report_paths_fini() is due.
 */
int report_paths_expand(struct report_paths *ret, char *const *files, size_t nr,
			const struct report_window *window);
/*
 * Before a file is read, reads the seconds that it has. True: the file is to be read with *ret; report_cut_end() is due
 * after it. False: all of the file is to be taken; the reason was reported, or counted.
 */
bool report_cut_begin(struct report_paths *paths, const struct report_path *path,
		      struct seconds_cut *ret);
void report_cut_end(struct report_paths *paths, const struct report_path *path,
		    struct seconds_cut *cut);
void report_paths_end(const struct report_paths *paths); /* reports the counts */
void report_paths_fini(struct report_paths *paths);

/* Leaves the samples out that --pod, --container and -p do not choose. 0; -ENOENT, which is reported: all; -ENOMEM. */
int report_samples_choose(struct profile *profile, const struct process_choice *choice);

/* "14:03", "14:03:20": the last such time of UTC; seconds since 1970. 0 or -EINVAL. */
int report_time(const char *text, uint64_t now_s, uint64_t *ret_s);

#endif
