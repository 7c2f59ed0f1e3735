// SPDX-License-Identifier: Apache-2.0
#include "profile/frame_set.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/sorted.h"

#define PART_FRAMES 65536U

/* Sorts the nr frames of more and adds them to the set *frames. */
static int frames_merge(uint64_t **frames, size_t *nr_frames, uint64_t *more, size_t nr)
{
	uint64_t *old = *frames, *merged = malloc((*nr_frames + nr + 1) * sizeof(*merged)), next;
	size_t i = 0, k = 0, n = 0;

	if (!merged)
		return -ENOMEM;
	qsort(more, nr, sizeof(*more), sorted_by_u64);
	while (i < *nr_frames || k < nr) {
		next = k == nr || (i < *nr_frames && old[i] <= more[k]) ? old[i++] : more[k++];
		if (!n || next != merged[n - 1])
			merged[n++] = next;
	}
	free(old);
	*frames = merged;
	*nr_frames = n;
	return 0;
}

/*
 * Works part by part: distinct frames are few, and two copies of all frames would be most of the
 * memory that a profile takes.
 */
int frame_set_collect(const uint64_t *frames, size_t nr, uint64_t **ret, size_t *ret_nr)
{
	__cleanup(free_mem) uint64_t *part = malloc(PART_FRAMES * sizeof(*part));
	size_t at, n;
	int err = part ? frames_merge(ret, ret_nr, part, 0) : -ENOMEM;

	for (at = 0; at < nr && !err; at += n) {
		n = nr - at < PART_FRAMES ? nr - at : PART_FRAMES;
		memcpy(part, frames + at, n * sizeof(*part));
		err = frames_merge(ret, ret_nr, part, n);
	}
	return err;
}

size_t frame_set_find(const uint64_t *set, size_t nr, uint64_t frame)
{
	const uint64_t *found = bsearch(&frame, set, nr, sizeof(frame), sorted_by_u64);

	return (size_t)(found - set);
}
