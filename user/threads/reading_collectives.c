// SPDX-License-Identifier: Apache-2.0
/* Reads the arguments of collectives from the frames of NCCL's functions. */
#include "threads/reading.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "cuda/library.h"
#include "cuda/nccl_info.h"
#include "kernel/remote.h"
#include "kernel/walk.h"
#include "proc/images.h"
#include "proc/processes.h"
#include "threads/thread_call.h"
#include "unwind/reader.h"

/*
 * Only the outermost frames are read: the function that the program called, and in ncclBcast also
 * ncclBroadcast. In 2.20 and 2.21 the structure has 1.6 KiB.
 */
#define MAX_FRAMES 2
#define MAX_FRAME_BYTES 8192
#define PAGE_BYTES 4096
#define MAX_RANKS 65536
#define MAX_PLACES 8 /* places of a library in a process; each name is searched in all of them */

struct library {
	struct elf_image *elf;
	uint64_t biases[MAX_PLACES];
	size_t nr;
};

/* The library of a frame, if it is NCCL. */
static struct image *nccl_image(const struct reading *reading, uint64_t wire)
{
	struct image *image;

	if (wire >> BPFPROF_FRAME_SHIFT != BPFPROF_FRAME_NATIVE)
		return NULL;
	image = images_get(reading->reader->images,
			   (uint32_t)((wire & BPFPROF_FRAME_MASK) >> BPFPROF_OFF_BITS));
	return image && image->path && thread_call_is_nccl(image->path) ? image : NULL;
}

/* The difference between addresses in the mapping and in its file. */
static bool mapping_bias(const struct elf_image *elf, const struct process_mapping *mapping,
			 uint64_t *ret)
{
	const struct elf_segment *seg;
	size_t nr, i;

	seg = elf_image_segments(elf, &nr);
	for (i = 0; i < nr; i++) {
		if (seg[i].type != PT_LOAD || !(seg[i].flags & PF_X) ||
		    mapping->off < (seg[i].off & ~(uint64_t)(PAGE_BYTES - 1)) ||
		    mapping->off >= seg[i].off + seg[i].file_bytes)
			continue;
		*ret = mapping->start - (seg[i].va - seg[i].off + mapping->off);
		return true;
	}
	return false;
}

/* Reads a string of a segment that is not writable: the process has the same bytes as the file. */
static bool text_read(struct elf_image *elf, uint64_t rva, char name[NCCL_INFO_NAME_BYTES])
{
	const struct elf_segment *seg = elf_image_segment_at(elf, rva, 0);
	char text[NCCL_INFO_NAME_BYTES];
	uint64_t left;
	size_t len;

	if (!seg || seg->flags & PF_W)
		return false;
	left = seg->file_bytes - (rva - seg->va);
	len = left < sizeof(text) ? (size_t)left : sizeof(text);
	if (elf_image_read_rva(elf, rva, text, len) || strnlen(text, len) == len)
		return false;
	memcpy(name, text, strlen(text));
	return true;
}

/* Finds the places of the image in the process; false: there are more than MAX_PLACES. */
static bool places_find(struct library *library, const struct process *process,
			const struct image *image)
{
	const struct process_mapping *mapping;
	uint64_t bias;
	size_t i, k;

	*library = (struct library){ .elf = image->elf };
	for (i = 0; i < process->nr_mappings; i++) {
		mapping = &process->mappings[i];
		if (mapping->image != image->id || !mapping_bias(image->elf, mapping, &bias))
			continue;
		for (k = 0; k < library->nr && library->biases[k] != bias; k++)
			;
		if (k == MAX_PLACES)
			return false;
		library->biases[k] = bias;
		library->nr += k == library->nr;
	}
	return true;
}

static bool name_read(void *arg, uint64_t va, char name[NCCL_INFO_NAME_BYTES])
{
	const struct library *library = arg;
	size_t i;

	for (i = 0; i < library->nr; i++)
		if (text_read(library->elf, va - library->biases[i], name))
			return true;
	return false;
}

static size_t frame_find(struct reading *reading, uint32_t at, struct image *image,
			 struct nccl_info found[NCCL_INFO_MAX])
{
	struct library library;
	uint64_t sp = reading->native_sps[at], bytes = reading->native_sps[at + 1] - sp;
	uint8_t frame[MAX_FRAME_BYTES];

	if (sp % 8 || bytes > sizeof(frame) ||
	    unwind_read(remote_reader(reading->remote), sp, frame, (uint32_t)bytes) ||
	    images_open(reading->reader->images, image, time_monotonic_ns()) ||
	    !places_find(&library, reading->process, image))
		return 0;
	return nccl_info_find(frame, (size_t)bytes, name_read, &library, found);
}

/* The offset of the rank in a communicator; the size is behind it, the hash before it. */
static uint32_t comm_rank(struct reading *reading, struct image *image)
{
	if (reading->nccl.image != image->id) {
		reading->nccl.image = image->id;
		reading->nccl.comm_rank = gpu_library_comm_rank(image->elf);
	}
	return reading->nccl.comm_rank;
}

static void comm_read(struct reading *reading, struct image *image,
		      struct thread_collective *collective)
{
	struct {
		uint64_t hash;
		uint32_t rank, size;
	} who;
	uint32_t off = comm_rank(reading, image);

	if (!off || unwind_read(remote_reader(reading->remote), collective->info.comm + off - 8,
				&who, sizeof(who)))
		return;
	if (!who.hash || who.size > MAX_RANKS || who.rank >= who.size)
		return;
	collective->comm_known = true;
	collective->hash = who.hash;
	collective->rank = who.rank;
	collective->size = who.size;
}

/* Reads all collectives in one frame; with more than NCCL_INFO_MAX the frame is not understood. */
static size_t frame_read(struct reading *reading, uint32_t at, struct image *image,
			 struct thread_collective ret[NCCL_INFO_MAX])
{
	struct nccl_info found[NCCL_INFO_MAX];
	size_t nr = frame_find(reading, at, image, found), i;

	if (nr > NCCL_INFO_MAX)
		return 0;
	for (i = 0; i < nr; i++) {
		ret[i] = (struct thread_collective){ .info = found[i] };
		comm_read(reading, image, &ret[i]);
	}
	return nr;
}

/* The image of the next NCCL frame before *at, further in; NULL: there is none. */
static struct image *next_in(const struct reading *reading, const uint64_t *frames, size_t *at)
{
	struct image *image;

	while (*at) {
		image = nccl_image(reading, frames[--*at]);
		if (image)
			return image;
	}
	return NULL;
}

int reading_collectives(struct reading *reading, struct thread_dump *thread, uint32_t nr,
			size_t nr_merged, size_t first)
{
	struct thread_collective found[MAX_FRAMES * NCCL_INFO_MAX];
	size_t nr_found = 0, at = nr, merged = nr_merged, before, i;
	struct image *image;

	for (i = 0; i < MAX_FRAMES; i++) {
		image = next_in(reading, reading->native, &at);
		/* Both stacks have all these frames, in the same order. */
		if (!image || next_in(reading, reading->merged, &merged) != image)
			break;
		before = nr_found;
		nr_found += frame_read(reading, (uint32_t)at, image, found + nr_found);
		for (; before < nr_found; before++)
			found[before].frame = first + merged;
	}
	if (!nr_found)
		return 0;
	thread->collectives = calloc(nr_found, sizeof(*found));
	if (!thread->collectives)
		return -ENOMEM;
	memcpy(thread->collectives, found, nr_found * sizeof(*found));
	thread->nr_collectives = nr_found;
	return 0;
}

void reading_collectives_try(struct reading *reading, uint32_t nr)
{
	struct thread_collective found[NCCL_INFO_MAX];
	size_t at = nr, i;
	struct image *image;

	for (i = 0; i < MAX_FRAMES; i++) {
		image = next_in(reading, reading->native, &at);
		if (image)
			frame_read(reading, (uint32_t)at, image, found);
	}
}
