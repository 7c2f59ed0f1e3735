/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_SHORT_FILE_H
#define BPFPROF_PROFILE_SHORT_FILE_H

#include <stdint.h>

struct images;

/* Files as the process pid sees them; NULL images or pid 0: they cannot be looked at. */
struct short_file_view {
	struct images *images;
	uint32_t pid; /* in our own pid namespace */
};

/*
 * The short form of a Python file's name, a part of path (python/text.h). Folders are looked at where the
 * process has them, under a deadline: they may be on a server that is gone.
 */
const char *short_file(const struct short_file_view *view, const char *path);

#endif
