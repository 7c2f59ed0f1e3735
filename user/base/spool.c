// SPDX-License-Identifier: Apache-2.0
/*
 * Keeps records in a ring of whole blocks; the newest block is in memory until it is full. Sorting
 * is a merge sort: each run of blocks is sorted in place, and the runs are merged while they are
 * read. The block in memory is a run of its own.
 */
#include "base/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK_RECORDS 1024
#define RUN_BLOCKS 64
#define CURSOR_RECORDS 64 /* records of each run in memory while runs are merged */

struct spool {
	int fd;
	size_t record_bytes;
	uint64_t cap_blocks; /* size of the ring */
	uint64_t nr_blocks; /* written since the beginning */
	uint8_t *block; /* the newest block */
	size_t nr; /* records in it */
	uint64_t nr_added, nr_failed;
	int error;
	int (*compare)(const void *a, const void *b);
};

/* A run that is being read: records from..end of the file, or the block in memory. */
struct cursor {
	uint64_t from, end; /* records */
	const uint8_t *at;
	size_t left;
	uint8_t *buffer; /* NULL: the run is the block in memory */
};

static int file_make(const char *folder)
{
	char path[4096];
	int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	/* Some file systems cannot make files without a name. */
	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
		return fd >= 0 ? fd : -errno;
	if (snprintf(path, sizeof(path), "%s/.bpfprof-XXXXXX", folder) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	unlink(path);
	return fd;
}

int spool_new(struct spool **ret, const char *folder, size_t record_bytes, uint64_t max_bytes)
{
	struct spool *spool = calloc(1, sizeof(*spool));
	int err;

	if (!spool)
		return -ENOMEM;
	spool->record_bytes = record_bytes;
	spool->cap_blocks = max_bytes / record_bytes / BLOCK_RECORDS;
	if (!spool->cap_blocks)
		spool->cap_blocks = 1;
	spool->block = calloc(BLOCK_RECORDS, record_bytes);
	spool->fd = spool->block ? file_make(folder) : -ENOMEM;
	if (spool->fd < 0) {
		err = spool->fd;
		spool_free(spool);
		return err;
	}
	*ret = spool;
	return 0;
}

void spool_free(struct spool *spool)
{
	if (!spool)
		return;
	if (spool->fd >= 0)
		close(spool->fd);
	free(spool->block);
	free(spool);
}

static int file_copy(const struct spool *spool, uint8_t *bytes, size_t len, uint64_t at, bool write)
{
	ssize_t ret;

	while (len) {
		ret = write ? pwrite(spool->fd, bytes, len, (off_t)at)
			    : pread(spool->fd, bytes, len, (off_t)at);
		if (ret < 0 && errno == EINTR)
			continue;
		if (ret <= 0)
			return ret ? -errno : -EIO;
		bytes += ret;
		at += (uint64_t)ret;
		len -= (size_t)ret;
	}
	return 0;
}

static uint64_t block_bytes(const struct spool *spool)
{
	return (uint64_t)BLOCK_RECORDS * spool->record_bytes;
}

static int block_write(struct spool *spool)
{
	uint64_t place = spool->nr_blocks % spool->cap_blocks;

	return file_copy(spool, spool->block, block_bytes(spool), place * block_bytes(spool), true);
}

/* Writes the block in memory to the file; a full ring loses its oldest block. */
static void block_flush(struct spool *spool)
{
	int err = block_write(spool);

	/* The disk is full: the ring ends here. */
	if (err && spool->nr_blocks && spool->nr_blocks < spool->cap_blocks) {
		spool->error = err;
		spool->cap_blocks = spool->nr_blocks;
		err = block_write(spool);
	}
	if (err) {
		spool->error = err;
		spool->nr_failed += spool->nr;
	} else {
		spool->nr_blocks++;
	}
	spool->nr = 0;
}

void spool_add(struct spool *spool, const void *record)
{
	if (spool->nr == BLOCK_RECORDS)
		block_flush(spool);
	memcpy(spool->block + spool->nr++ * spool->record_bytes, record, spool->record_bytes);
	spool->nr_added++;
}

static uint64_t blocks_kept(const struct spool *spool)
{
	return spool->nr_blocks < spool->cap_blocks ? spool->nr_blocks : spool->cap_blocks;
}

uint64_t spool_nr_added(const struct spool *spool)
{
	return spool->nr_added;
}

uint64_t spool_nr_dropped(const struct spool *spool)
{
	return spool->nr_failed + (spool->nr_blocks - blocks_kept(spool)) * BLOCK_RECORDS;
}

int spool_error(const struct spool *spool)
{
	return spool->error;
}

int spool_sort(struct spool *spool, int (*compare)(const void *a, const void *b))
{
	uint64_t at, blocks = blocks_kept(spool), nr, bytes;
	uint8_t *run = malloc(RUN_BLOCKS * block_bytes(spool));
	int err = run ? 0 : -ENOMEM;

	for (at = 0; at < blocks && !err; at += RUN_BLOCKS) {
		nr = blocks - at < RUN_BLOCKS ? blocks - at : RUN_BLOCKS;
		bytes = nr * block_bytes(spool);
		err = file_copy(spool, run, bytes, at * block_bytes(spool), false);
		if (err)
			break;
		qsort(run, nr * BLOCK_RECORDS, spool->record_bytes, compare);
		err = file_copy(spool, run, bytes, at * block_bytes(spool), true);
	}
	free(run);
	if (spool->nr)
		qsort(spool->block, spool->nr, spool->record_bytes, compare);
	spool->compare = compare;
	return err;
}

/* Reads the next records of the run if none are in memory. At the end of the run left is 0. */
static int cursor_fill(const struct spool *spool, struct cursor *cursor)
{
	uint64_t nr = cursor->end - cursor->from;
	int err;

	if (cursor->left || !nr)
		return 0;
	if (nr > CURSOR_RECORDS)
		nr = CURSOR_RECORDS;
	err = file_copy(spool, cursor->buffer, nr * spool->record_bytes,
			cursor->from * spool->record_bytes, false);
	if (err)
		return err;
	cursor->from += nr;
	cursor->at = cursor->buffer;
	cursor->left = nr;
	return 0;
}

/* Moves cursors[at], the only one out of order, down to its place in the heap. */
static void heap_sink(const struct spool *spool, struct cursor *cursors, size_t nr, size_t at)
{
	struct cursor tmp;
	size_t child;

	for (; (child = 2 * at + 1) < nr; at = child) {
		if (child + 1 < nr && spool->compare(cursors[child + 1].at, cursors[child].at) < 0)
			child++;
		if (spool->compare(cursors[at].at, cursors[child].at) <= 0)
			return;
		tmp = cursors[at];
		cursors[at] = cursors[child];
		cursors[child] = tmp;
	}
}

static int merge(struct spool *spool, struct cursor *cursors, size_t nr,
		 int (*each)(void *arg, const void *record), void *arg)
{
	size_t i;
	int err = 0;

	for (i = nr / 2; i; i--)
		heap_sink(spool, cursors, nr, i - 1);
	while (nr && !err) {
		err = each(arg, cursors[0].at);
		cursors[0].at += spool->record_bytes;
		cursors[0].left--;
		if (!err)
			err = cursor_fill(spool, &cursors[0]);
		if (!cursors[0].left)
			cursors[0] = cursors[--nr];
		heap_sink(spool, cursors, nr, 0);
	}
	return err;
}

int spool_each(struct spool *spool, int (*each)(void *arg, const void *record), void *arg)
{
	uint64_t total = blocks_kept(spool) * BLOCK_RECORDS, at;
	size_t most = total / (RUN_BLOCKS * BLOCK_RECORDS) + 2, nr = 0;
	size_t bytes = CURSOR_RECORDS * spool->record_bytes;
	struct cursor *cursors = calloc(most, sizeof(*cursors));
	uint8_t *buffers = calloc(most, bytes);
	int err = cursors && buffers ? 0 : -ENOMEM;

	for (at = 0; at < total && !err; at += RUN_BLOCKS * BLOCK_RECORDS) {
		cursors[nr] = (struct cursor){ .from = at,
					       .end = at + RUN_BLOCKS * BLOCK_RECORDS,
					       .buffer = buffers + nr * bytes };
		if (cursors[nr].end > total)
			cursors[nr].end = total;
		err = cursor_fill(spool, &cursors[nr++]);
	}
	if (!err && spool->nr)
		cursors[nr++] = (struct cursor){ .at = spool->block, .left = spool->nr };
	if (!err)
		err = merge(spool, cursors, nr, each, arg);
	free(cursors);
	free(buffers);
	return err;
}
