/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_THREADS_DUMP_VIEW_H
#define BPFPROF_THREADS_DUMP_VIEW_H

/* The threads and frames of a dump that are shown, in text and JSON. */

#include <stdbool.h>

#define DUMP_FRAME_BYTES 1024

struct dump;
struct dump_format;
struct process_dump;
struct thread_dump;
struct thread_frame;

bool dump_shows_thread(const struct process_dump *process, const struct thread_dump *thread,
		       const struct dump_format *format);
bool dump_shows_frame(const struct process_dump *process, const struct thread_dump *thread,
		      const struct thread_frame *frame, const struct dump_format *format);
/* The file of a frame as it is shown; "" if there is none. */
const char *dump_frame_file(const struct dump *dump, const struct thread_frame *frame,
			    const struct dump_format *format);
/* Writes a frame as it is shown into room: "train (loop.py:12)", "cuStreamSynchronize". */
void dump_frame_text(const struct dump *dump, const struct thread_frame *frame,
		     char room[DUMP_FRAME_BYTES]);
/* "idle", "active" or "active+gil" */
const char *dump_thread_status(const struct thread_dump *thread);

#endif
