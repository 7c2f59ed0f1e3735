/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_FORMATS_PROFILE_READ_H
#define BPFPROF_FORMATS_PROFILE_READ_H

/*
 * Stored files, our own and those of other tools, as one profile: pprof (gzipped or not), collapsed
 * stacks and py-spy's raw. Files may come from anywhere: bounded in bytes, depth and
 * in what is kept of them; a malformed one is refused, with the place. The caller owns the struct.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/builder.h"
#include "profile/profile.h"
#include "profile/stats.h"

#define PROFILE_READ_FILE_BYTES (256U << 20) /* also after it was unpacked */
#define PROFILE_READ_BYTES ((size_t)1 << 30) /* of all files together */
#define PROFILE_READ_FILES 16384

struct buf;

struct profile_read {
	struct profile_builder builder;
	struct piece_set identities; /* of processes: their kernel_pid is the index + 1 */
	const char *sample_type; /* that was asked for, or NULL; borrowed */
	struct profile_value value; /* what value_ns is, of all files */
	size_t nr_files;
	size_t nr_untimed; /* files that do not say how long they took */
	bool raw_only; /* all of them are py-spy's raw */
	bool process_taken; /* a file that tells no dialect: its first frames were taken so */
	bool threads;
	uint32_t host; /* 0: none, or several */
	bool hosts_differ;
	uint32_t hz;
	struct vec intervals; /* when they were taken, as far as they say */
	uint64_t untimed_ns; /* of files that say how long but not when */
	struct run_stats stats;
	bool has_stats;
};

/* 0 or -ENOMEM. */
int profile_read_init(struct profile_read *read, const char *sample_type);
void profile_read_fini(struct profile_read *read);

/*
 * Adds the file of that name with the content data[len]. 0; -EBADMSG, -EINVAL (cannot be added to
 * the others), -ENOENT (has no such sample type) or -E2BIG, then why was given the reason;
 * -ENOMEM. After an error a part of the file may have been added.
 */
int profile_read_add(struct profile_read *read, const char *path, const char *data, size_t len,
		     struct buf *why);

/* The profile, whose stats are read->stats if there are any; profile_fini() is due. */
void profile_read_finish(struct profile_read *read, struct profile *ret);

#endif
