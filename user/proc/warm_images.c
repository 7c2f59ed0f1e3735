// SPDX-License-Identifier: Apache-2.0
#include "proc/warm_images.h"

#include <string.h>

#include "elf/image.h"
#include "proc/images.h"
#include "unwind/cfi.h"

static void drop(struct warm_images *warm, uint32_t at)
{
	struct image *image = warm->of[at];

	memmove(warm->of + at, warm->of + at + 1, (warm->nr - at - 1) * sizeof(struct image *));
	warm->nr--;
	cfi_free(image->cfi);
	image->cfi = NULL;
	if (image->elf)
		elf_image_drop_cache(image->elf);
}

static size_t image_bytes(const struct image *image)
{
	return (image->cfi ? cfi_bytes(image->cfi) : 0) +
	       (image->elf ? elf_image_bytes(image->elf) : 0);
}

static uint32_t place_of(const struct warm_images *warm, const struct image *image)
{
	uint32_t at;

	for (at = 0; at < warm->nr && warm->of[at] != image; at++)
		;
	return at;
}

void warm_images_use(struct warm_images *warm, struct image *image)
{
	uint32_t i, at = place_of(warm, image);
	size_t bytes = 0;

	if (at > WARM_MAX_IMAGES)
		return; /* all others are held */
	warm->nr += at == warm->nr;
	memmove(warm->of + 1, warm->of, at * sizeof(struct image *));
	warm->of[0] = image;
	for (i = 0; i < warm->nr; i++)
		bytes += image_bytes(warm->of[i]);
	for (i = warm->nr; i-- > 1;) {
		if (warm->nr <= WARM_MAX_IMAGES && bytes <= warm->max_bytes)
			break;
		if (warm->of[i]->holds)
			continue;
		bytes -= image_bytes(warm->of[i]);
		drop(warm, i);
	}
}

void warm_images_drop(struct warm_images *warm, struct image *image)
{
	uint32_t at = place_of(warm, image);

	if (at < warm->nr)
		drop(warm, at);
}

void warm_images_clear(struct warm_images *warm)
{
	while (warm->nr)
		drop(warm, warm->nr - 1);
}
