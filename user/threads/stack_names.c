// SPDX-License-Identifier: Apache-2.0
#include "threads/stack_names.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/strtab.h"
#include "base/time.h"
#include "base/vec.h"
#include "profile/aggregate.h"
#include "profile/profile.h"
#include "profile/stats.h"
#include "profile/symbolize.h"
#include "threads/thread_dump.h"
#include "threads/thread_reader.h"
#include "bpfprof.h"

/* All frames without a name, each as a stack of its own: wires and callers have numbers of stacks, from 1. */
struct collected {
	uint64_t *wires;
	uint32_t *callers; /* none: all 0 */
	struct thread_frame **frames;
	size_t nr, cap, cap_wires;
	struct aggregate_process *processes;
};

static int collect_frame(struct collected *c, struct thread_frame *frame, size_t process)
{
	uint64_t wire = frame->wire;

	if (vec_grow(c->wires, c->nr + 2, c->cap_wires, VEC_BOUNDED) ||
	    vec_grow(c->frames, c->nr + 1, c->cap, VEC_BOUNDED))
		return -ENOMEM;
	/* A frame outside of files belongs to its process. */
	if (wire >> BPFPROF_FRAME_SHIFT == BPFPROF_FRAME_NATIVE_VA)
		wire = (uint64_t)BPFPROF_FRAME_NATIVE_VA << BPFPROF_FRAME_SHIFT |
		       (process < AGGREGATE_MAX_VA_PROCESSES ? process + 1 : 0)
			       << AGGREGATE_VA_BITS |
		       (wire & AGGREGATE_VA_MASK);
	c->frames[c->nr++] = frame;
	c->wires[c->nr] = wire;
	return 0;
}

static bool needs_name(const struct thread_frame *frame, const struct stack_names_options *options)
{
	if (frame->name || !frame->wire)
		return false;
	return frame->kind != THREAD_FRAME_KERNEL || options->kernel;
}

static int collect(struct collected *c, struct dump *dump,
		   const struct stack_names_options *options)
{
	struct thread_dump *thread;
	size_t i, k, n;

	c->processes = calloc(dump->nr_processes + 1, sizeof(*c->processes));
	if (!c->processes)
		return -ENOMEM;
	for (i = 0; i < dump->nr_processes; i++) {
		c->processes[i].pid = dump->processes[i].pid;
		for (k = 0; k < dump->processes[i].nr_threads; k++) {
			thread = &dump->processes[i].threads[k];
			if (thread->sampled != options->sampled)
				continue;
			for (n = 0; n < thread->nr_frames; n++)
				if (needs_name(&thread->frames[n], options) &&
				    collect_frame(c, &thread->frames[n], i))
					return -ENOMEM;
		}
	}
	c->callers = calloc(c->nr + 1, sizeof(*c->callers));
	return c->callers ? 0 : -ENOMEM;
}

static void name_set(struct dump *dump, struct thread_frame *frame, const struct profile *profile,
		     const struct profile_location *loc)
{
	const char *path;

	frame->name = strtab_add(dump->strings, strtab_get(profile->strings, loc->name));
	if (frame->kind == THREAD_FRAME_PYTHON) {
		frame->file = strtab_add(dump->strings, strtab_get(profile->strings, loc->file));
		frame->short_file =
			strtab_add(dump->strings, strtab_get(profile->strings, loc->short_file));
		frame->line = loc->line;
	} else if (loc->mapping && frame->kind == THREAD_FRAME_NATIVE) {
		path = strtab_get(profile->strings, profile->mappings[loc->mapping - 1].path);
		frame->file = strtab_add(dump->strings, path);
	}
}

int stack_names_find(struct dump *dump, const struct thread_reader *reader,
		     const struct stack_names_options *options)
{
	const struct symbolize_options symbolize_options = { .kallsyms = "/proc/kallsyms",
							     .now_ns = time_monotonic_ns(),
							     .deadline_ns = options->deadline_ns,
							     .codes = options->codes,
							     .runner = reader->runner };
	struct stats_reasons files = { 0 };
	int hidden;
	struct collected c = { 0 };
	struct aggregate_view view = { 0 };
	struct profile profile = { 0 };
	size_t i;
	int err = collect(&c, dump, options);

	if (!err && c.nr) {
		view.frames = c.wires;
		view.callers = c.callers;
		view.nr_stacks = c.nr + 1;
		view.processes = c.processes;
		view.nr_processes = dump->nr_processes;
		err = symbolize(&profile, &view, reader->images, &symbolize_options,
				options->files ? options->files : &files,
				options->kernel_hidden ? options->kernel_hidden : &hidden);
		for (i = 0; i < c.nr && !err; i++)
			name_set(dump, c.frames[i], &profile,
				 profile_frame(&profile, (uint32_t)i + 1));
		if (!err)
			profile_fini(&profile);
		if (!err && options->deadline_ns && time_monotonic_ns() >= options->deadline_ns)
			err = -ETIME;
	}
	free(c.wires);
	free(c.callers);
	free(c.frames);
	free(c.processes);
	return err;
}
