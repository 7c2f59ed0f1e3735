/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_FORMATS_PROFILE_READ_H
#define BPFPROF_FORMATS_PROFILE_READ_H

/*
 * Reads stored files of bpfprof and of other tools as one profile: pprof (gzipped or not), collapsed
 * stacks and py-spy's raw. Files are not trusted: their bytes, their depth and the memory for them are
 * bounded, and a malformed one is refused with the place. The caller owns the struct.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/builder.h"
#include "profile/profile.h"
#include "profile/stats.h"

#define PROFILE_READ_FILE_BYTES (256U << 20) /* packed and unpacked */
#define PROFILE_READ_BYTES ((size_t)1 << 30) /* of all files together */
#define PROFILE_READ_FILES 16384

struct buf;
struct seconds_cut;

struct profile_read {
	struct profile_builder builder;
	struct piece_set identities; /* of processes; kernel_pid is the index + 1 */
	const char *sample_type; /* the wanted one, or NULL; borrowed */
	struct profile_value value; /* the meaning of value_ns, the same in all files */
	size_t nr_files;
	size_t nr_untimed; /* files without a duration */
	bool raw_only; /* all files are py-spy's raw */
	bool process_taken; /* first frames of a file of unknown origin were taken as processes */
	bool threads;
	uint32_t host; /* 0: none, or several */
	bool hosts_differ;
	uint32_t hz;
	struct vec intervals; /* struct profile_read_interval, of files that have a time */
	uint64_t untimed_ns; /* duration of files that have no time */
	struct run_stats stats;
	bool has_stats;
	/* The wanted seconds of the file that is added next; NULL: all of it is wanted. Borrowed. */
	struct seconds_cut *cut;
	bool was_cut; /* a file had only some seconds taken: reasons in stats are of its whole interval */
};

/* 0 or -ENOMEM. */
int profile_read_init(struct profile_read *read, const char *sample_type);
void profile_read_fini(struct profile_read *read);

/*
 * Adds the file of that name with the content data[len]. 0; -EBADMSG, -EINVAL (cannot be added to
 * the others), -ENOENT (has no such sample type) or -E2BIG, with the reason added to why;
 * -ENOMEM. After an error a part of the file may have been added.
 */
int profile_read_add(struct profile_read *read, const char *path, const char *data, size_t len,
		     struct buf *why);

/* Makes the profile, whose stats point to read->stats. The caller calls profile_fini(). */
void profile_read_finish(struct profile_read *read, struct profile *ret);

#endif
