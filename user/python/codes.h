/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PYTHON_CODES_H
#define BPFPROF_PYTHON_CODES_H

/*
 * Code objects, put together from the pieces that BPF sends. BPF gives each an id (one per process and
 * life of the object). Code with the same name, file and lines is kept once, under a number of our own,
 * so the many workers of a job cost as much as one. Bounded: past max_bytes, past a quarter of it for one
 * process and past three quarters for one tenant, new code is not kept (nr_full). Long line tables take time, and only a share of the time
 * may go into them: the frames beyond it stay unchanged in codes_frame() and get their lines at the end.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpfprof.h"

struct codes;

struct code_info {
	const char *name; /* qualified from 3.11 on; borrowed until codes_free() or codes_sweep() */
	const char *file; /* co_filename */
	uint32_t first_line;
	uint32_t line; /* 0 = not known */
};

struct codes_counts {
	uint64_t nr_objects; /* ids that BPF gave */
	uint64_t nr_kept; /* distinct code at the moment */
	uint64_t nr_full; /* pieces without room */
	uint64_t nr_malformed;
};

int codes_new(struct codes **ret, size_t max_bytes); /* 0 or -ENOMEM */
void codes_free(struct codes *codes);

/* Names the tenant (base/tenant.h) of a process with the id python, before its first piece. */
void codes_set_tenant(struct codes *codes, uint32_t python, uint32_t tenant);
/* Have pieces of that process come, or was its tenant named? */
bool codes_has(const struct codes *codes, uint32_t python);
/* A piece from BPF; lines: enum bpfprof_python_lines of its layout; size: bytes of the record. */
void codes_piece(struct codes *codes, const struct bpfprof_python_code *piece, size_t size,
		 uint32_t lines);

/*
 * Turns a PYTHON frame of BPF, of the process with the id python, into (our number, line) if all pieces
 * have come, so that the same place in the source is the same frame. Else the frame stays unchanged.
 */
uint64_t codes_frame(struct codes *codes, uint64_t frame, uint32_t python);

/*
 * The same kind of frame for code that no sampler has seen, by its name: the known code of that name that
 * begins nearest above the line, else new code. Without room the frame has no name.
 */
uint64_t codes_frame_of(struct codes *codes, const char *name, const char *file, uint32_t line);

/*
 * Forgets the ids of processes for which is_alive(arg, python id) is false: no frame with them comes any
 * more. Their code stays, and so do ids with missing pieces.
 */
void codes_forget(struct codes *codes, bool (*is_alive)(void *arg, uint32_t python), void *arg);

/*
 * Evicts all code except that of living processes and of frames[], which has all frames still to be
 * described. Other code may get the numbers afterwards.
 */
void codes_sweep(struct codes *codes, const uint64_t *frames, size_t nr,
		 bool (*is_alive)(void *arg, uint32_t python), void *arg);

/*
 * After a sweep: has a living process much code, or was there no room for some of it? The caller gives
 * such a process another id: BPF then sends the code that still runs again, and the next sweep evicts the
 * rest. Else functions that a process made and dropped over a long time would add up.
 */
bool codes_is_crowded(const struct codes *codes, uint32_t python);

/* Name, file and line of a frame of either form. 0, or -ENOENT if not even its name has come. */
int codes_describe(struct codes *codes, uint64_t frame, struct code_info *ret);

const struct codes_counts *codes_counts(const struct codes *codes);

#endif
