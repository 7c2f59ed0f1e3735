/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_DAEMON_SETS_H
#define BPFPROF_DAEMON_SETS_H

/*
 * Which sets of files a folder of the daemon holds: part of store.c, and of nothing else. At most
 * SETS_MAX_FILES files are read; the others are found after some of these were removed.
 */

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/store.h"

#define SETS_MAX_FILES 360000 /* a day has 345600 of them with intervals of a second */

#define SETS_FUTURE_SECONDS 60 /* a set that begins later was made under another clock */

struct set {
	uint64_t start, seconds, copy;
	uint64_t bytes;
	uint32_t files; /* bit: enum store_file */
	bool keep; /* belongs to the caller; false at first */
};

struct sets {
	struct set *sets; /* the first to be removed comes first */
	size_t nr;
	uint64_t bytes;
};

/*
 * Reads the folder. Sets from the future (the clock was set back) come first, as they are older than
 * those of now. 0, or -errno without any set.
 */
int sets_read(struct sets *ret, int folder_fd, uint64_t now_seconds);
void sets_fini(struct sets *sets);

/* Opens a folder in another one to be listed. 0 or -errno. */
int folder_list(DIR **ret, int above_fd, const char *name);
bool set_is_too_old(const struct set *set, uint64_t now_seconds, uint64_t age_seconds);
bool set_is(const struct set *set, const struct store_name *name);
/* name[STORE_NAME_MAX] */
void set_file_name(char *name, const struct set *set, enum store_file file);

#endif
