// SPDX-License-Identifier: Apache-2.0
#include "tasks/task_report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"
#include "base/units.h"
#include "proc/title.h"
#include "profile/aggregate.h"
#include "tasks/task_cpu.h"
#include "tasks/task_group.h"
#include "tasks/task_read.h"

#define PREFIX_LEN (sizeof(TITLE_PREFIX) - 1)

static double percent(uint64_t part, double whole)
{
	return whole > 0 ? 100.0 * (double)part / whole : 0;
}

static const char *plural(uint64_t nr)
{
	return nr == 1 ? "" : "s";
}

static void add_cell(struct buf *dst, const char *text)
{
	buf_printf(dst, " %11s", text);
}

static void add_name(struct buf *dst, const char *name, enum task_numbers numbers, size_t nr_names)
{
	char text[TITLE_MAX + 1];

	task_group_text(text, sizeof(text), name, numbers);
	text_add_shown(dst, text);
	if (nr_names > 1)
		buf_printf(dst, " (%zu names)", nr_names);
	buf_add_char(dst, '\n');
}

static void add_row(struct buf *dst, const struct task_row *row, double all_ns, bool cpu_known)
{
	char text[UNITS_TEXT];

	buf_printf(dst, "%9" PRIu64, row->nr);
	add_cell(dst, units_ns(text, row->total_ns / row->nr));
	add_cell(dst, units_ns(text, row->median_ns));
	add_cell(dst, units_ns(text, row->longest_ns));
	add_cell(dst, units_ns(text, row->total_ns));
	buf_printf(dst, " %6.1f%%", percent(row->total_ns, all_ns));
	if (cpu_known)
		buf_printf(dst, " %9.2f s", (double)row->cpu_ns / 1e9);
	else
		add_cell(dst, "-");
	if (row->median_ns)
		buf_printf(dst, " %10.1f", (double)row->longest_ns / (double)row->median_ns);
	else
		buf_printf(dst, " %10s", "-");
	buf_printf(dst, "  %-5s  ", row->actor ? "actor" : "task");
	add_name(dst, row->name, row->numbers, row->nr_names);
}

static void add_notes(struct buf *dst, const struct task_row *list, size_t nr,
		      const struct task_read_totals *totals)
{
	uint64_t nr_part = 0;
	double cpu_ns = 0, other_ns = 0;
	size_t i;

	for (i = 0; i < nr; i++) {
		nr_part += list[i].nr_part;
		if (list[i].nr)
			continue;
		if (!strcmp(list[i].name, &AGGREGATE_OTHER_TITLE[PREFIX_LEN]))
			other_ns += (double)list[i].cpu_ns;
		else
			cpu_ns += (double)list[i].cpu_ns;
	}
	if (totals->cpu_known && cpu_ns > 0)
		buf_printf(dst, "Workers used %.2f s of CPU outside of these calls.\n",
			   cpu_ns / 1e9);
	if (totals->cpu_known && other_ns > 0)
		buf_printf(dst,
			   "%.2f s of CPU belong to names beyond the first %d of a worker, in one "
			   "sum.\n",
			   other_ns / 1e9, AGGREGATE_MAX_TITLES);
	if (!totals->cpu_known)
		buf_add_str(dst, "CPU time is not known: with --wall, --off-cpu or --gil it is not "
				 "recorded.\n");
	if (nr_part)
		buf_printf(dst,
			   "%" PRIu64 " call%s had begun before or had not ended: what was seen of "
			   "%s counts.\n",
			   nr_part, plural(nr_part), nr_part == 1 ? "it" : "them");
	if (totals->nr_unclear)
		buf_printf(dst,
			   "%" PRIu64
			   " worker%s had one title all the time, as a task that runs or "
			   "an actor that rests: not counted.\n",
			   totals->nr_unclear, plural(totals->nr_unclear));
	if (totals->nr_dropped)
		buf_printf(dst,
			   "%" PRIu64 " older call%s did not fit in --max-trace-bytes: not "
			   "counted.\n",
			   totals->nr_dropped, plural(totals->nr_dropped));
	if (totals->nr_cpus_dropped)
		buf_printf(dst,
			   "The CPU time of %" PRIu64
			   " name%s, the least, did not fit in the files.\n",
			   totals->nr_cpus_dropped, plural(totals->nr_cpus_dropped));
	if (totals->nr_lost)
		buf_add_str(dst, "Calls are missing, for what was lost is:\n");
	for (i = 0; i < totals->nr_lost; i++) {
		buf_printf(dst, "%9" PRIu64 " ", totals->lost[i].count);
		text_add_shown(dst, totals->lost[i].name);
		buf_add_char(dst, '\n');
	}
	if (totals->nr_not_understood)
		buf_printf(dst, "%" PRIu64 " entries were not understood.\n",
			   totals->nr_not_understood);
	if (totals->nr_left_out)
		buf_printf(dst, "%" PRIu64 " entries were left out: too many.\n",
			   totals->nr_left_out);
}

void task_report(struct buf *dst, const struct task_row *list, size_t nr,
		 const struct task_read_totals *totals, size_t rows)
{
	uint64_t calls = 0;
	double all_ns = 0;
	size_t i, shown = 0, names = 0, rows_of_calls = 0;

	for (i = 0; i < nr; i++) {
		all_ns += (double)list[i].total_ns;
		calls += list[i].nr;
		names += list[i].nr ? list[i].nr_names : 0;
		rows_of_calls += list[i].nr > 0;
	}
	buf_printf(dst, "%" PRIu64 " call%s of %zu name%s in %.1f s", calls, plural(calls), names,
		   plural(names), totals->seconds);
	if (totals->nr_files > 1)
		buf_printf(dst, ", the sum of %zu files", totals->nr_files);
	buf_add_str(dst, "\n\n");
	if (calls)
		buf_printf(dst, "%9s %11s %11s %11s %11s %7s %11s %10s  %-5s  %s\n", "calls",
			   "mean", "median", "longest", "total", "share", "CPU", "longest/", "kind",
			   "name");
	if (calls)
		buf_printf(dst, "%*s\n", 9 + 4 * 12 + 8 + 12 + 11, "median");
	for (i = 0; i < nr; i++) {
		if (!list[i].nr || (rows && shown == rows))
			continue;
		shown++;
		add_row(dst, &list[i], all_ns, totals->cpu_known);
	}
	if (rows_of_calls > shown)
		buf_printf(dst, "%9s %zu more\n", "and", rows_of_calls - shown);
	buf_add_str(dst, calls ? "\n" : "No call of a Ray task or actor was seen.\n");
	add_notes(dst, list, nr, totals);
}

void task_report_cpu(struct buf *dst, const struct task_cpu *list, size_t nr, size_t rows)
{
	double all_ns = 0;
	size_t i, titles = 0;

	for (i = 0; i < nr; i++) {
		all_ns += (double)list[i].ns;
		titles += list[i].nr_names ?: 1;
	}
	buf_printf(dst, "%zu title%s of Ray workers, %.2f s of CPU\n\n", titles, plural(titles),
		   all_ns / 1e9);
	if (nr)
		buf_printf(dst, "%11s %7s  %s\n", "CPU", "share", "name");
	for (i = 0; i < nr && (!rows || i < rows); i++) {
		buf_printf(dst, "%9.2f s %6.1f%%  ", (double)list[i].ns / 1e9,
			   percent(list[i].ns, all_ns));
		add_name(dst,
			 !strncmp(list[i].title, TITLE_PREFIX, PREFIX_LEN)
				 ? list[i].title + PREFIX_LEN
				 : list[i].title,
			 list[i].numbers, list[i].nr_names);
	}
	if (i < nr)
		buf_printf(dst, "%11s %zu more\n", "and", nr - i);
	buf_add_str(dst, "\nA profile has samples, no calls: how many there were and how long each "
			 "took is in a timeline,\nwhich bpfprof record -o FILE.json writes.\n");
}
