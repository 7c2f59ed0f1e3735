/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_DAEMON_SETS_H
#define BPFPROF_DAEMON_SETS_H

/*
 * Which sets of files a folder of the daemon holds: part of store.c, and of nothing else. At most
 * SETS_MAX_FILES files are looked at; what is beyond is seen once others have gone.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/store.h"

#define SETS_MAX_FILES 262144 /* of a day of intervals of a second, 259200 */

#define SETS_FUTURE_SECONDS 60 /* a set this far ahead was made under another clock */

struct set {
	uint64_t start, seconds, copy;
	uint64_t bytes;
	uint32_t files; /* bit: enum store_file */
	bool keep; /* for the caller's use; false */
};

struct sets {
	struct set *sets; /* in the order in which they may go */
	size_t nr;
	uint64_t bytes;
};

/*
 * Reads the folder. Sets from the future (the clock has been set back) come first: they are
 * not newer than those of now. 0, or -errno and there are none.
 */
int sets_read(struct sets *ret, int folder_fd, uint64_t now_seconds);
void sets_fini(struct sets *sets);

const char *store_latest_name(enum store_file file); /* of its link */

bool set_is(const struct set *set, const struct store_name *name);
/* name[STORE_NAME_MAX] */
void set_file_name(char *name, const struct set *set, enum store_file file);

#endif
