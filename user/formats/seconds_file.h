/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_FORMATS_SECONDS_FILE_H
#define BPFPROF_FORMATS_SECONDS_FILE_H

/*
 * The file beside a pprof says in which second its samples were taken. It is the gzip of SECONDS_MAGIC, the number of
 * samples of the pprof, the sum of their counts, the Unix time of second 0, the runs of profile/seconds.h, a 0, and the
 * sum of the counts of all runs. Numbers are varints. An entry of a run is the number of a sample in the pprof. A sample
 * may have counts without a second. The pprof does not change, so that every tool can read it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct buf;
struct profile;
struct seconds;

#define SECONDS_MAGIC "bpfprof seconds\001" /* with the version */

/* seconds: those of the aggregate of the profile; second 0 is that of profile->time_ns. 0 or -errno. */
int seconds_write(FILE *out, const struct profile *profile, const struct seconds *seconds);

/* Some seconds of a profile. */
struct seconds_cut {
	uint64_t from_s, until_s; /* the wanted ones, Unix time */
	/* From the file: for each sample its counts in wanted seconds, and in any second. */
	uint32_t *kept, *placed;
	uint32_t nr_samples;
	uint64_t total; /* of the profile */
	/* Set by profile_read_add(). */
	bool foreign; /* the file is not of this profile, so all of it was taken */
	uint64_t nr_left_out; /* samples without a second */
};

/* Is it such a file, unpacked, of any version? */
bool seconds_is(const char *data, size_t len);
/*
 * Reads a file that is not trusted, packed. The caller has set from_s and until_s, and calls seconds_cut_fini() even
 * after an error. 0; -EBADMSG or -E2BIG, with the reason added to why; -ENOMEM.
 */
int seconds_read(struct seconds_cut *cut, const char *data, size_t len, struct buf *why);
/* The same, unpacked. */
int seconds_read_plain(struct seconds_cut *cut, const char *data, size_t len, struct buf *why);
void seconds_cut_fini(struct seconds_cut *cut);

#endif
