/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_SHORT_FILE_H
#define BPFPROF_PROFILE_SHORT_FILE_H

struct deadline_runner;

/*
 * The short form of a Python file's name, a part of path (python/text.h); folders are looked at
 * under a deadline: they may be on a server that is gone. runner may be NULL: do not look.
 */
const char *short_file(struct deadline_runner *runner, const char *path);

#endif
