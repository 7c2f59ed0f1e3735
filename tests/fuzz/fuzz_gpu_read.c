// SPDX-License-Identifier: Apache-2.0
/* fuzz: max_len=8192 */
/* Files of report --nccl, from the text to the report of two of them. */
#include "gpu/report_read.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "gpu/nccl_report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_texts(const char *const *texts, size_t nr)
{
	size_t i, bytes = 0;

	if (nr > 1024)
		abort();
	for (i = 0; i < nr; i++)
		bytes += strlen(texts[i]);
	if (bytes > 8192 * nr) /* an input is no longer; and all of them were read */
		abort();
}

static void check_open(const struct gpu_report_open *open)
{
	size_t i;

	if ((open->group.complete && !open->group.nr) || open->group.nr > 512)
		abort();
	check_texts(open->stack, open->nr_stack);
	check_texts(&open->function, 1);
	check_texts(&open->thread, 1);
	for (i = 0; i < open->group.nr; i++)
		check_texts(&open->group.rows[i].operation, 1);
}

static void check_process(const struct gpu_report_process *process)
{
	size_t i;

	if (process->nr_open > 1024 || process->nr_comms > 1024 || process->nr_collectives > 4096 ||
	    process->nr_completions > 4096 || process->nr_where > 16)
		abort();
	check_texts(&process->name, 1);
	for (i = 0; i < process->nr_open; i++)
		check_open(&process->open[i]);
	for (i = 0; i < process->nr_collectives; i++)
		check_texts(&process->collectives[i].operation, 1);
	for (i = 0; i < process->nr_completions; i++)
		check_texts(&process->completions[i].operation, 1);
	for (i = 0; i < process->nr_where; i++)
		check_texts(process->where[i].stack, process->where[i].nr_stack);
	for (i = 0; i < process->nr_comms; i++)
		if (process->comms[i].known && process->comms[i].rank >= process->comms[i].size)
			abort();
}

static void check_read(const struct gpu_read *read)
{
	size_t nr_comms = 0, nr_collectives = 0, nr_completions = 0, nr_open = 0, i;
	const struct gpu_report_process *process;

	for (i = 0; i < read->nr_processes; i++) {
		process = read->processes[i].report;
		if (read->processes[i].file >= read->nr_files)
			abort();
		check_process(process);
		nr_comms += process->nr_comms;
		nr_collectives += process->nr_collectives;
		nr_completions += process->nr_completions;
		nr_open += process->nr_open;
	}
	if (nr_comms != read->nr_comms || nr_collectives != read->nr_collectives ||
	    nr_completions != read->nr_completions || nr_open != read->nr_open)
		abort();
}

/* Nothing that a terminal obeys. */
static void check_text(const struct buf *text)
{
	size_t i;

	for (i = 0; i < text->len; i++)
		if ((unsigned char)text->data[i] < 0x20 && text->data[i] != '\n')
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct nccl_report_options options[] = { { 0 }, { 1 }, { 64 } };
	const char *half = memchr(data, '\f', size);
	size_t first = half ? (size_t)(half - (const char *)data) : size;
	struct gpu_read read;
	struct buf text;
	size_t i;
	int err;

	if (gpu_read_init(&read))
		abort();
	err = gpu_read_add(&read, "a", (const char *)data, first);
	if (!err && half)
		err = gpu_read_add(&read, "b", half + 1, size - first - 1);
	if (!err) {
		check_read(&read);
		for (i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
			buf_init(&text, 8 << 20);
			if (nccl_report(&text, &read, &options[i]))
				abort();
			check_text(&text);
			buf_fini(&text);
		}
	}
	gpu_read_fini(&read);
	return 0;
}
