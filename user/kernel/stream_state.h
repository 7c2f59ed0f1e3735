/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_STREAM_STATE_H
#define BPFPROF_KERNEL_STREAM_STATE_H

/*
 * Inside of struct stream. stream.c empties the ring buffer and decides who decodes a record: the loop,
 * or a job of the background. stream_decode.c decodes it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpfprof.h"
#include "kernel/stream.h"
#include "proc/title.h"

#define STREAM_MAX_DUE 1024

struct liveness;
struct process;
struct process_end;
struct ring_buffer;

/* The state of decoding a record. The loop has one and the jobs have one, since a job pauses half way. */
struct decoding {
	struct stream *stream;
	bool may_wait; /* for files and processes */
	bool apart; /* a job uses the process, so it cannot be looked at */
	uint64_t now_ns;
	uint64_t nr_samples;
	char title[TITLE_MAX + 1]; /* of an unknown process */
	struct bpfprof_title_event title_event; /* its title padded with zeros */
	uint64_t frames[BPFPROF_MAX_FRAMES + BPFPROF_MAX_USER_FRAMES];
	uint64_t merged[2 * (BPFPROF_MAX_FRAMES + BPFPROF_MAX_USER_FRAMES) + 1 +
			BPFPROF_MAX_AWAITERS];
};

struct stream {
	struct session *session;
	struct walker *walker;
	struct codes *codes;
	struct liveness *liveness;
	struct background *background; /* NULL: the loop does all itself */
	struct stream_handlers handlers;
	struct ring_buffer *ring;
	uint64_t verified_ns;
	uint64_t nr_malformed;
	uint64_t nr_ray, nr_bad_title, nr_torn_title;
	uint32_t due[STREAM_MAX_DUE]; /* pids whose mappings will be read again */
	size_t nr_due;
	struct decoding here, job;
};

/* Is the record of a known kind, and as long as that kind needs? */
bool stream_record_is_valid(const struct bpfprof_record *rec, size_t size);
/* Decodes a valid record. */
void stream_decode(struct decoding *d, const struct bpfprof_record *rec, size_t size);
/* The process has ended, whether an event reports it or not. */
void stream_exit(struct decoding *d, const struct bpfprof_task_id *task,
		 const struct process_end *end);
/* Has the stream samples of the clock, and nothing that needs the loop or the libraries of a process soon? */
bool stream_has_clock_alone(const struct stream *stream);
/* Its mappings will be read again after that time. */
void stream_reread_after(struct decoding *d, struct process *process, uint64_t delay_ns);

#endif
