// SPDX-License-Identifier: Apache-2.0
/* Finds asyncio in a sampled process, for the walk in the kernel (bpf/asyncio.h). */
#include "threads/reading.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/time.h"
#include "kernel/python_maps.h"
#include "kernel/remote.h"
#include "kernel/tables.h"
#include "kernel/walk_mappings.h"
#include "proc/processes.h"
#include "python/async_layout.h"
#include "python/async_objects.h"
#include "python/pythons.h"

#define DEADLINE_NS (NS_PER_SECOND / 4)
#define MAX_PAGES 4096

/* Up to 3.13: the dict of the running tasks, whose address stays the same. 0: there is none yet. */
static uint64_t current_find(struct python_heap *heap, const struct python_tstates *tstates)
{
	uint64_t module, current = 0;

	for (uint32_t i = tstates->nr_interpreters; i-- && !current;) {
		module = python_module(heap, tstates->interpreters[i], "asyncio.tasks");
		current = module ? python_attribute(heap, module, "_current_tasks") : 0;
	}
	return current && python_is_a(heap, current, "dict") ? current : 0;
}

static int runtime_async(struct bpfprof_async *ret, struct python_heap *heap,
			 const struct python_async_layout *described)
{
	struct python_tstates tstates;
	int err = python_runtime_check(heap);

	if (err)
		return err == -EBADMSG ? -ENODATA : err;
	python_async_offsets(ret, &heap->objects, described);
	if (described)
		return 0;
	if (!heap->objects.task_coro) /* 3.14+: _asyncio is not loaded, or has no description */
		return -ENODATA;
	err = python_tstates_read(&tstates, heap);
	if (err)
		return err;
	ret->current = current_find(heap, &tstates);
	python_tstates_fini(&tstates);
	if (!ret->current) /* perhaps it lies in what could not be read in time */
		return heap->counts.nr_unreadable ? -EFAULT : -ENODATA;
	return 0;
}

int thread_reader_async(struct thread_reader *reader, struct process *process)
{
	struct walker *walker = &reader->walker;
	__cleanup(free_mem) struct python_heap *heap = malloc(sizeof(*heap));
	const struct bpfprof_python_layout *layout;
	const struct process_python *at;
	struct remote *remote = NULL;
	int err = heap ? reading_child_need(reader, THREAD_OWNER_ASYNC) : -ENOMEM, found = -ENODATA;

	if (!err)
		err = remote_new(&remote, reader->child, walker_own_pid(walker, process));
	if (err)
		return err;
	remote_limit(remote, time_monotonic_ns() + DEADLINE_NS, MAX_PAGES);
	for (uint32_t i = 0; i < process->pythons->nr; i++) {
		struct bpfprof_async async = { 0 };

		at = &process->pythons->list[i];
		layout = pythons_layout(walker->pythons, at->layout);
		if (!layout || !process->tables->python_slots[i])
			continue;
		err = python_heap_init(heap, remote_reader(remote), layout, at->runtime);
		if (!err)
			err = runtime_async(
				&async, heap,
				pythons_async_layout(walker->pythons, process, at->image));
		if (!err)
			err = python_maps_async(walker->python_maps, process, i, &async);
		if (!err || found == -ENODATA)
			found = err;
	}
	remote_free(remote);
	if (!found)
		process->tables->async_id = process->tables->python_id;
	return found;
}
