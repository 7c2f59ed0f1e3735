// SPDX-License-Identifier: Apache-2.0
/*
 * Finds the CPython runtimes of a process. Its mappings have places where a runtime may be. A
 * runtime runs if its lists lead to thread states that point back to it. There may be several
 * runtimes.
 */
#include "threads/reading.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/strtab.h"
#include "kernel/remote.h"
#include "kernel/walk.h"
#include "proc/processes.h"
#include "python/code_read.h"
#include "python/pythons.h"

#define MAX_LIST_READS 8
#define MAX_VERSIONS_TEXT 256

/*
 * A thread that ends during the read of the list hides the rest of the list. Then the list is read
 * again, and the counts of the torn list are dropped.
 */
static int tstates_read(struct reading *reading, struct reading_python *python)
{
	const struct python_heap_counts before = python->heap.counts;
	int err = python_tstates_read(&python->tstates, &python->heap), i;

	for (i = 1; i < MAX_LIST_READS && !err && !python->tstates.complete; i++) {
		python_tstates_fini(&python->tstates);
		remote_forget(reading->remote);
		python->heap.counts = before;
		err = python_tstates_read(&python->tstates, &python->heap);
	}
	if (!err)
		reading->dump->threads_cut |= !python->tstates.complete;
	return err;
}

/* Reads the thread states of a runtime. 0: it runs. */
static int python_begin(struct reading *reading, struct reading_python *python,
			const struct process_python *at)
{
	int heap_err, err, i;

	python->layout = pythons_layout(reading->reader->walker.pythons, at->layout);
	python->image = at->image;
	if (!python->layout)
		return -ENOTSUP;
	heap_err = python_heap_init(&python->heap, remote_reader(reading->remote), python->layout,
				    at->runtime);
	err = python_runtime_check(&python->heap);
	/* The newest thread, where its list begins, may just have ended. */
	for (i = 1; i < MAX_LIST_READS && err == -EBADMSG; i++) {
		remote_forget(reading->remote);
		err = python_runtime_check(&python->heap);
	}
	if (err) /* the memory has other data: no runtime is here */
		return err == -EBADMSG ? -ENODATA : err;
	if (heap_err)
		reading->counts->python_error = heap_err;
	err = python_code_cache_new(&python->codes, &python->heap);
	if (!err)
		err = tstates_read(reading, python);
	if (err)
		python_code_cache_free(python->codes);
	return err;
}

/* The oldest runtime comes first. */
static void versions_read(struct reading *reading)
{
	__cleanup(buf_fini) struct buf text = { .max = MAX_VERSIONS_TEXT };
	struct reading_python *python;
	uint32_t i, nr, id, last = 0;

	for (i = reading->nr_pythons; i--;) {
		python = &reading->pythons[i];
		nr = python->tstates.nr_interpreters;
		id = python_version_name(
			reading->strings,
			pythons_version(reading->reader->walker.pythons, python->image),
			&python->heap, nr ? python->tstates.interpreters[nr - 1] : 0);
		if (!id || id == last)
			continue;
		buf_printf(&text, "%s%s", text.len ? ", " : "", strtab_get(reading->strings, id));
		last = id;
	}
	if (text.len && !buf_error(&text))
		reading->dump->python_version = strtab_add(reading->strings, text.data);
}

static bool is_better(int err, int than)
{
	return !than || (than != -ENODATA && err == -ENODATA);
}

void reading_pythons_begin(struct reading *reading)
{
	const struct process *process = reading->process;
	struct reading_python *python;
	int err, why = 0;
	uint32_t i;

	reading->nr_pythons = 0;
	for (i = 0; i < process->pythons->nr; i++) {
		python = &reading->pythons[reading->nr_pythons];
		err = python_begin(reading, python, &process->pythons->list[i]);
		if (!err)
			reading->nr_pythons++;
		else if (is_better(err, why))
			why = err;
	}
	reading->python_known = reading->nr_pythons;
	if (!reading->nr_pythons && why)
		reading->counts->python_error = why;
	if (reading->counts->nr_rounds || !reading->nr_pythons)
		return;
	for (i = 0; i < reading->nr_pythons; i++) {
		python = &reading->pythons[i];
		python_thread_names_read(&reading->names[i], &python->heap, &python->tstates);
	}
	versions_read(reading);
}

void reading_pythons_end(struct reading *reading)
{
	struct python_heap_counts *counts;
	struct reading_python *python;
	uint32_t i;

	for (i = 0; i < reading->nr_pythons; i++) {
		python = &reading->pythons[i];
		counts = &python->heap.counts;
		reading->counts->nr_unreadable += counts->nr_unreadable;
		reading->counts->nr_bad += counts->nr_bad + counts->nr_cyclic + counts->nr_cut;
		python_code_cache_free(python->codes);
		python->codes = NULL;
		python_tstates_fini(&python->tstates);
	}
}

void reading_pythons_fini(struct reading *reading)
{
	uint32_t i;

	for (i = 0; i < BPFPROF_MAX_RUNTIMES; i++)
		python_thread_names_fini(&reading->names[i]);
}

static const char *name_find(const struct reading *reading, const struct python_tstate *tstate)
{
	const char *name = NULL;
	uint32_t i;

	for (i = 0; i < BPFPROF_MAX_RUNTIMES && !name; i++)
		name = python_thread_names_find(&reading->names[i], tstate->interpreter_va,
						tstate->thread_id);
	return name;
}

void reading_identify(struct reading *reading, struct thread_dump *thread,
		      const struct bpfprof_task_state *task)
{
	const struct python_tstates *tstates;
	const struct python_tstate *tstate;
	const char *name = NULL;
	uint32_t i;

	for (i = 0; i < reading->nr_pythons; i++) {
		tstates = &reading->pythons[i].tstates;
		tstate = NULL;
		while ((tstate = python_tstates_find(tstates, task->fs_base, tstate))) {
			thread->is_python = true;
			thread->order =
				i * PYTHON_MAX_TSTATES + (uint32_t)(tstate - tstates->states);
			thread->thread_id = tstate->thread_id;
			thread->owns_gil |= tstate->holds_gil;
			/* The oldest interpreter with the thread gives its name. */
			name = name_find(reading, tstate) ?: name;
		}
	}
	if (thread->is_python) {
		thread->has_name = name != NULL;
		thread->name = name ? strtab_add(reading->strings, name) : 0;
	}
}

void reading_chain(struct reading *reading, const struct bpfprof_task_state *task)
{
	const struct python_tstate *tstate;
	struct reading_python *python;
	int stop = PYTHON_STOP_NONE;
	uint32_t i;

	reading->chain.nr_frames = reading->chain.nr_entries = 0;
	reading->chain.stop = PYTHON_STOP_NONE;
	reading->nr_parts = 0;
	for (i = 0; i < reading->nr_pythons; i++) {
		python = &reading->pythons[i];
		tstate = NULL;
		while ((tstate = python_tstates_find(&python->tstates, task->fs_base, tstate))) {
			python_chain_add(&reading->chain, python->layout,
					 remote_reader(reading->remote), tstate->frame_start);
			if (reading->chain.stop > stop)
				stop = reading->chain.stop;
		}
		reading->parts[reading->nr_parts++] =
			(struct reading_part){ python, reading->chain.nr_frames };
	}
	reading->chain.stop = stop;
}

struct reading_python *reading_python_of(struct reading *reading, size_t index)
{
	uint32_t i = 0;

	while (i + 1 < reading->nr_parts && index >= reading->parts[i].end)
		i++;
	return reading->parts[i].python;
}
