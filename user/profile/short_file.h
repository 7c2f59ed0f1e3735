/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_SHORT_FILE_H
#define BPFPROF_PROFILE_SHORT_FILE_H

#include <stdint.h>

struct images;

/* Files as the process pid sees them; NULL images or pid 0: no folder can be read. */
struct short_file_view {
	struct images *images;
	uint32_t pid; /* in our own pid namespace */
};

/*
 * The short form of the name of a Python file, a part of path (python/text.h). Folders are checked as the
 * process sees them, under a deadline: they may be on a server that does not answer.
 */
const char *short_file(const struct short_file_view *view, const char *path);

#endif
