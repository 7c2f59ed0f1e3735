// SPDX-License-Identifier: Apache-2.0
#include "python/pythons.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/background.h"
#include "base/hash_table.h"
#include "base/sorted.h"
#include "base/text.h"
#include "base/vec.h"
#include "elf/image.h"
#include "proc/images.h"
#include "proc/processes.h"
#include "python/async_layout.h"
#include "python/layout.h"

#define MAX_INTERPRETERS 4096
#define MAX_TRIES 3
#define MAX_EVAL_BYTES (1U << 19) /* more: all of a stripped file whose handlers have no names */
#define MAX_VARIANTS 8 /* layouts of one version, so that hostile files leave room for others */

/* A file that is an interpreter. */
struct interpreter {
	struct hash_node node;
	uint32_t image; /* id */
	uint32_t layout;
	struct python_image python; /* ranges as file offsets */
	struct elf_segment text; /* its (first) executable segment */
	struct python_place place;
};

/* A file with the module _asyncio. */
struct asyncio {
	struct hash_node node;
	uint32_t image; /* id */
	struct python_async_layout layout;
};

struct pythons {
	pythons_layout_fn layout;
	pythons_unknown_fn unknown;
	void *arg;
	uint8_t *tries; /* number of tries by image id; MAX_TRIES: no more */
	uint32_t cap_tries;
	struct hash_table interpreters, asyncios;
	struct bpfprof_python_layout layouts[PYTHONS_MAX_LAYOUTS];
	uint32_t nr_layouts;
	struct pythons_counts counts;
};

int pythons_new(struct pythons **ret, pythons_layout_fn layout, pythons_unknown_fn unknown,
		void *arg)
{
	struct pythons *pythons = calloc(1, sizeof(*pythons));

	if (!pythons)
		return -ENOMEM;
	pythons->layout = layout;
	pythons->unknown = unknown;
	pythons->arg = arg;
	pythons->nr_layouts = 1; /* 0 is none */
	hash_table_init(&pythons->interpreters, MAX_INTERPRETERS, struct interpreter, image);
	hash_table_init(&pythons->asyncios, MAX_INTERPRETERS, struct asyncio, image);
	*ret = pythons;
	return 0;
}

void pythons_free(struct pythons *pythons)
{
	struct interpreter *interpreter;

	if (!pythons)
		return;
	hash_table_each(&pythons->interpreters, interpreter)
		python_image_fini(&interpreter->python);
	hash_table_clear(&pythons->interpreters);
	hash_table_clear(&pythons->asyncios);
	free(pythons->tries);
	free(pythons);
}

const struct pythons_counts *pythons_counts(const struct pythons *pythons)
{
	return &pythons->counts;
}

/* Sets the start of the fields of a code object that identify it. */
static void layout_starts(struct bpfprof_python_layout *l)
{
	const uint16_t code[] = { l->code_name,
				  l->code_qualname ? l->code_qualname : l->code_name,
				  l->code_filename,
				  l->code_linetable,
				  l->code_firstlineno,
				  l->code_flags,
				  l->code_version ? l->code_version : l->code_name };
	size_t i;

	l->code_start = code[0];
	for (i = 1; i < sizeof(code) / sizeof(*code); i++)
		if (code[i] < l->code_start)
			l->code_start = code[i];
	if (!l->code_version) /* without a version all fields are needed */
		l->code_start = 16;
	l->code_start &= 0xfff8;
}

/* Number of the layout, added if new; 0 if there is no room or it is not acceptable. */
static uint32_t layout_add(struct pythons *pythons, struct bpfprof_python_layout *layout)
{
	uint32_t i, nr = 0;

	if (python_layout_check(layout))
		return 0;
	layout_starts(layout);
	for (i = 1; i < pythons->nr_layouts; i++) {
		if (!memcmp(&pythons->layouts[i], layout, sizeof(*layout)))
			return i;
		nr += pythons->layouts[i].version == layout->version &&
		      pythons->layouts[i].free_threaded == layout->free_threaded;
	}
	if (nr == MAX_VARIANTS || pythons->nr_layouts == PYTHONS_MAX_LAYOUTS ||
	    pythons->layout(pythons->arg, pythons->nr_layouts, layout)) {
		pythons->counts.nr_full++;
		return 0;
	}
	pythons->layouts[pythons->nr_layouts] = *layout;
	return pythons->nr_layouts++;
}

static bool may_look(struct pythons *pythons, uint32_t image)
{
	uint32_t had = pythons->cap_tries;

	if (vec_grow(pythons->tries, (size_t)image + 1, pythons->cap_tries, VEC_BOUNDED))
		return false;
	memset(pythons->tries + had, 0, pythons->cap_tries - had);
	return pythons->tries[image] < MAX_TRIES;
}

static const struct elf_segment *text_segment(const struct elf_image *elf)
{
	const struct elf_segment *segment;
	size_t nr;

	segment = elf_image_segments(elf, &nr);
	for (; nr--; segment++)
		if (segment->type == PT_LOAD && segment->flags & PF_X)
			return segment;
	return NULL;
}

static int interpreter_add(struct pythons *pythons, struct image *image,
			   struct python_image *python)
{
	const struct elf_segment *text = text_segment(image->elf);
	uint64_t nr_full = pythons->counts.nr_full;
	struct interpreter *interpreter;
	uint32_t layout;
	size_t i, nr = 0;

	if (pythons->interpreters.nr >= MAX_INTERPRETERS) {
		pythons->counts.nr_full++;
		return -ENOSPC;
	}
	layout = text ? layout_add(pythons, &python->layout) : 0;
	if (!layout) {
		pythons->counts.nr_malformed += pythons->counts.nr_full == nr_full;
		return -EBADMSG;
	}
	interpreter = hash_table_add(&pythons->interpreters, &image->id);
	if (!interpreter)
		return -ENOMEM;
	interpreter->layout = layout;
	interpreter->text = *text;
	for (i = 0; i < python->nr_ranges; i++) { /* frames carry file offsets */
		python->ranges[nr] = python->ranges[i];
		nr += !elf_image_rva_to_off(image->elf, python->ranges[i].rva,
					    &python->ranges[nr].rva);
	}
	python->nr_ranges = nr;
	interpreter->python = *python;
	memset(python, 0, sizeof(*python));
	return 0;
}

/* The module is a library of its own, whose name Python's import demands, or inside an interpreter. */
static void asyncio_add(struct pythons *pythons, struct image *image, bool is_interpreter)
{
	bool may = is_interpreter ||
		   (image->path && text_begins(text_base_name(image->path), "_asyncio."));
	struct python_async_layout layout;
	struct asyncio *asyncio;
	int err = may ? python_async_layout_read(&layout, image->elf) : -ENODATA;

	if (err == -EBADMSG)
		pythons->counts.nr_malformed++;
	asyncio = err ? NULL : hash_table_get(&pythons->asyncios, &image->id);
	if (asyncio)
		asyncio->layout = layout;
}

int pythons_scan(struct pythons *pythons, struct image *image)
{
	struct python_image python = { 0 };
	int err;

	if (image->state != IMAGE_OPEN || image->id < BPFPROF_IMAGE_FIRST_FILE ||
	    !may_look(pythons, image->id))
		return 0;
	pythons->tries[image->id]++;
	err = python_image_probe(&python, image->elf);
	if (err == -ETIMEDOUT || err == -EIO) /* a later try may succeed */
		return err;
	/* There was no time to read the file: that is no try. */
	if (err && (err == -EBUSY || err == -EAGAIN || background_is_over())) {
		pythons->tries[image->id]--;
		return -EBUSY;
	}
	pythons->tries[image->id] = MAX_TRIES;
	asyncio_add(pythons, image, !err);
	if (!err)
		err = interpreter_add(pythons, image, &python);
	else if (err == -EBADMSG)
		pythons->counts.nr_malformed++;
	if (err == -ENOTSUP) {
		pythons->counts.nr_unknown++;
		pythons->unknown(pythons->arg, image->path, python.version);
	}
	python_image_fini(&python);
	return 0;
}

static struct interpreter *interpreter_find(const struct pythons *pythons, uint32_t image)
{
	return hash_table_find(&pythons->interpreters, &image);
}

void pythons_forget(struct pythons *pythons, uint32_t image)
{
	struct interpreter *interpreter = interpreter_find(pythons, image);
	struct asyncio *asyncio = hash_table_find(&pythons->asyncios, &image);

	if (asyncio)
		hash_table_remove(&pythons->asyncios, asyncio);
	if (!interpreter)
		return;
	python_image_fini(&interpreter->python);
	hash_table_remove(&pythons->interpreters, interpreter);
}

/* The possible place of the runtime of an interpreter, by its mappings. */
struct place {
	uint64_t runtime;
	uint64_t bytes; /* of mapped code */
	uint64_t va; /* lowest address of the mapped code */
	uint32_t layout, image;
};

/* The place by the mapping m. False if m does not map code of an interpreter. */
static bool place_of(const struct pythons *pythons, const struct process_mapping *m,
		     struct place *ret)
{
	const struct interpreter *interpreter = interpreter_find(pythons, (uint32_t)m->image);
	const struct elf_segment *text;
	uint64_t start, end;

	if (!interpreter)
		return false;
	text = &interpreter->text;
	start = m->off > text->off ? m->off : text->off;
	end = m->off + (m->end - m->start);
	if (end > text->off + text->file_bytes)
		end = text->off + text->file_bytes;
	if (start >= end)
		return false;
	*ret = (struct place){ .runtime = m->start - (m->off - text->off + text->va) +
					  interpreter->python.runtime_rva,
			       .bytes = end - start,
			       .va = m->start,
			       .layout = interpreter->layout,
			       .image = interpreter->image };
	return true;
}

static int by_runtime(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->runtime != y->runtime)
		return sorted_order(x->runtime, y->runtime);
	return sorted_order(x->image, y->image);
}

static int by_bytes(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->bytes != y->bytes)
		return sorted_order(y->bytes, x->bytes);
	return by_runtime(a, b);
}

/* Libraries are loaded downwards, and older code calls the library that was loaded last. */
static int by_address(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return sorted_order(x->va, y->va);
}

/* Joins equal places. Their number. */
static size_t places_join(struct place *places, size_t nr)
{
	size_t i, kept = 0;

	qsort(places, nr, sizeof(*places), by_runtime);
	for (i = 0; i < nr; i++) {
		if (!kept || by_runtime(&places[kept - 1], &places[i])) {
			places[kept++] = places[i];
			continue;
		}
		places[kept - 1].bytes += places[i].bytes;
		if (places[i].va < places[kept - 1].va)
			places[kept - 1].va = places[i].va;
	}
	return kept;
}

static size_t places_find(const struct pythons *pythons, const struct process *process,
			  struct place *places)
{
	size_t i, nr = 0;

	for (i = 0; i < process->nr_mappings; i++)
		nr += place_of(pythons, &process->mappings[i], &places[nr]);
	return places_join(places, nr);
}

/* The executable's own interpreter comes last: it is older than all libraries. */
static void executable_last(const struct process *process, struct place *places, size_t nr)
{
	struct place place;
	size_t i;

	for (i = 0; i + 1 < nr; i++)
		if (places[i].image == process->program) {
			place = places[i];
			memmove(&places[i], &places[i + 1], (nr - 1 - i) * sizeof(place));
			places[nr - 1] = place;
			break;
		}
}

bool pythons_find(struct pythons *pythons, struct process *process)
{
	struct process_python found[BPFPROF_MAX_RUNTIMES] = { 0 };
	struct place *places = NULL;
	size_t nr = 0, i;
	bool differ;

	if (pythons->interpreters.nr && process->nr_mappings)
		places = calloc(process->nr_mappings, sizeof(*places));
	if (places)
		nr = places_find(pythons, process, places);
	if (nr > BPFPROF_MAX_RUNTIMES) {
		pythons->counts.nr_beyond += nr - BPFPROF_MAX_RUNTIMES;
		qsort(places, nr, sizeof(*places), by_bytes);
		nr = BPFPROF_MAX_RUNTIMES;
	}
	if (nr) {
		qsort(places, nr, sizeof(*places), by_address);
		executable_last(process, places, nr);
	}
	for (i = 0; i < nr; i++)
		found[i] = (struct process_python){ .runtime = places[i].runtime,
						    .layout = places[i].layout,
						    .image = places[i].image };
	free(places);
	differ = nr != process->pythons->nr ||
		 memcmp(found, process->pythons->list, sizeof(found)) != 0;
	memcpy(process->pythons->list, found, sizeof(found));
	process->pythons->nr = (uint32_t)nr;
	return differ;
}

uint32_t pythons_version(const struct pythons *pythons, uint32_t image)
{
	const struct interpreter *interpreter = interpreter_find(pythons, image);

	return interpreter ? interpreter->python.version : 0;
}

const struct bpfprof_python_layout *pythons_layout(const struct pythons *pythons, uint32_t nr)
{
	return nr && nr < pythons->nr_layouts ? &pythons->layouts[nr] : NULL;
}

const struct python_async_layout *
pythons_async_layout(const struct pythons *pythons, const struct process *process, uint32_t image)
{
	const struct asyncio *asyncio = hash_table_find(&pythons->asyncios, &image);
	uint32_t mapped;

	for (size_t i = 0; i < process->nr_mappings && !asyncio; i++) {
		mapped = (uint32_t)process->mappings[i].image;
		asyncio = hash_table_find(&pythons->asyncios, &mapped);
	}
	return asyncio ? &asyncio->layout : NULL;
}

/* The range of the eval loop that off lies in, or NULL. */
static const struct python_range *eval_range(const struct pythons *pythons, uint32_t image,
					     uint64_t off)
{
	const struct interpreter *interpreter = interpreter_find(pythons, image);
	const struct python_range *range;
	size_t nr;

	if (!interpreter)
		return NULL;
	range = interpreter->python.ranges;
	nr = sorted_count(interpreter->python.nr_ranges, i, range[i].rva <= off);
	if (!nr)
		return NULL;
	range += nr - 1;
	return off - range->rva < range->bytes ? range : NULL;
}

size_t pythons_holding_ranges(const struct pythons *pythons, uint32_t image,
			      const struct python_range **ret)
{
	const struct interpreter *interpreter = interpreter_find(pythons, image);

	if (!interpreter || pythons->layouts[interpreter->layout].chain != PYTHON_CHAIN_OBJECTS)
		return 0;
	*ret = interpreter->python.ranges;
	return interpreter->python.nr_ranges;
}

struct python_place *pythons_place(const struct pythons *pythons, uint32_t image)
{
	struct interpreter *interpreter = interpreter_find(pythons, image);

	return interpreter ? &interpreter->place : NULL;
}

bool pythons_is_eval(const struct pythons *pythons, uint32_t image, uint64_t off)
{
	return eval_range(pythons, image, off);
}

bool pythons_is_surely_eval(const struct pythons *pythons, uint32_t image, uint64_t off)
{
	const struct python_range *range = eval_range(pythons, image, off);

	return range && range->bytes < MAX_EVAL_BYTES;
}
