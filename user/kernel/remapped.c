// SPDX-License-Identifier: Apache-2.0
#include "kernel/remapped.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "elf/image.h"
#include "kernel/memory.h"
#include "kernel/vmas.h"
#include "proc/images.h"
#include "proc/processes.h"
#include "bpfprof.h"

#define MAX_PIECES 64 /* per process */
#define MAX_COMPARED 128 /* ranges per call; a process may have very many unsuitable ranges */
/* Time for the comparisons; explanations by data get as much again. */
#define MAX_NS (NS_PER_SECOND / 5)
#define MAX_HOLES 8 /* ranges per call that only mappings without code can explain */
#define PAGE_BYTES UINT64_C(4096)
#define MAX_SAMPLES 16 /* parts of a range; one piece of each is compared */
#define MAX_SCANNED 64 /* pages of a part to search for a distinctive piece */
#define SAMPLE_BYTES 128

static uint64_t page_down(uint64_t at)
{
	return at & ~(PAGE_BYTES - 1);
}

static uint64_t page_up(uint64_t at)
{
	return page_down(at + PAGE_BYTES - 1);
}

static bool is_filler(const uint8_t *data)
{
	return !memcmp(data, data + 1, SAMPLE_BYTES - 1);
}

/* Finds a piece that is not filler. Returns its offset in the page, or -1. */
static int sample_find(struct image *image, uint64_t off, uint8_t page[PAGE_BYTES])
{
	size_t at;

	/* The last page of a segment may be the last page of the file, too. */
	memset(page, 0, PAGE_BYTES);
	if (elf_image_read(image->elf, off, page, PAGE_BYTES) &&
	    elf_image_read(image->elf, off, page, PAGE_BYTES / 2))
		return -1;
	for (at = 0; at < PAGE_BYTES; at += SAMPLE_BYTES)
		if (!is_filler(page + at))
			return (int)at;
	return -1;
}

/*
 * Compares one sample in pages [first, last) of piece, except as is_filler() says. 1, 0, or -errno;
 * -ENODATA: no sample.
 */
static int sample_compare(struct remapped_job *job, struct image *image,
			  const struct process_mapping *piece, uint64_t first, uint64_t last)
{
	uint64_t stride = (last - first + MAX_SCANNED - 1) / MAX_SCANNED;
	uint8_t page[PAGE_BYTES], memory[SAMPLE_BYTES];
	int at = -1, err;

	for (; first < last && at < 0; first += at < 0 ? stride : 0)
		at = sample_find(image, piece->off + first * PAGE_BYTES, page);
	if (at < 0)
		return -ENODATA;
	err = memory_read(job->session, job->runner, job->pid,
			  piece->start + first * PAGE_BYTES + (uint64_t)at, memory, SAMPLE_BYTES);
	return err ? err : !memcmp(page + at, memory, SAMPLE_BYTES);
}

/*
 * Does the memory equal the file? Compares samples from all over it; a few may differ, because
 * programs patch themselves. 1, 0, or -errno: unreadable.
 */
static int bytes_agree(struct remapped_job *job, struct image *image,
		       const struct process_mapping *piece)
{
	uint64_t pages = (piece->end - piece->start) / PAGE_BYTES, first, last;
	unsigned int nr = 0, same = 0, i;
	int got;

	for (i = 0; i < MAX_SAMPLES && nr - same <= MAX_SAMPLES / 4; i++) {
		first = i * pages / MAX_SAMPLES;
		last = (i + 1) * pages / MAX_SAMPLES;
		got = first < last ? sample_compare(job, image, piece, first, last) : -ENODATA;
		if (got == -ENODATA)
			continue;
		if (got < 0)
			return got;
		nr++;
		same += (unsigned int)got;
	}
	return nr && same >= nr - nr / 4;
}

/* Was this mapping in force until now? */
static bool was_known(const struct remapped_job *job, const struct process_mapping *piece)
{
	const struct process_mapping *known = process_mapping_find(job->process, piece->start);

	return known && !memcmp(known, piece, sizeof(*piece));
}

/*
 * Would a segment of image fill a part of the range, if off of the image were mapped at va? True:
 * *ret is that part.
 */
static bool explain(struct remapped_job *job, const struct process_mapping *range, uint32_t id,
		    uint64_t va, uint64_t off, struct process_mapping *ret)
{
	struct image *image = images_get(job->images, id);
	const struct elf_segment *segments;
	uint64_t bias, start, end;
	size_t nr, i, k;
	int agree;

	if (id < BPFPROF_IMAGE_FIRST_FILE || !image || image_is_made_code(image) ||
	    images_open(job->images, image, job->now_ns))
		return false;
	segments = elf_image_segments(image->elf, &nr);
	for (i = 0; i < nr; i++) {
		if (segments[i].type != PT_LOAD || off < page_down(segments[i].off) ||
		    off >= page_up(segments[i].off + segments[i].file_bytes))
			continue;
		bias = va - off + segments[i].off - segments[i].va;
		for (k = 0; k < nr; k++) {
			if (segments[k].type != PT_LOAD || !(segments[k].flags & PF_X))
				continue;
			start = page_down(bias + segments[k].va);
			end = page_up(bias + segments[k].va + segments[k].file_bytes);
			*ret = (struct process_mapping){ .start = start, .end = end, .image = id };
			if (ret->start < range->start)
				ret->start = range->start;
			if (ret->end > range->end)
				ret->end = range->end;
			if (end < start || ret->start >= ret->end)
				continue;
			ret->off = page_down(segments[k].off) + (ret->start - start);
			if (job->nr_compared++ >= MAX_COMPARED ||
			    time_monotonic_ns() - job->start_ns > MAX_NS)
				return was_known(job, ret);
			agree = bytes_agree(job, image, ret);
			if (agree == -ETIMEDOUT)
				job->nr_compared = MAX_COMPARED;
			if (agree > 0 || (agree < 0 && was_known(job, ret)))
				return true;
		}
	}
	return false;
}

/* Explains a range by code of a file that is mapped beside it; SIZE_MAX: there is no such file. */
static bool explain_by_code(struct remapped_job *job, const struct process_mapping *mappings,
			    size_t at, size_t beside, struct process_mapping *ret)
{
	return beside != SIZE_MAX && explain(job, &mappings[at], (uint32_t)mappings[beside].image,
					     mappings[beside].start, mappings[beside].off, ret);
}

/* The first mapping of a file from `at` on; SIZE_MAX: none. */
static size_t next_file(const struct process_mapping *mappings, size_t nr, size_t at)
{
	while (at < nr && mappings[at].image < BPFPROF_IMAGE_FIRST_FILE)
		at++;
	return at < nr ? at : SIZE_MAX;
}

/* A range without a file, and the nearest file mappings on both sides, with code or without. */
struct hole {
	struct process_mapping range;
	struct bpfprof_vma sides[2];
	char *paths[2];
};

struct holes {
	const struct remapped_job *job;
	struct hole hole[MAX_HOLES];
	size_t nr;
};

static void side_offer(struct hole *hole, const struct bpfprof_vma *vma, const char *path)
{
	int right = vma->start >= hole->range.end;

	if (!right && vma->end > hole->range.start)
		return;
	if (hole->paths[right] &&
	    (right ? vma->start >= hole->sides[1].start : vma->start <= hole->sides[0].start))
		return;
	free(hole->paths[right]);
	hole->paths[right] = strdup(path);
	hole->sides[right] = *vma;
}

static void collect_side(void *arg, const struct bpfprof_vma_record *record, const char *path)
{
	struct holes *holes = arg;
	size_t i;

	if (record->task.start_ns != holes->job->process->start_ns ||
	    record->task.exec_id != holes->job->process->exec_id || !record->vma.ino ||
	    record->vma.flags & BPFPROF_VMA_MEMORY)
		return;
	for (i = 0; i < holes->nr; i++)
		side_offer(&holes->hole[i], &record->vma, path);
}

/* If the whole text was moved, the other mappings of the file show where it must lie. */
static size_t explain_by_data(struct remapped_job *job, struct holes *holes,
			      struct process_mapping *pieces, size_t nr)
{
	struct bpfprof_vma *side;
	uint64_t cost_ns;
	struct hole *hole;
	bool found;
	size_t i;
	int k;

	if (!holes->nr)
		return nr;
	vmas_read(job->session, job->runner, job->pid, VMAS_ALL_PARTS, collect_side, holes,
		  &cost_ns);
	job->start_ns = time_monotonic_ns();
	for (i = 0; i < holes->nr; i++) {
		hole = &holes->hole[i];
		for (k = 0, found = false; k < 2; k++) {
			side = &hole->sides[k];
			if (hole->paths[k] && !found && nr < MAX_PIECES) {
				found = explain(job, &hole->range,
						images_add(job->images, side, hole->paths[k],
							   job->process->tenant),
						side->start, side->off, &pieces[nr]);
				nr += found;
			}
			free(hole->paths[k]);
		}
	}
	return nr;
}

static bool is_known_to_be_made(const struct remapped_job *job, const struct process_mapping *range)
{
	const struct process_mapping *known = process_mapping_find(job->process, range->start);

	return known && known->start == range->start && known->end == range->end &&
	       known->image == BPFPROF_IMAGE_NONE;
}

/* Cuts the pieces out of their ranges. */
static void pieces_put(const struct process_mapping *pieces, size_t nr_pieces,
		       struct process_mapping **mappings, size_t *nr)
{
	struct process_mapping *out = malloc((*nr + 2 * nr_pieces) * sizeof(*out)), rest;
	size_t i, k = 0, n = 0;

	if (!out)
		return;
	for (i = 0; i < *nr; i++) {
		rest = (*mappings)[i];
		while (k < nr_pieces && pieces[k].start < rest.start)
			k++;
		if (k == nr_pieces || pieces[k].end > rest.end) {
			out[n++] = rest;
			continue;
		}
		if (pieces[k].start > rest.start) {
			out[n] = rest;
			out[n++].end = pieces[k].start;
		}
		out[n++] = pieces[k];
		rest.off += pieces[k].end - rest.start;
		rest.start = pieces[k].end;
		if (rest.start < rest.end)
			out[n++] = rest;
	}
	free(*mappings);
	*mappings = out;
	*nr = n;
}

void remapped_find(struct remapped_job *job, struct process_mapping **mappings, size_t *nr)
{
	struct process_mapping pieces[MAX_PIECES];
	struct holes holes = { .job = job };
	uint64_t start_ns = time_monotonic_ns();
	size_t i, left = SIZE_MAX, right = next_file(*mappings, *nr, 0), nr_pieces = 0;

	job->start_ns = start_ns;
	for (i = 0; i < *nr && nr_pieces < MAX_PIECES; i++) {
		if (i == right) {
			left = i;
			right = next_file(*mappings, *nr, i + 1);
		}
		if ((*mappings)[i].image != BPFPROF_IMAGE_NONE)
			continue;
		if (explain_by_code(job, *mappings, i, left, &pieces[nr_pieces]) ||
		    explain_by_code(job, *mappings, i, right, &pieces[nr_pieces]))
			nr_pieces++;
		else if (holes.nr < MAX_HOLES && !is_known_to_be_made(job, &(*mappings)[i]))
			holes.hole[holes.nr++].range = (*mappings)[i];
	}
	nr_pieces = explain_by_data(job, &holes, pieces, nr_pieces);
	job->cost_ns += time_monotonic_ns() - start_ns;
	qsort(pieces, nr_pieces, sizeof(*pieces), process_mapping_compare);
	if (nr_pieces && *nr + 2 * nr_pieces <= PROCESS_MAX_MAPPINGS)
		pieces_put(pieces, nr_pieces, mappings, nr);
}
