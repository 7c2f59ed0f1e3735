// SPDX-License-Identifier: Apache-2.0
#include "profile/image_symbols.h"

#include <libgen.h>
#include <stdlib.h>
#include <string.h>

#include "elf/image.h"
#include "elf/symbols.h"
#include "proc/image_file.h"
#include "proc/images.h"
#include "unwind/cfi.h"

#define DEBUG_ROOT "/usr/lib/debug"

struct debug_place {
	struct images *images;
	uint32_t pid; /* files of this process come before those of the node; 0: none */
};

/* A container may have its own debug files; with the right build id the node's are as good. */
static struct elf_image *open_debug_file(void *arg, const char *path)
{
	const struct debug_place *place = arg;
	struct elf_image *debug = NULL;

	if (place->pid)
		debug = images_open_path(place->images, place->pid, path);
	return debug ? debug : images_open_path(place->images, 0, path);
}

static void find_starts(void *image, struct elf_symbol *symbols, size_t nr)
{
	struct cfi *cfi = images_cfi(image);
	uint64_t start = 0,
		 end = 0; /* range of the last symbol: neighbours often lie in the same function */
	size_t i;

	for (i = 0; i < nr && cfi; i++) {
		if (symbols[i].name)
			continue;
		if ((symbols[i].rva < start || symbols[i].rva >= end) &&
		    cfi_function(cfi, symbols[i].rva, &start, &end))
			start = end = 0;
		symbols[i].function = start;
	}
}

int image_symbols_resolve(struct images *images, struct image *image, struct strtab *names,
			  struct elf_symbol *symbols, size_t nr)
{
	struct debug_place place = { .images = images };
	struct elf_debug_paths paths = { .root = DEBUG_ROOT,
					 .open = open_debug_file,
					 .arg = &place };
	const struct elf_starts starts = { .find = find_starts, .arg = image };
	char *dir = image->path[0] == '/' ? strdup(image->path) : NULL;
	int err;

	place.pid = image->way == IMAGE_WAY_PATH ? 0 : image->pid;
	paths.dir = dir ? dirname(dir) : NULL;
	err = elf_symbols_resolve(image->elf, &paths, &starts, names, symbols, nr);
	free(dir);
	return err;
}
