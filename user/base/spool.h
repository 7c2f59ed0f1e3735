/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_SPOOL_H
#define BPFPROF_BASE_SPOOL_H

/*
 * Records of one size, more of them than memory should hold: a ring in a file without a name, so
 * that the newest are kept and nothing is left behind, which is then sorted and read in order. Memory
 * stays at one block while records are added, and at one run of some megabytes and a few kilobytes
 * for each run while they are read. Where the disk is full the ring becomes as large as it is by
 * then. One thread.
 */

#include <stddef.h>
#include <stdint.h>

struct spool;

/*
 * The newest max_bytes of records, a little more at least. The file is made in folder, which must
 * be there. 0, -ENOMEM or the -errno of making it.
 */
int spool_new(struct spool **ret, const char *folder, size_t record_bytes, uint64_t max_bytes);
void spool_free(struct spool *spool); /* NULL is fine */

/* What cannot be kept is counted as dropped. */
void spool_add(struct spool *spool, const void *record);

uint64_t spool_nr_added(const struct spool *spool);
uint64_t spool_nr_dropped(const struct spool *spool);
/* Why records could not be written, or the ring could not become as large as it might; 0: nothing. */
int spool_error(const struct spool *spool);

/* Nothing may be added any more. compare() is qsort(3)'s. 0 or -errno. */
int spool_sort(struct spool *spool, int (*compare)(const void *a, const void *b));
/*
 * All records in order, as often as wanted; each is borrowed until each() returns, which ends it by
 * returning anything but 0. That, or -errno.
 */
int spool_each(struct spool *spool, int (*each)(void *arg, const void *record), void *arg);

#endif
