/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_SPOOL_H
#define BPFPROF_BASE_SPOOL_H

/*
 * Records of one size, more than memory should hold: a ring in a file without a name. It keeps the
 * newest records and leaves nothing behind on the disk. After the last record it is sorted and read in
 * order. It takes the memory of one block while records are added, and that of one run (some megabytes)
 * and a few kilobytes for each run while they are read. When the disk is full the ring keeps the size
 * that it has. For one thread only.
 */

#include <stddef.h>
#include <stdint.h>

struct spool;

/*
 * Keeps the newest max_bytes of records, and a little more. The file is made in folder, which must
 * exist. 0, -ENOMEM or the -errno of making the file.
 */
int spool_new(struct spool **ret, const char *folder, size_t record_bytes, uint64_t max_bytes);
void spool_free(struct spool *spool); /* NULL is fine */

/* A record that cannot be kept is counted as dropped. */
void spool_add(struct spool *spool, const void *record);

uint64_t spool_nr_added(const struct spool *spool);
uint64_t spool_nr_dropped(const struct spool *spool);
/* The error of writing records or of making the ring larger; 0: there was none. */
int spool_error(const struct spool *spool);

/* Nothing may be added afterwards. compare() is qsort(3)'s. 0 or -errno. */
int spool_sort(struct spool *spool, int (*compare)(const void *a, const void *b));
/*
 * Passes all records in order to each(), which borrows the record, and may be repeated. Stops when
 * each() returns anything but 0. That value, or -errno.
 */
int spool_each(struct spool *spool, int (*each)(void *arg, const void *record), void *arg);

#endif
