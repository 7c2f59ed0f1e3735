// SPDX-License-Identifier: Apache-2.0
#include "profile/live_symbolizer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strtab.h"
#include "base/text.h"
#include "base/time.h"
#include "proc/images.h"
#include "profile/aggregate.h"
#include "profile/profile.h"
#include "profile/symbolize.h"
#include "symbol/kallsyms.h"

#define KALLSYMS "/proc/kallsyms"
#define KALLSYMS_KEEP_NS (60 * NS_PER_SECOND) /* modules and BPF programs are loaded and unloaded */
/* A pass may take a quarter of a percent of the time, and saves up that second. */
#define PASS_SHARE 400
#define PASS_SAVED_NS NS_PER_SECOND
#define NAME_BYTES 2048

static const char *mapping_base(const struct profile *profile, const struct profile_location *loc)
{
	if (!loc->mapping)
		return "";
	return text_base_name(
		strtab_get(profile->strings, profile->mappings[loc->mapping - 1].path));
}

/* Makes `name (file)`, and with the line that runs `name (file:line)`. */
static void python_texts(const struct profile *profile, const struct profile_location *loc,
			 char function[NAME_BYTES], char line[NAME_BYTES])
{
	const char *name = strtab_get(profile->strings, loc->name);
	const char *file = strtab_get(profile->strings, loc->short_file);

	if (!file[0]) {
		snprintf(function, NAME_BYTES, "%s", name);
		snprintf(line, NAME_BYTES, "%s", name);
		return;
	}
	snprintf(function, NAME_BYTES, "%s (%s)", name, file);
	if (loc->line)
		snprintf(line, NAME_BYTES, "%s (%s:%u)", name, file, loc->line);
	else
		snprintf(line, NAME_BYTES, "%s", function);
}

/*
 * Makes `name (libfoo.so)`. Without a symbol: `libfoo.so+0x1f00`, the function's start, or an
 * address in `[libfoo.so]`.
 */
static void native_texts(const struct profile *profile, const struct profile_location *loc,
			 char function[NAME_BYTES], char line[NAME_BYTES])
{
	const char *name = strtab_get(profile->strings, loc->name);
	const char *base = mapping_base(profile, loc);

	if (!loc->has_symbol && !loc->has_start) {
		snprintf(function, NAME_BYTES, "[%s]", base[0] ? base : "anon");
		snprintf(line, NAME_BYTES, "%s", name);
		return;
	}
	if (loc->has_symbol && base[0])
		snprintf(function, NAME_BYTES, "%s (%s)", name, base);
	else
		snprintf(function, NAME_BYTES, "%s", name);
	snprintf(line, NAME_BYTES, "%s", function);
}

/*
 * The name of frame, at address, also holds from start to end. Frames and addresses have equal
 * distances within one segment of a file, and in the kernel.
 */
static void name_range(struct live_name *name, uint64_t frame, uint64_t address, uint64_t start,
		       uint64_t end)
{
	if (start > address || address >= end)
		return;
	name->start = frame - (address - start);
	name->end = frame + (end - address);
	if (name->start > frame || name->end < frame ||
	    aggregate_frame_kind(name->start) != aggregate_frame_kind(frame) ||
	    aggregate_frame_kind(name->end - 1) != aggregate_frame_kind(frame))
		name->start = name->end = 0;
}

static void location_name(struct live *live, const struct profile *profile, uint64_t frame,
			  const struct profile_location *loc)
{
	char function[NAME_BYTES], line[NAME_BYTES];
	struct live_name name = { .function = function, .line = line };

	if (loc->kind == LOCATION_PYTHON) {
		python_texts(profile, loc, function, line);
		/* The name or line of the function may arrive later, under another number. */
		name.passing = frame & (BPFPROF_CODE_ID_RAW << BPFPROF_LASTI_BITS);
	} else {
		native_texts(profile, loc, function, line);
	}
	name_range(&name, frame, loc->address, loc->same_start, loc->same_end);
	live_named(live, frame, &name);
}

static void makeshift(struct live_symbolizer *symbolizer, struct live *live, const uint64_t *frames,
		      size_t nr)
{
	uint32_t id = (uint32_t)((frames[0] & BPFPROF_FRAME_MASK) >> BPFPROF_OFF_BITS);
	struct live_name name = { .passing = true };
	const struct image *image = NULL;
	char text[NAME_BYTES];
	size_t i;

	if (aggregate_frame_kind(frames[0]) == BPFPROF_FRAME_NATIVE)
		image = images_get(symbolizer->images, id);
	snprintf(text, sizeof(text), "%s [no name yet]",
		 image && image->path[0] ? text_base_name(image->path) : "[anon]");
	name.function = name.line = text;
	for (i = 0; i < nr; i++)
		live_named(live, frames[i], &name);
	symbolizer->nr_postponed += nr;
}

static void kallsyms_refresh(struct live_symbolizer *symbolizer)
{
	uint64_t now_ns = time_monotonic_ns();
	struct kallsyms_table *table;
	int err;

	if (symbolizer->kallsyms_ns && now_ns - symbolizer->kallsyms_ns < KALLSYMS_KEEP_NS)
		return;
	symbolizer->kallsyms_ns = now_ns;
	err = kallsyms_table_new(&table, KALLSYMS);
	symbolizer->kernel_names_hidden = err == -EACCES;
	if (err)
		return;
	kallsyms_table_free(symbolizer->kallsyms);
	symbolizer->kallsyms = table;
}

static void kernel_name(struct live_symbolizer *symbolizer, struct live *live,
			const uint64_t *frames, size_t nr)
{
	struct live_name name;
	uint64_t va, start, end;
	char text[NAME_BYTES];
	const char *found;
	size_t i;

	kallsyms_refresh(symbolizer);
	for (i = 0; i < nr; i++) {
		/* Addresses are sign-extended from bit 59. */
		va = (uint64_t)((int64_t)(frames[i] << 4) >> 4);
		start = end = 0;
		found = symbolizer->kallsyms
				? kallsyms_table_find(symbolizer->kallsyms, va, &start, &end)
				: NULL;
		snprintf(text, sizeof(text), "%s%s", found ? found : "[kernel]",
			 found ? "_[k]" : "");
		name = (struct live_name){ .function = text, .line = text };
		name_range(&name, frames[i], va, start, end);
		live_named(live, frames[i], &name);
	}
}

/* Copies the frames of one process, with the process number 0. */
static uint64_t *frames_own(const uint64_t *frames, size_t nr)
{
	uint64_t *own = malloc(nr * sizeof(*own));
	size_t i;

	for (i = 0; own && i < nr; i++) {
		own[i] = frames[i];
		if (aggregate_frame_kind(frames[i]) == BPFPROF_FRAME_NATIVE_VA)
			own[i] = (uint64_t)BPFPROF_FRAME_NATIVE_VA << BPFPROF_FRAME_SHIFT |
				 1ULL << AGGREGATE_VA_BITS | (frames[i] & AGGREGATE_VA_MASK);
	}
	return own;
}

static void group_name(struct live_symbolizer *symbolizer, struct live *live,
		       const uint64_t *frames, size_t nr, uint32_t pid)
{
	struct symbolize_options options = { .kallsyms = KALLSYMS,
					     .codes = symbolizer->codes,
					     .runner = symbolizer->runner,
					     .ranges = true };
	const struct aggregate_process process = { .pid = pid };
	bool python = aggregate_frame_kind(frames[0]) == BPFPROF_FRAME_PYTHON;
	__cleanup(free_mem) uint64_t *own = NULL;
	struct profile profile;
	size_t i;

	options.now_ns = time_monotonic_ns();
	if (!python &&
	    !budget_allows(&symbolizer->passes, PASS_SHARE, PASS_SAVED_NS, options.now_ns)) {
		makeshift(symbolizer, live, frames, nr);
		return;
	}
	own = frames_own(frames, nr);
	if (!own || symbolize_frames(&profile, own, nr, &process, 1, symbolizer->images, &options,
				     &symbolizer->files, &symbolizer->kernel_names_hidden)) {
		makeshift(symbolizer, live, frames, nr);
		return;
	}
	for (i = 0; i < nr; i++)
		location_name(live, &profile, frames[i], &profile.locations[i]);
	profile_fini(&profile);
	if (!python) {
		symbolizer->nr_passes++;
		budget_spend(&symbolizer->passes, time_monotonic_ns() - options.now_ns);
	}
	if (symbolizer->step)
		symbolizer->step(symbolizer->arg);
}

static void name_frames(void *arg, struct live *live, const uint64_t *frames, size_t nr,
			uint32_t pid)
{
	struct live_symbolizer *symbolizer = arg;
	size_t first, end;

	for (first = 0; first < nr; first += end) {
		end = symbolize_group(frames + first, nr - first);
		if (aggregate_frame_kind(frames[first]) == BPFPROF_FRAME_KERNEL)
			kernel_name(symbolizer, live, frames + first, end);
		else
			group_name(symbolizer, live, frames + first, end, pid);
	}
}

struct live_names live_symbolizer_fill(struct live_symbolizer *symbolizer)
{
	return (struct live_names){ .name = name_frames, .arg = symbolizer };
}

void live_symbolizer_fini(struct live_symbolizer *symbolizer)
{
	kallsyms_table_free(symbolizer->kallsyms);
	symbolizer->kallsyms = NULL;
}
