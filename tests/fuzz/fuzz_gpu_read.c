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

static void check_ranges(const struct gpu_read *read)
{
	const struct gpu_read_process *process;
	size_t i;

	for (i = 0; i < read->nr_processes; i++) {
		process = &read->processes[i];
		if (process->file >= read->nr_files ||
		    process->comms.first + process->comms.nr > read->nr_comms ||
		    process->operations.first + process->operations.nr > read->nr_operations ||
		    process->open.first + process->open.nr > read->nr_open)
			abort();
	}
	for (i = 0; i < read->nr_open; i++)
		if (read->open[i].group.first + read->open[i].group.nr > read->nr_grouped ||
		    (read->open[i].group_complete && !read->open[i].group.nr))
			abort();
	for (i = 0; i < read->nr_comms; i++)
		if (read->comms[i].process >= read->nr_processes ||
		    (read->comms[i].known && read->comms[i].rank >= read->comms[i].size))
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
		check_ranges(&read);
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
