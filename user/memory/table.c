// SPDX-License-Identifier: Apache-2.0
#include "memory/table.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "memory/holders.h"
#include "memory/monitor.h"

#define MAX_PROCESSES 8 /* with a table; the largest ones */
#define COLUMNS 80
#define FUNCTION_INDENT 30

void table_amount_signed(struct buf *dst, int64_t bytes, bool sign)
{
	double size = (double)bytes;

	if (bytes > -1024 && bytes < 1024)
		buf_printf(dst, sign && bytes ? "%+7" PRId64 " B  " : "%7" PRId64 " B  ", bytes);
	else if (bytes > -(1 << 20) && bytes < 1 << 20)
		buf_printf(dst, sign ? "%+7.1f KiB" : "%7.1f KiB", size / 1024);
	else if (bytes > -(1LL << 30) && bytes < 1LL << 30)
		buf_printf(dst, sign ? "%+7.1f MiB" : "%7.1f MiB", size / (1 << 20));
	else
		buf_printf(dst, sign ? "%+7.2f GiB" : "%7.2f GiB", size / (1 << 30));
}

void table_amount(struct buf *dst, int64_t bytes)
{
	table_amount_signed(dst, bytes, false);
}

static void rows_write(const struct holders *holders, struct buf *dst, size_t rows, uint64_t all)
{
	const struct holder *row;
	size_t shown = 0, left = 0;
	int64_t left_bytes = 0;

	buf_add_str(dst, "     Held  Share     Pages  Function\n");
	for (row = holders->list; row < holders->list + holders->nr; row++) {
		if (!row->bytes)
			continue;
		if (rows && shown >= rows && strcmp(row->name, MEMORY_DRIFT) != 0) {
			left++;
			left_bytes += row->bytes;
			continue;
		}
		shown++;
		table_amount(dst, row->bytes);
		buf_printf(dst, " %5.1f%%", all ? 100 * (double)row->bytes / (double)all : 0.0);
		if (row->pages > 1)
			buf_printf(dst, "  %8" PRIu64 "  ", row->pages);
		else
			buf_printf(dst, "  %8s  ", "");
		text_add_cut(dst, row->name, COLUMNS - FUNCTION_INDENT);
		buf_add_char(dst, '\n');
	}
	if (!shown)
		buf_add_str(dst, "      0 B                     nothing\n");
	if (!left)
		return;
	table_amount(dst, left_bytes);
	buf_printf(dst, "%*s%zu more\n", FUNCTION_INDENT - 11, "", left);
}

void memory_table_process(struct buf *dst, struct holders *holders,
			  const struct memory_account *account,
			  const struct memory_monitor *monitor, size_t rows)
{
	bool leaks = monitor->question == MEMORY_LEAKS;

	buf_printf(dst, "Process %u: ", account->own_pid);
	text_add_cut(dst, *account->name ? account->name : "?", COLUMNS);
	buf_add_str(dst, "\n");
	table_amount(dst, (int64_t)account->rss.anon_bytes);
	buf_add_str(dst, " anonymous,");
	table_amount(dst, (int64_t)account->rss.file_bytes);
	buf_add_str(dst, " of files,");
	table_amount(dst, (int64_t)account->rss.shared_bytes);
	buf_add_str(dst, " shared");
	if (account->rss.swap_bytes) {
		buf_add_char(dst, ',');
		table_amount(dst, (int64_t)account->rss.swap_bytes);
		buf_add_str(dst, " swapped out");
	}
	buf_add_str(dst, "\n\n");
	holders_of(holders, account->key.pid, leaks ? 0 : account->drift_bytes);
	rows_write(holders, dst, rows, account->rss.anon_bytes + account->rss.swap_bytes);
	buf_add_char(dst, '\n');
}

static int account_compare(const void *a, const void *b)
{
	const struct memory_account *const *x = a, *const *y = b;

	if ((*x)->rss.anon_bytes != (*y)->rss.anon_bytes)
		return (*x)->rss.anon_bytes > (*y)->rss.anon_bytes ? -1 : 1;
	return (*x)->key.pid < (*y)->key.pid ? -1 : (*x)->key.pid > (*y)->key.pid;
}

static int processes_write(struct holders *holders, struct buf *dst,
			   const struct memory_monitor *monitor, size_t rows)
{
	const struct memory_answer *answer = memory_monitor_answer(monitor);
	size_t nr = answer->nr_accounts, i;
	__cleanup(free_mem) const struct memory_account **order = calloc(nr + 1, sizeof(*order));

	if (!order)
		return -ENOMEM;
	for (i = 0; i < nr; i++)
		order[i] = &answer->accounts[i];
	qsort(order, nr, sizeof(*order), account_compare);
	for (i = 0; i < nr && i < MAX_PROCESSES; i++)
		memory_table_process(dst, holders, order[i], monitor, rows);
	if (nr > i)
		buf_printf(dst, "%zu more process%s\n", nr - i, nr - i == 1 ? "" : "es");
	if (!nr)
		buf_add_str(dst, "No process with memory was watched.\n");
	return 0;
}

int memory_table(struct buf *dst, const struct memory_monitor *monitor,
		 const struct profile *profile, size_t rows)
{
	const struct memory_answer *answer = memory_monitor_answer(monitor);
	struct holders holders;
	int err = holders_new(&holders, profile);

	if (!err && monitor->question == MEMORY_PEAK && answer->ns)
		buf_printf(dst, "The most memory was held %.1f s after the start.\n\n",
			   (double)(answer->ns - monitor->start_ns) / 1e9);
	if (!err)
		err = processes_write(&holders, dst, monitor, rows);
	if (!err && monitor->question != MEMORY_LEAKS) {
		buf_printf(dst, "Sampling error of the sum:");
		table_amount(dst, (int64_t)(2 * sqrt(answer->variance)));
		buf_printf(dst, " (2 standard deviations)\n");
	}
	holders_fini(&holders);
	return err;
}
