/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_WATCH_SAMPLES_ROW_H
#define BPFPROF_WATCH_SAMPLES_ROW_H

#include <stdint.h>

struct buf;

/*
 * The row of a summary with the command that shows the samples of a process until then. store: the folder of a daemon's
 * profiles; NULL: there are none, and no row. wall_ns: Unix time.
 */
void samples_row(struct buf *dst, const char *store, uint32_t pid, uint64_t wall_ns);

#endif
