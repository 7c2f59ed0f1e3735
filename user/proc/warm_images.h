/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROC_WARM_IMAGES_H
#define BPFPROF_PROC_WARM_IMAGES_H

/*
 * Images that keep memory whose content can be read again from their files: read windows, section headers,
 * unwind tables. The least recently used ones give it up first.
 */

#include <stddef.h>
#include <stdint.h>

#define WARM_MAX_IMAGES 48

struct image;

struct warm_images {
	struct image *of[WARM_MAX_IMAGES + 1]; /* latest first */
	uint32_t nr;
	size_t max_bytes;
};

/* Makes the image the latest one. Images beyond the limits give up their memory, unless they are held. */
void warm_images_use(struct warm_images *warm, struct image *image);
/* The image gives up its memory, if it is one of them. */
void warm_images_drop(struct warm_images *warm, struct image *image);
/* All of them do. */
void warm_images_clear(struct warm_images *warm);

#endif
