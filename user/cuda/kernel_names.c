// SPDX-License-Identifier: Apache-2.0
#include "cuda/kernel_names.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/time.h"
#include "base/vec.h"
#include "cuda/code_function.h"
#include "cuda/launch_sites.h"
#include "cuda/registrations.h"
#include "elf/image.h"

#define NAME_CHUNK 256

enum stage {
	STAGE_REGISTRATIONS,
	STAGE_FRAMES, /* the bounds of functions */
	STAGE_RUNTIME, /* a linked-in runtime's functions */
	STAGE_DONE,
};

/* A call that was read, or the error of reading it. */
struct site {
	int error;
	struct launch_site site;
};

struct file {
	uint32_t image_id;
	enum stage stage;
	int error; /* a lasting one: the file is not read again */
	uint64_t used; /* the last use */
	uint64_t bytes;
	struct registrations_reader *reader; /* until they are read */
	struct registrations regs;
	struct eh_frame frame;
	struct launch_runtime runtime;
	uint32_t step;
	struct map places; /* in sites, by return address */
	struct site *sites;
	uint32_t nr_sites, cap_sites;
};

struct kernel_names {
	struct file *files[KERNEL_NAMES_MAX_FILES];
	size_t nr;
	uint64_t clock, bytes, nr_evicted;
	struct eh_pass *pass;
	struct code_function *function;
	char *name;
	size_t name_cap;
};

int kernel_names_new(struct kernel_names **ret)
{
	struct kernel_names *names = calloc(1, sizeof(*names));

	if (!names)
		return -ENOMEM;
	names->pass = malloc(sizeof(*names->pass));
	names->function = malloc(sizeof(*names->function));
	if (!names->pass || !names->function) {
		kernel_names_free(names);
		return -ENOMEM;
	}
	*ret = names;
	return 0;
}

static void file_free(struct file *file)
{
	registrations_reader_free(file->reader);
	registrations_fini(&file->regs);
	eh_frame_fini(&file->frame);
	map_fini(&file->places);
	free(file->sites);
	free(file);
}

void kernel_names_free(struct kernel_names *names)
{
	if (!names)
		return;
	while (names->nr)
		file_free(names->files[--names->nr]);
	free(names->pass);
	free(names->function);
	free(names->name);
	free(names);
}

static uint64_t file_bytes(const struct file *file)
{
	return sizeof(*file) + registrations_reader_bytes(file->reader) +
	       file->regs.nr * sizeof(*file->regs.kernels) +
	       file->regs.nr_words * sizeof(*file->regs.words) +
	       (file->frame.index ? file->frame.nr * sizeof(*file->frame.index) : 0) +
	       file->cap_sites * sizeof(*file->sites) +
	       (uint64_t)file->places.cap *
		       (sizeof(*file->places.keys) + sizeof(*file->places.values));
}

static void evict(struct kernel_names *names, const struct file *in_use)
{
	size_t i, oldest = SIZE_MAX;

	for (i = 0; i < names->nr; i++)
		if (names->files[i] != in_use &&
		    (oldest == SIZE_MAX || names->files[i]->used < names->files[oldest]->used))
			oldest = i;
	if (oldest == SIZE_MAX)
		return;
	names->bytes -= names->files[oldest]->bytes;
	names->nr_evicted++;
	file_free(names->files[oldest]);
	names->files[oldest] = names->files[--names->nr];
}

/* The memory of the file in use has changed. */
static void account(struct kernel_names *names, struct file *file)
{
	names->bytes -= file->bytes;
	file->bytes = file_bytes(file);
	names->bytes += file->bytes;
	while (names->bytes > KERNEL_NAMES_MAX_BYTES && names->nr > 1)
		evict(names, file);
}

static int file_get(struct kernel_names *names, uint32_t image_id, struct file **ret)
{
	struct file *file;
	size_t i;

	names->clock++;
	for (i = 0; i < names->nr; i++) {
		if (names->files[i]->image_id != image_id)
			continue;
		names->files[i]->used = names->clock;
		*ret = names->files[i];
		return 0;
	}
	file = calloc(1, sizeof(*file));
	if (!file)
		return -ENOMEM;
	file->image_id = image_id;
	file->used = names->clock;
	map_init(&file->places, KERNEL_NAMES_MAX_SITES);
	if (registrations_reader_new(&file->reader)) {
		file_free(file);
		return -ENOMEM;
	}
	if (names->nr == KERNEL_NAMES_MAX_FILES)
		evict(names, NULL);
	names->files[names->nr++] = file;
	*ret = file;
	return 0;
}

/* The parts of a file that one call needs. */
struct session {
	struct code_reader reader;
	struct code_bounds bounds;
	struct launch_file launch;
};

static int session_init(struct session *session, struct kernel_names *names, struct file *file,
			struct elf_image *img)
{
	session->bounds = (struct code_bounds){ .frame = file->frame, .pass = names->pass };
	session->bounds.frame.img = img;
	session->launch = (struct launch_file){ .reader = &session->reader,
						.bounds = &session->bounds,
						.function = names->function,
						.regs = &file->regs,
						.runtime = &file->runtime };
	return code_reader_init(&session->reader, img);
}

static int frames_read(struct file *file, struct elf_image *img)
{
	int err = eh_frame_init(&file->frame, img);

	if (err) {
		memset(&file->frame, 0, sizeof(file->frame));
		return err;
	}
	return eh_frame_prepare(&file->frame);
}

static int runtime_read(struct kernel_names *names, struct file *file, struct elf_image *img,
			uint64_t deadline_ns)
{
	struct session session;
	int err = session_init(&session, names, file, img);

	while (!err && file->step < launch_runtime_steps(&session.launch)) {
		err = launch_runtime_learn(&session.launch, file->step++);
		if (!err && time_monotonic_ns() >= deadline_ns)
			return -ETIME;
	}
	return err;
}

/* Continues to read the file. */
static int file_read(struct kernel_names *names, struct file *file, struct elf_image *img,
		     uint64_t deadline_ns)
{
	int err = 0;

	if (file->stage == STAGE_REGISTRATIONS) {
		err = registrations_read(file->reader, img, deadline_ns, &file->regs);
		if (err)
			return err;
		registrations_reader_free(file->reader);
		file->reader = NULL;
		file->stage = file->regs.nr ? STAGE_FRAMES : STAGE_DONE;
	}
	if (file->stage == STAGE_FRAMES) {
		err = frames_read(file, img);
		if (err)
			return err;
		file->stage = STAGE_RUNTIME;
	}
	if (file->stage == STAGE_RUNTIME) {
		err = runtime_read(names, file, img, deadline_ns);
		if (err)
			return err;
		file->stage = STAGE_DONE;
	}
	return 0;
}

static int file_prepare(struct kernel_names *names, struct file *file, struct elf_image *img,
			uint64_t deadline_ns)
{
	int err;

	if (file->error)
		return file->error;
	if (file->stage == STAGE_DONE)
		return 0;
	err = file_read(names, file, img, deadline_ns);
	/* A read that ends without memory is tried again. */
	if (err && err != -ETIME && err != -ENOMEM) {
		file->error = err == -ENOENT ? -EBADMSG : err;
		registrations_reader_free(file->reader);
		file->reader = NULL;
		err = file->error;
	}
	account(names, file);
	return err;
}

static struct site *site_add(struct file *file, uint64_t rva)
{
	if (file->nr_sites == KERNEL_NAMES_MAX_SITES) {
		map_clear(&file->places);
		file->nr_sites = 0;
	}
	if (vec_grow(file->sites, file->nr_sites + 1, file->cap_sites, KERNEL_NAMES_MAX_SITES) ||
	    map_set(&file->places, rva, file->nr_sites))
		return NULL;
	return &file->sites[file->nr_sites++];
}

static int site_find(struct kernel_names *names, struct file *file, struct elf_image *img,
		     uint64_t rva, const struct site **ret)
{
	struct session session;
	struct site site = { 0 }, *place;
	uint32_t i;
	int err;

	if (map_find(&file->places, rva, &i)) {
		*ret = &file->sites[i];
		return 0;
	}
	err = session_init(&session, names, file, img);
	if (!err)
		err = launch_site_find(&session.launch, rva, &site.site);
	if (err == -ENOMEM)
		return err;
	/* Code with unclear bounds may launch anything. */
	site.error = err ? -ENOTUNIQ : 0;
	place = site_add(file, rva);
	if (!place)
		return -ENOMEM;
	*place = site;
	*ret = place;
	account(names, file);
	return 0;
}

/* The string at rva of the file, of printable characters, as mangled names are. */
static int name_read(struct kernel_names *names, struct elf_image *img, uint64_t rva)
{
	uint64_t off;
	size_t len = 0, i;

	if (elf_image_rva_to_off(img, rva, &off))
		return -EBADMSG;
	for (;;) {
		if (len == names->name_cap) {
			if (len == REGISTRATIONS_MAX_NAME)
				return -E2BIG;
			if (!vec_fit(names->name, len + NAME_CHUNK))
				return -ENOMEM;
			names->name_cap = len + NAME_CHUNK;
		}
		/* Read by the byte, since the file may end with the name; the image has a cache. */
		for (i = len; i < names->name_cap; i++) {
			if (elf_image_read(img, off + i, &names->name[i], 1))
				return -EBADMSG;
			if (!names->name[i])
				return i ? 0 : -EBADMSG;
			if (names->name[i] <= ' ' || names->name[i] > '~')
				return -EBADMSG;
		}
		len = names->name_cap;
	}
}

/* The kernel of a call, or of the argument that an inner function got. */
static int walk_step(const struct site *site, uint32_t image_id, struct kernel_walk *walk,
		     uint32_t *ret_kernel)
{
	struct launch_argument kernel = site->site.kernel;
	bool handed_on = walk->function != 0;

	if (handed_on) {
		kernel = site->site.arguments[walk->argument];
		if (walk->image_id != image_id || site->site.target != walk->function)
			return -ENOTUNIQ;
	} else if (!site->error && !site->site.is_launch) {
		return -ENOENT;
	}
	if (site->error || kernel.kind == LAUNCH_UNKNOWN)
		return -ENOTUNIQ;
	if (kernel.kind == LAUNCH_KERNEL) {
		*ret_kernel = kernel.nr;
		return 0;
	}
	*walk = (struct kernel_walk){ .image_id = image_id,
				      .argument = kernel.nr,
				      .function = site->site.function };
	return -ENOENT;
}

int kernel_names_find(struct kernel_names *names, uint32_t image_id, struct elf_image *img,
		      uint64_t rva, uint64_t deadline_ns, struct kernel_walk *walk,
		      const char **ret)
{
	const struct site *site;
	struct file *file;
	bool was_read;
	uint32_t kernel;
	int err;

	if (walk->argument >= CODE_NR_ARGUMENTS)
		return -EINVAL;
	err = file_get(names, image_id, &file);
	if (err)
		return err;
	was_read = file->stage == STAGE_DONE;
	err = file_prepare(names, file, img, deadline_ns);
	if (err)
		return err;
	if (!file->regs.nr)
		return walk->function ? -ENOTUNIQ : -ENOENT;
	if (!was_read && time_monotonic_ns() >= deadline_ns)
		return -ETIME;
	err = site_find(names, file, img, rva, &site);
	if (!err)
		err = walk_step(site, image_id, walk, &kernel);
	if (err)
		return err;
	if (!file->regs.kernels[kernel].name)
		return -ENOTUNIQ;
	err = name_read(names, img, file->regs.kernels[kernel].name);
	if (!err)
		*ret = names->name;
	return err;
}

void kernel_names_stats(const struct kernel_names *names, struct kernel_names_stats *ret)
{
	size_t i;

	*ret = (struct kernel_names_stats){ .nr_files = (uint32_t)names->nr,
					    .bytes = names->bytes,
					    .nr_evicted = names->nr_evicted };
	for (i = 0; i < names->nr; i++)
		ret->nr_kernels += (uint32_t)names->files[i]->regs.nr;
}
