/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_THREADS_DUMP_H
#define BPFPROF_THREADS_DUMP_H

/*
 * A dump in py-spy's words: text, and JSON with keys of our own besides. Names that targets chose
 * cannot control the terminal.
 */

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct dump;

struct dump_format {
	bool native, kernel; /* these frames are shown too, and threads that Python does not know */
	bool full_filenames;
	bool waits; /* lines that say what a thread waits for, and in which call */
	bool containers; /* and one for the pod and the container of a process */
};

void dump_text(struct buf *dst, const struct dump *dump, const struct dump_format *format);
void dump_json(struct buf *dst, const struct dump *dump, const struct dump_format *format);

#endif
