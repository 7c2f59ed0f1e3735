// SPDX-License-Identifier: Apache-2.0
/* fuzz: max_len=8192 */
/* Files of report --tasks, from the text, in two pieces, to the table. */
#include "tasks/task_read.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/buf.h"
#include "tasks/task_report.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void report(struct task_read *read)
{
	struct buf text = { .max = 1 << 20 };
	struct task_row *rows;
	size_t nr, i;

	rows = task_read_rows(read, &nr);
	if (!rows)
		abort();
	for (i = 0; i < nr; i++)
		if (rows[i].median_ns > rows[i].longest_ns ||
		    rows[i].longest_ns > rows[i].total_ns || rows[i].nr_part > rows[i].nr)
			abort();
	task_report(&text, rows, nr, task_read_totals(read), 7);
	for (i = 0; i < text.len; i++) /* nothing that a terminal obeys */
		if ((unsigned char)text.data[i] < 0x20 && text.data[i] != '\n')
			abort();
	buf_fini(&text);
	free(rows);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t first = size ? data[0] % size : 0;
	struct task_read *read;

	if (task_read_new(&read))
		abort();
	if (size && !task_read_push(read, (const char *)data + 1, first) &&
	    !task_read_push(read, (const char *)data + 1 + first, size - 1 - first) &&
	    !task_read_end(read))
		report(read);
	task_read_free(read);
	return 0;
}
