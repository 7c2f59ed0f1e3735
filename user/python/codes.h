/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PYTHON_CODES_H
#define BPFPROF_PYTHON_CODES_H

/*
 * Code objects, put together from the pieces that BPF sends. Each has the id that BPF gave
 * it (one per process and life of the object); what is the same in name, file and lines is
 * kept once, under a number of our own, so that the many workers of a job cost what one
 * does. Bounded: past max_bytes new ones are not kept, nor past a quarter of that for one
 * process; nr_full. Long line tables take time, of which there is a share: what is over it stays
 * as it is in codes_frame(), and is looked up in the end.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpfprof.h"

struct codes;

struct code_info {
	const char *
		name; /* qualified where the version knows it; borrowed until codes_free() or codes_sweep() */
	const char *file; /* co_filename */
	uint32_t first_line;
	uint32_t line; /* 0 = not known */
};

struct codes_counts {
	uint64_t nr_objects; /* ids that BPF gave */
	uint64_t nr_kept; /* distinct code there is now */
	uint64_t nr_full; /* pieces that there was no room for */
	uint64_t nr_malformed;
};

int codes_new(struct codes **ret, size_t max_bytes); /* 0 or -ENOMEM */
void codes_free(struct codes *codes);

/* A piece, as it came; lines: enum bpfprof_python_lines of its layout. size: bytes of the record. */
void codes_piece(struct codes *codes, const struct bpfprof_python_code *piece, size_t size,
		 uint32_t lines);

/*
 * A PYTHON frame as BPF made it, of the process with the id python, becomes (our number, line) if all pieces are here: the same
 * place in the source is then the same frame. Else it stays as it is.
 */
uint64_t codes_frame(struct codes *codes, uint64_t frame, uint32_t python);

/*
 * The same kind of frame for code that no sampler has seen, by what it is called. Of code known by
 * that name that which begins nearest above the line. As if it had no name when there is no room.
 */
uint64_t codes_frame_of(struct codes *codes, const char *name, const char *file, uint32_t line);

/*
 * Forgets the ids of processes that is_alive(arg, python id) no longer says to be there: no frame
 * with them will come any more. What their code was stays, and ids with pieces missing.
 */
void codes_forget(struct codes *codes, bool (*is_alive)(void *arg, uint32_t python), void *arg);

/*
 * Lets go of everything but what processes that are alive run, and what frames[] name: all
 * frames that are still to be described. Numbers may be given to other code afterwards.
 */
void codes_sweep(struct codes *codes, const uint64_t *frames, size_t nr,
		 bool (*is_alive)(void *arg, uint32_t python), void *arg);

/*
 * After a sweep, of a process that lives on: has it much code, or had it no room for some? Under
 * another id of the process BPF sends anew what still runs, and the next sweep lets go of the
 * rest. Else functions that a long life made and dropped would add up.
 */
bool codes_is_crowded(const struct codes *codes, uint32_t python);

/* What a frame of either form means. 0, or -ENOENT if not even its name has come. */
int codes_describe(struct codes *codes, uint64_t frame, struct code_info *ret);

const struct codes_counts *codes_counts(const struct codes *codes);

#endif
