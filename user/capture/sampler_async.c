// SPDX-License-Identifier: Apache-2.0
/* --async: finds asyncio in the processes that are sampled, again and again until they have imported it. */
#include "capture/sampler.h"

#include <errno.h>

#include "base/budget.h"
#include "base/log.h"
#include "base/text.h"
#include "base/time.h"
#include "kernel/tables.h"
#include "proc/images.h"
#include "proc/processes.h"
#include "python/pythons.h"
#include "threads/thread_reader.h"

#define FIRST_WAIT_NS (NS_PER_SECOND / 50)
#define MAX_DOUBLINGS 6 /* 1.28 s between two searches */
#define SEARCH_SHARE 20 /* a twentieth of the time, for the searches in all processes */
#define SEARCH_SAVED_NS (NS_PER_SECOND / 5)
#define EXISTING_NS (NS_PER_SECOND / 5) /* for processes that run before sampling starts */

/* Has the process mapped the library of asyncio? Few interpreters have it inside. */
static bool has_library(const struct sampler *sampler, const struct process *process)
{
	const struct image *image;

	for (size_t i = 0; i < process->nr_mappings; i++) {
		image = images_get(sampler->reader.images, (uint32_t)process->mappings[i].image);
		if (image && image->path && text_begins(text_base_name(image->path), "_asyncio."))
			return true;
	}
	return false;
}

/* Once the library is there, the module is imported within milliseconds. */
static bool is_due(const struct sampler *sampler, struct process *process, uint64_t now_ns)
{
	struct process_tables *tables = process->tables;

	if (tables->async_mappings != process->nr_mappings) {
		tables->async_mappings = process->nr_mappings;
		if (!tables->has_asyncio && has_library(sampler, process)) {
			tables->has_asyncio = true;
			tables->async_tries = 0;
			tables->async_due_ns = now_ns;
			tables->async_samples = 1; /* it was not imported before */
		}
	}
	return now_ns >= tables->async_due_ns;
}

void sampler_async(struct sampler *sampler, struct process *process, uint64_t ts_ns)
{
	struct process_tables *tables = process->tables;
	uint64_t now_ns;
	int err;

	if (!process->pythons->nr)
		return;
	if (tables->async_id && tables->async_id == tables->python_id) {
		sampler->async.early += ts_ns < tables->async_due_ns; /* it was on its way */
		return;
	}
	now_ns = time_monotonic_ns();
	tables->async_samples++;
	if (!is_due(sampler, process, now_ns) ||
	    !budget_allows(&sampler->async.budget, SEARCH_SHARE, SEARCH_SAVED_NS, now_ns))
		return;
	err = thread_reader_async(&sampler->reader, process);
	budget_spend(&sampler->async.budget, time_monotonic_ns() - now_ns);
	if (!err)
		sampler->async.early += tables->async_samples;
	else if (err != -ENODATA)
		sampler->async.failed++;
	if (!err || err == -ENODATA)
		tables->async_samples = 0;
	now_ns = time_monotonic_ns();
	tables->async_due_ns = err ? now_ns + (FIRST_WAIT_NS << tables->async_tries) : now_ns;
	if (tables->async_tries < MAX_DOUBLINGS)
		tables->async_tries++;
}

void sampler_async_start(struct sampler *sampler)
{
	uint64_t end_ns = time_monotonic_ns() + EXISTING_NS;
	struct process *process;

	for (process = processes_first(sampler->reader.processes);
	     process && time_monotonic_ns() < end_ns; process = hash_table_next(process))
		sampler_async(sampler, process, time_monotonic_ns());
	sampler->async.early = 0;
}
