// SPDX-License-Identifier: Apache-2.0
#include "profile/symbolize.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/deadline.h"
#include "base/strtab.h"
#include "bpfprof.h"
#include "elf/image.h"
#include "elf/symbols.h"
#include "proc/image_file.h"
#include "proc/images.h"
#include "profile/aggregate.h"
#include "profile/profile.h"
#include "profile/stats.h"
#include "python/codes.h"
#include "python/merge.h"
#include "python/text.h"
#include "symbol/demangle.h"
#include "symbol/kallsyms.h"
#include "symbol/perfmap.h"

#define MAX_STRING_BYTES (32U << 20)
#define MAX_PERFMAP_BYTES (4ULL * PERFMAP_MAX_BYTES) /* of all processes: parsing takes time */
#define STAT_TIMEOUT_MS 500
#define DEBUG_ROOT "/usr/lib/debug"

struct symbolizer {
	struct profile *profile;
	const struct aggregate_view *view;
	struct images *images;
	const struct symbolize_options *options;
	struct stats_reasons *files;
	uint64_t *frames; /* distinct, ascending: locations[i] is frames[i] */
	size_t nr;
	uint64_t perfmap_bytes; /* read so far */
	int kernel_names_hidden;
};

static int frame_compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static int frames_collect(struct symbolizer *s)
{
	size_t i, nr = 0;

	s->frames = malloc((s->view->nr_frames + 1) * sizeof(*s->frames));
	if (!s->frames)
		return -ENOMEM;
	if (s->view->nr_frames)
		memcpy(s->frames, s->view->frames, s->view->nr_frames * sizeof(*s->frames));
	qsort(s->frames, s->view->nr_frames, sizeof(*s->frames), frame_compare);
	for (i = 0; i < s->view->nr_frames; i++)
		if (!nr || s->frames[i] != s->frames[nr - 1])
			s->frames[nr++] = s->frames[i];
	s->nr = nr;
	return 0;
}

static uint32_t frame_kind(uint64_t frame)
{
	return (uint32_t)(frame >> BPFPROF_FRAME_SHIFT);
}

static uint32_t frame_image(uint64_t frame)
{
	return (uint32_t)((frame & BPFPROF_FRAME_MASK) >> BPFPROF_OFF_BITS);
}

static uint32_t add_printf(struct strtab *strings, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static uint32_t add_printf(struct strtab *strings, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return strtab_add(strings, text);
}

/* Index + 1 of the new mapping, 0 if out of memory. */
static uint32_t mapping_add(struct profile *profile, const struct profile_mapping *mapping)
{
	struct profile_mapping *tmp;

	tmp = realloc(profile->mappings, (profile->nr_mappings + 1) * sizeof(*tmp));
	if (!tmp)
		return 0;
	profile->mappings = tmp;
	tmp[profile->nr_mappings++] = *mapping;
	return (uint32_t)profile->nr_mappings;
}

/* Kernel frames: all addresses in one pass over kallsyms. */

static void kernel_location(struct symbolizer *s, size_t i, const struct kallsyms_query *query,
			    uint32_t mapping)
{
	struct profile_location *loc = &s->profile->locations[i];

	loc->kind = LOCATION_KERNEL;
	loc->address = query->va;
	loc->mapping = mapping;
	loc->has_symbol = query->name != 0;
	loc->name = query->name ? query->name : strtab_add(s->profile->strings, "[kernel]");
	loc->system_name = loc->name;
}

static int kernel_resolve(struct symbolizer *s, size_t first, size_t nr)
{
	__cleanup(free_mem) struct kallsyms_query *queries = calloc(nr, sizeof(*queries));
	struct profile_mapping mapping = { .has_functions = true };
	uint32_t mapping_id;
	size_t i;
	int err;

	if (!queries)
		return -ENOMEM;
	for (i = 0; i < nr; i++) /* sign-extended from bit 59 */
		queries[i].va = (uint64_t)((int64_t)(s->frames[first + i] << 4) >> 4);
	err = kallsyms_resolve(s->options->kallsyms, s->profile->strings, queries, nr);
	if (err == -EACCES)
		s->kernel_names_hidden = 1;
	else if (err)
		stats_add(s->files, "kallsyms_unreadable", 1);
	mapping.path = strtab_add(s->profile->strings, "[kernel.kallsyms]");
	mapping.start = queries[0].va & ~0xfffULL;
	mapping.limit = (queries[nr - 1].va | 0xfff) + 1;
	if (!mapping.limit) /* the last page of all */
		mapping.limit = UINT64_MAX;
	mapping_id = mapping_add(s->profile, &mapping);
	for (i = 0; i < nr; i++)
		kernel_location(s, first + i, &queries[i], mapping_id);
	return 0;
}

/* Native frames: image by image. */

static const char *path_base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

static struct profile_mapping image_mapping(struct symbolizer *s, const struct image *image)
{
	struct profile_mapping mapping = { 0 };
	const struct elf_segment *segments;
	uint8_t id[ELF_BUILD_ID_MAX];
	char hex[2 * ELF_BUILD_ID_MAX + 1] = "";
	size_t nr, i;
	int len, k;

	if (image->path[0])
		mapping.path = strtab_add(s->profile->strings, image->path);
	else
		mapping.path = add_printf(s->profile->strings, "[inode %" PRIu64 "]", image->ino);
	mapping.limit = BPFPROF_OFF_MASK;
	if (image->state != IMAGE_OPEN)
		return mapping;
	len = elf_image_build_id(image->elf, id);
	for (k = 0; k < len; k++)
		snprintf(hex + 2 * k, 3, "%02x", id[k]);
	mapping.build_id = strtab_add(s->profile->strings, hex);
	segments = elf_image_segments(image->elf, &nr);
	for (i = 0; i < nr; i++) {
		if (segments[i].type != 1 || !(segments[i].flags & 1)) /* PT_LOAD, PF_X */
			continue;
		mapping.start = segments[i].va & ~0xfffULL;
		mapping.limit = (segments[i].va + segments[i].mem_bytes + 0xfff) & ~0xfffULL;
		mapping.off = segments[i].off & ~0xfffULL;
		break;
	}
	return mapping;
}

static void native_location(struct symbolizer *s, size_t i, const struct elf_symbol *symbol,
			    const char *base, uint32_t mapping)
{
	struct profile_location *loc = &s->profile->locations[i];
	char name[DEMANGLE_MAX_OUTPUT];

	loc->kind = LOCATION_NATIVE;
	loc->address = symbol->rva;
	loc->mapping = mapping;
	loc->has_symbol = symbol->name != 0;
	if (symbol->name) {
		demangle(strtab_get(s->profile->strings, symbol->name), name);
		loc->name = strtab_add(s->profile->strings, name);
		loc->system_name = symbol->name;
	} else {
		loc->name = add_printf(s->profile->strings, "%s+0x%" PRIx64, base, symbol->rva);
		loc->system_name = loc->name;
	}
}

static struct elf_image *open_debug_file(void *arg, const char *path)
{
	return images_open_path(arg, path);
}

static int image_resolve(struct symbolizer *s, size_t first, size_t nr)
{
	struct image *image = images_get(s->images, frame_image(s->frames[first]));
	__cleanup(free_mem) struct elf_symbol *symbols = calloc(nr, sizeof(*symbols));
	struct elf_debug_paths paths = { .root = DEBUG_ROOT,
					 .open = open_debug_file,
					 .arg = s->images };
	struct profile_mapping mapping;
	uint32_t mapping_id;
	char *dir = NULL;
	size_t i;
	int err;

	if (!symbols)
		return -ENOMEM;
	err = image ? images_open(s->images, image, s->options->now_ns) : -ENOENT;
	for (i = 0; i < nr; i++) {
		symbols[i].rva = s->frames[first + i] & BPFPROF_OFF_MASK;
		if (!err)
			elf_image_off_to_rva(image->elf, symbols[i].rva, &symbols[i].rva);
	}
	if (!err) {
		dir = image->path[0] == '/' ? strdup(image->path) : NULL;
		paths.dir = dir ? dirname(dir) : NULL;
		err = elf_symbols_resolve(image->elf, &paths, s->profile->strings, symbols, nr);
		free(dir);
		if (err == -ETIMEDOUT)
			images_fail(s->images, image, err, s->options->now_ns);
		else if (err)
			stats_add(s->files, "symbols_malformed", 1);
	}
	if (!image)
		return 0;
	mapping = image_mapping(s, image);
	mapping.has_functions = true; /* what has a name got it: pprof need not look for more */
	mapping_id = mapping_add(s->profile, &mapping);
	for (i = 0; i < nr; i++)
		native_location(s, first + i, &symbols[i],
				path_base(strtab_get(s->profile->strings, mapping.path)),
				mapping_id);
	return 0;
}

/* JIT code: /tmp/perf-PID.map of the process, if it wrote one. */

static void perfmap_read(struct symbolizer *s, const struct elf_source *source,
			 struct perfmap_query *queries, size_t nr)
{
	s->perfmap_bytes += source->size < PERFMAP_MAX_BYTES ? source->size : PERFMAP_MAX_BYTES;
	if (s->perfmap_bytes <= MAX_PERFMAP_BYTES) {
		if (perfmap_resolve(source, s->profile->strings, queries, nr))
			stats_add(s->files, "perfmap_unreadable", 1);
		return;
	}
	stats_add(s->files, "perfmap_too_big", 1);
	source->close(source->arg);
}

static int va_resolve(struct symbolizer *s, size_t first, size_t nr)
{
	__cleanup(free_mem) struct perfmap_query *queries = calloc(nr, sizeof(*queries));
	uint64_t process = (s->frames[first] & BPFPROF_FRAME_MASK) >> AGGREGATE_VA_BITS;
	struct profile_location *loc;
	struct elf_source source;
	char path[64];
	size_t i;

	if (!queries)
		return -ENOMEM;
	for (i = 0; i < nr; i++)
		queries[i].va = s->frames[first + i] & AGGREGATE_VA_MASK;
	if (process && process <= s->view->nr_processes) {
		snprintf(path, sizeof(path), "/tmp/perf-%u.map",
			 s->view->processes[process - 1].pid);
		if (!images_open_source(s->images, path, &source))
			perfmap_read(s, &source, queries, nr);
	}
	for (i = 0; i < nr; i++) {
		loc = &s->profile->locations[first + i];
		loc->kind = LOCATION_NATIVE;
		loc->address = queries[i].va;
		loc->has_symbol = queries[i].name != 0;
		loc->name = queries[i].name ? queries[i].name
					    : add_printf(s->profile->strings, "[anon]+0x%" PRIx64,
							 queries[i].va);
		loc->system_name = loc->name;
	}
	return 0;
}

/* Python frames. */

struct init_job {
	char path[PATH_MAX];
	size_t folder_len;
	int found;
};

static long init_look(void *arg)
{
	struct init_job *job = arg;
	struct stat st;

	job->found = 1;
	if (!stat(job->path, &st))
		return 0;
	/* Where the folder itself is not seen, it is another's file system. */
	job->found = -1;
	job->path[job->folder_len] = '\0';
	if (errno == ENOENT && !stat(job->path, &st))
		job->found = 0;
	return 0;
}

/* Does folder hold an __init__.py? Under a deadline: it may be on a server that is gone. */
static int has_init(void *arg, const char *folder)
{
	const struct symbolizer *s = arg;
	struct init_job job = { .folder_len = strlen(folder) };
	int len = snprintf(job.path, sizeof(job.path), "%s/__init__.py", folder);

	if (!s->options->runner || len < 0 || (size_t)len >= sizeof(job.path) ||
	    deadline_run(s->options->runner, init_look, NULL, &job, sizeof(job), STAT_TIMEOUT_MS))
		return -1;
	return job.found;
}

static int python_resolve(struct symbolizer *s, size_t first, size_t nr)
{
	struct strtab *strings = s->profile->strings;
	const struct profile_location *last = NULL;
	struct profile_location *loc;
	struct code_info info;
	size_t i;

	for (i = first; i < first + nr; i++) {
		loc = &s->profile->locations[i];
		loc->kind = LOCATION_PYTHON;
		loc->has_symbol = true;
		if (!s->options->codes || codes_describe(s->options->codes, s->frames[i], &info)) {
			loc->name = strtab_add(strings, "[python]");
			loc->system_name = loc->name;
			stats_add(s->files, "code_pending", 1);
			continue;
		}
		loc->name = strtab_add(strings, info.name);
		loc->system_name = loc->name;
		loc->file = strtab_add(strings, info.file);
		loc->short_file =
			last && last->file == loc->file
				? last->short_file
				: strtab_add(strings, python_short_file(info.file, has_init, s));
		last = loc;
		loc->line = info.line;
		loc->start_line = info.first_line;
		if (s->frames[i] & (BPFPROF_CODE_ID_RAW << BPFPROF_LASTI_BITS))
			stats_add(s->files, "code_pending", 1);
	}
	return 0;
}

static int marker_resolve(struct symbolizer *s, size_t first, size_t nr)
{
	const char *name;
	size_t i;

	for (i = first; i < first + nr; i++) {
		name = s->frames[i] & PYTHON_FRAME_UNMERGED ? "[unmerged]" : "[truncated]";
		s->profile->locations[i].kind = LOCATION_MARKER;
		s->profile->locations[i].name = strtab_add(s->profile->strings, name);
		s->profile->locations[i].system_name = s->profile->locations[i].name;
	}
	return 0;
}

/* Frames that are resolved together: of one kind, and of one image or process. */
static uint64_t frame_group(uint64_t frame)
{
	switch (frame_kind(frame)) {
	case BPFPROF_FRAME_NATIVE:
		return frame >> BPFPROF_OFF_BITS;
	case BPFPROF_FRAME_NATIVE_VA:
		return frame >> AGGREGATE_VA_BITS;
	default:
		return frame >> BPFPROF_FRAME_SHIFT;
	}
}

static int group_resolve(struct symbolizer *s, size_t first, size_t nr)
{
	switch (frame_kind(s->frames[first])) {
	case BPFPROF_FRAME_KERNEL:
		return kernel_resolve(s, first, nr);
	case BPFPROF_FRAME_NATIVE:
		return image_resolve(s, first, nr);
	case BPFPROF_FRAME_NATIVE_VA:
		return va_resolve(s, first, nr);
	case BPFPROF_FRAME_PYTHON:
		return python_resolve(s, first, nr);
	default:
		return marker_resolve(s, first, nr);
	}
}

/* Mappings are numbered in this order, since pprof takes the first for the program. */
enum { RANK_FILES, RANK_OTHERS, RANK_KERNEL, NR_RANKS };

static int frame_rank(uint64_t frame)
{
	if (frame_kind(frame) == BPFPROF_FRAME_KERNEL)
		return RANK_KERNEL;
	if (frame_kind(frame) == BPFPROF_FRAME_NATIVE &&
	    frame_image(frame) >= BPFPROF_IMAGE_FIRST_FILE)
		return RANK_FILES;
	return RANK_OTHERS;
}

/* All frames of that rank, group by group. */
static int locations_resolve(struct symbolizer *s, int rank)
{
	size_t first, end;
	int err = 0;

	for (first = 0; first < s->nr && !err; first = end) {
		for (end = first + 1; end < s->nr; end++)
			if (frame_kind(s->frames[end]) != frame_kind(s->frames[first]) ||
			    frame_group(s->frames[end]) != frame_group(s->frames[first]))
				break;
		if (frame_rank(s->frames[first]) == rank)
			err = group_resolve(s, first, end - first);
	}
	return err;
}

static uint32_t location_of(const struct symbolizer *s, uint64_t frame)
{
	const uint64_t *found = bsearch(&frame, s->frames, s->nr, sizeof(frame), frame_compare);

	return (uint32_t)(found - s->frames);
}

static int stacks_copy(struct symbolizer *s)
{
	const struct aggregate_view *view = s->view;
	struct profile *p = s->profile;
	size_t i;

	p->stack_locations = malloc((view->nr_frames + 1) * sizeof(*p->stack_locations));
	p->stacks = calloc(view->nr_stacks + 1, sizeof(*p->stacks));
	p->samples = calloc(view->nr_samples + 1, sizeof(*p->samples));
	p->processes = calloc(view->nr_processes + 1, sizeof(*p->processes));
	if (!p->stack_locations || !p->stacks || !p->samples || !p->processes)
		return -ENOMEM;
	for (i = 0; i < view->nr_frames; i++)
		p->stack_locations[i] = location_of(s, view->frames[i]);
	for (i = 0; i < view->nr_stacks; i++) {
		p->stacks[i].first = view->stacks[i].first;
		p->stacks[i].nr = view->stacks[i].nr;
	}
	for (i = 0; i < view->nr_samples; i++) {
		p->samples[i].process = view->samples[i].process;
		p->samples[i].stack = view->samples[i].stack;
		p->samples[i].tid = view->samples[i].tid;
		p->samples[i].gil = view->samples[i].gil;
		p->samples[i].thread =
			strtab_add(p->strings, view->threads[view->samples[i].thread]);
		p->samples[i].count = view->samples[i].count;
		p->samples[i].value_ns = view->samples[i].value_ns;
	}
	for (i = 0; i < view->nr_processes; i++) {
		p->processes[i].pid = view->processes[i].pid;
		p->processes[i].comm = strtab_add(p->strings, view->processes[i].comm);
		p->processes[i].title = p->processes[i].comm;
		p->processes[i].nr_threads = view->processes[i].nr_threads;
	}
	p->nr_stacks = view->nr_stacks;
	p->nr_samples = view->nr_samples;
	p->nr_processes = view->nr_processes;
	return 0;
}

int symbolize(struct profile *ret, const struct aggregate_view *view, struct images *images,
	      const struct symbolize_options *options, struct stats_reasons *files,
	      int *kernel_names_hidden)
{
	struct profile profile = { 0 };
	struct symbolizer s = { .profile = &profile,
				.view = view,
				.images = images,
				.options = options,
				.files = files };
	int err, rank;

	err = strtab_new(&profile.strings, MAX_STRING_BYTES);
	if (!err)
		err = frames_collect(&s);
	if (!err) {
		profile.locations = calloc(s.nr + 1, sizeof(*profile.locations));
		profile.nr_locations = profile.locations ? s.nr : 0;
		err = profile.locations ? 0 : -ENOMEM;
	}
	for (rank = 0; rank < NR_RANKS && !err; rank++)
		err = locations_resolve(&s, rank);
	if (!err)
		err = stacks_copy(&s);
	free(s.frames);
	if (err) {
		profile_fini(&profile);
		return err;
	}
	*ret = profile;
	*kernel_names_hidden = s.kernel_names_hidden;
	return 0;
}
