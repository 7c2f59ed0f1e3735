// SPDX-License-Identifier: Apache-2.0
#include "gpu/launch_library.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash_table.h"
#include "base/strtab.h"
#include "base/time.h"
#include "gpu/job.h"
#include "proc/images.h"
#include "profile/aggregate.h"
#include "profile/profile.h"
#include "profile/stats.h"
#include "profile/symbolize.h"

struct known_frame {
	struct hash_node node;
	uint64_t frame;
	char *library, *entry;
};

struct launch_library {
	struct hash_table known;
};

int launch_library_new(struct launch_library **ret)
{
	*ret = calloc(1, sizeof(**ret));
	if (!*ret)
		return -ENOMEM;
	hash_table_init(&(*ret)->known, LAUNCH_LIBRARY_MAX_FRAMES, struct known_frame, frame);
	return 0;
}

void launch_library_free(struct launch_library *cache)
{
	struct known_frame *known;

	if (!cache)
		return;
	hash_table_each(&cache->known, known) {
		free(known->library);
		free(known->entry);
	}
	hash_table_clear(&cache->known);
	free(cache);
}

/* A name here is a prefix: libcublas also covers libcublasLt, libcudnn also libcudnn_ops. */
static bool is_gpu_library(const char *name)
{
	static const char *const names[] = {
		"libcublas",   "libcudnn",  "libcufft",	   "libcusparse",
		"libcusolver", "libcurand", "libcutensor", "libnccl.so",
		"libnvshmem",  "libnpp",    "libnvjpeg",   "librccl.so",
	};
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(name, names[i], strlen(names[i])))
			return true;
	return false;
}

/* The base name of the file that a frame lies in, or "". */
static const char *library_of(struct gpu_job *job, uint64_t frame)
{
	const struct image *image;
	const char *name;

	if (frame >> BPFPROF_FRAME_SHIFT != BPFPROF_FRAME_NATIVE)
		return "";
	image = images_get(job->sampler.reader.images,
			   (uint32_t)((frame & BPFPROF_FRAME_MASK) >> BPFPROF_OFF_BITS));
	if (!image)
		return "";
	name = strrchr(image->path, '/');
	return name ? name + 1 : image->path;
}

/* The name of a frame's function. The caller frees it; "": not known; NULL: no memory. */
static char *entry_of(struct gpu_job *job, uint64_t frame)
{
	struct symbolize_options options = { .kallsyms = "/proc/kallsyms",
					     .codes = job->sampler.codes,
					     .runner = job->sampler.reader.runner,
					     .now_ns = time_monotonic_ns() };
	struct profile profile = { 0 };
	struct stats_reasons files = { 0 };
	struct aggregate_view view;
	const char *name;
	char *entry;
	int hidden;

	aggregate_view_get(job->watch.aggregate, &view);
	if (symbolize_frames(&profile, &frame, 1, view.processes, view.nr_processes,
			     job->sampler.reader.images, &options, &files, &hidden))
		return NULL;
	name = profile.locations[0].has_symbol
		       ? strtab_get(profile.strings, profile.locations[0].name)
		       : "";
	/* Each function of NCCL has a second name with a p, which is for tools. */
	entry = strdup(name + !strncmp(name, "pnccl", 5));
	profile_fini(&profile);
	return entry;
}

static const struct known_frame *frame_get(struct launch_library *cache, struct gpu_job *job,
					   uint64_t frame, const char *library)
{
	struct known_frame *known = hash_table_find(&cache->known, &frame);

	if (known)
		return known;
	known = hash_table_add(&cache->known, &frame);
	if (!known)
		return NULL;
	known->library = strdup(library);
	known->entry = entry_of(job, frame);
	if (!known->library || !known->entry) {
		free(known->library);
		free(known->entry);
		hash_table_remove(&cache->known, known);
		return NULL;
	}
	return known;
}

void launch_library_find(struct launch_library *cache, struct gpu_job *job,
			 const struct bpfprof_gpu_key *key, const char **ret_library,
			 const char **ret_entry)
{
	const struct known_frame *known;
	struct aggregate_view view;
	const char *library;
	uint32_t stack, at, outer = 0;

	*ret_library = *ret_entry = "";
	aggregate_view_get(job->watch.aggregate, &view);
	if (!call_table_launch_stack(job->watch.table, key, &stack) || stack >= view.nr_stacks)
		return;
	stack_each(at, view.callers, stack)
		if (is_gpu_library(library_of(job, view.frames[at])))
			outer = at;
	if (!outer)
		return;
	library = library_of(job, view.frames[outer]);
	known = frame_get(cache, job, view.frames[outer], library);
	if (known) {
		*ret_library = known->library;
		*ret_entry = known->entry;
	}
}
