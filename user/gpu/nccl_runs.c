// SPDX-License-Identifier: Apache-2.0
/*
 * Finds the files of one run: those with a communicator in common, directly or through a third
 * file. The hash of a communicator is new in each run.
 */
#include "gpu/nccl_writer.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "gpu/report_read.h"

struct seen {
	uint64_t hash;
	uint32_t file;
};

static int compare(const void *first, const void *second)
{
	const struct seen *a = first, *b = second;

	return GPU_ORDER(a->hash, b->hash) ?: GPU_ORDER(a->file, b->file);
}

/* The first file of the run, as far as that is known. */
static uint32_t run_of(const uint32_t *runs, uint32_t file)
{
	while (runs[file] != file)
		file = runs[file];
	return file;
}

static void join(uint32_t *runs, uint32_t a, uint32_t b)
{
	a = run_of(runs, a);
	b = run_of(runs, b);
	if (a < b)
		runs[b] = a;
	else
		runs[a] = b;
}

int nccl_runs(const struct gpu_read *read, uint32_t **ret)
{
	__cleanup(free_mem) struct seen *seen = calloc(read->nr_comms + 1, sizeof(*seen));
	uint32_t *runs = calloc(read->nr_files + 1, sizeof(*runs)), file;
	const struct gpu_report_process *process;
	size_t nr = 0, i, k;

	*ret = runs;
	if (!seen || !runs)
		return -ENOMEM;
	for (i = 0; i < read->nr_processes; i++) {
		process = read->processes[i].report;
		for (k = 0; k < process->nr_comms; k++)
			if (process->comms[k].known)
				seen[nr++] = (struct seen){ .hash = process->comms[k].hash,
							    .file = read->processes[i].file };
	}
	qsort(seen, nr, sizeof(*seen), compare);
	for (file = 0; file < read->nr_files; file++)
		runs[file] = file;
	for (i = 1; i < nr; i++)
		if (seen[i].hash == seen[i - 1].hash)
			join(runs, seen[i].file, seen[i - 1].file);
	for (file = 0; file < read->nr_files; file++)
		runs[file] = run_of(runs, file);
	return 0;
}
