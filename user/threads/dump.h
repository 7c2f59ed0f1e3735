/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_THREADS_DUMP_H
#define BPFPROF_THREADS_DUMP_H

/*
 * Writes a dump as py-spy does: as text, or as JSON with keys of our own besides. Names that targets chose
 * cannot control the terminal.
 */

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct dump;

struct dump_format {
	bool native, kernel; /* these frames are shown too, and threads that Python does not know */
	bool full_filenames;
	bool waits; /* lines for what a thread waits for, and for its GPU call */
	bool containers; /* a line for the pod and the container of a process */
};

void dump_text(struct buf *dst, const struct dump *dump, const struct dump_format *format);
void dump_json(struct buf *dst, const struct dump *dump, const struct dump_format *format);

#endif
