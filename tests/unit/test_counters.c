// SPDX-License-Identifier: Apache-2.0
/* docs/counters.md has a row for each counter; `make counters` writes them. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/background.h"
#include "base/buf.h"
#include "base/counters.h"
#include "base/refusals.h"
#include "capture/sampler.h"
#include "capture/task_sampler.h"
#include "capture/worker_steps.h"
#include "cmd/gpu_memory_moments.h"
#include "cmd/record_timeline.h"
#include "daemon/daemon.h"
#include "daemon/http_clients.h"
#include "findings/record_findings.h"
#include "gpu/absent_ranks.h"
#include "gpu/call_table.h"
#include "gpu/gap_sampler.h"
#include "gpu/graphs.h"
#include "gpu/handle_generations.h"
#include "gpu/inflight.h"
#include "gpu/memory_log.h"
#include "gpu/monitor.h"
#include "gpu/trace.h"
#include "gpu/waits.h"
#include "memory/allocations.h"
#include "memory/monitor.h"
#include "proc/images.h"
#include "profile/aggregate_stats.h"
#include "profile/idle.h"
#include "profile/profile.h"
#include "profile/jit_names.h"
#include "profile/symbolize.h"
#include "profile/ray_calls.h"
#include "profile/thread_times.h"
#include "tasks/task_trace.h"
#include "watch/deaths.h"
#include "watch/stalls.h"

#define PAGE "docs/counters.md"
#define MARK "<!-- counters: "

/* The page has the rows of a group in this order. */
static const struct counter *const tables[] = {
	sampler_counters,
	aggregate_counters,
	image_counters,
	sampler_image_counters,
	background_counters,
	symbolize_counters,
	jit_names_counters,
	daemon_counters,
	profile_counters,
	record_findings_counters,
	worker_steps_counters,
	thread_times_counters,
	ray_calls_counters,
	task_sampler_counters,
	idle_counters,
	gpu_monitor_counters,
	call_table_counters,
	gpu_graphs_counters,
	handle_generations_counters,
	gpu_waits_counters,
	gpu_inflight_counters,
	gap_sampler_counters,
	absent_ranks_counters,
	gpu_trace_counters,
	gpu_memory_log_counters,
	gpu_memory_moments_counters,
	memory_counters,
	deaths_counters,
	stalls_counters,
	notify_counters,
	allocation_counters,
	record_timeline_counters,
	task_trace_counters,
	http_refused_counters,
	refusals_counters,
};

/* The groups, as the marks of the page name them. */
static const char *const groups[COUNTER_NR_GROUPS] = {
	[COUNTER_LOST] = "lost",
	[COUNTER_STACKS] = "stacks.reasons",
	[COUNTER_CLOCK] = "clock",
	[COUNTER_WALK] = "walk",
	[COUNTER_FILES] = "files",
	[COUNTER_CONTAINERS] = "containers",
	[COUNTER_ENVIRONMENTS] = "environments",
	[COUNTER_STEPS] = "steps",
	[COUNTER_GPU] = "gpu.lost",
	[COUNTER_WAITS] = "waits",
	[COUNTER_MEMORY] = "memory",
	[COUNTER_TRACE] = "otherData.lost",
	[COUNTER_HTTP] = "bpfprof_http_refused_total",
	[COUNTER_REFUSED] = "refused",
};

static void add_rows(struct buf *dst, enum counter_group group, bool remedies)
{
	const struct counter *row;
	size_t i;

	for (i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		for (row = tables[i]; row->group; row++) {
			if (row->group != group || !row->help)
				continue;
			buf_printf(dst, "| `%s` | %s |", row->name, row->help);
			if (remedies)
				buf_printf(dst, row->remedy ? " %s |" : " |", row->remedy);
			cr_expect(remedies || !row->remedy, "%s: no column for its remedy",
				  row->name);
			buf_add_char(dst, '\n');
		}
	}
}

/* Adds the page with the rows of today instead of its own rows. */
static void add_page(struct buf *dst, char *page)
{
	bool has_rows[COUNTER_NR_GROUPS] = { false };
	enum counter_group group;
	char *line, *rule;

	while ((line = strsep(&page, "\n")) && page) {
		buf_printf(dst, "%s\n", line);
		if (strncmp(line, MARK, strlen(MARK)))
			continue;
		line += strlen(MARK);
		for (group = COUNTER_LOST; group < COUNTER_NR_GROUPS; group++)
			if (!strncmp(line, groups[group], strcspn(line, " ")) &&
			    !groups[group][strcspn(line, " ")])
				break;
		cr_assert_lt(group, COUNTER_NR_GROUPS, "no such group: %s", line);
		has_rows[group] = true;
		buf_printf(dst, "%s\n", strsep(&page, "\n")); /* an empty line */
		buf_printf(dst, "%s\n", strsep(&page, "\n")); /* the heads of the columns */
		rule = strsep(&page, "\n");
		buf_printf(dst, "%s\n", rule);
		add_rows(dst, group, !strcmp(rule, "|---|---|---|"));
		while (page && *page == '|')
			strsep(&page, "\n");
	}
	for (group = COUNTER_LOST; group < COUNTER_NR_GROUPS; group++)
		cr_expect(has_rows[group], PAGE " has no group %s", groups[group]);
}

static void read_page(char *page, size_t size)
{
	FILE *file = fopen(PAGE, "r");
	size_t len;

	cr_assert(file, PAGE);
	len = fread(page, 1, size - 1, file);
	fclose(file);
	cr_assert_lt(len, size - 1);
	page[len] = 0;
}

Test(counters, page)
{
	static char page[1 << 20], old[sizeof(page)];
	struct buf want;
	FILE *file;

	read_page(page, sizeof(page));
	memcpy(old, page, sizeof(old));
	buf_init(&want, sizeof(page));
	add_page(&want, page);
	buf_add_char(&want, 0);
	cr_assert_eq(buf_error(&want), 0);
	if (getenv("WRITE_PAGE")) {
		file = fopen(PAGE, "w");
		cr_assert(file);
		fputs(want.data, file);
		cr_assert_eq(fclose(file), 0);
	} else {
		cr_expect(!strcmp(want.data, old),
			  PAGE " does not have the rows of the tables: run `make counters`");
	}
	buf_fini(&want);
}

/* The same name may stand in two tables that count into it; one of them explains it. */
Test(counters, each_has_one_help)
{
	const size_t nr = sizeof(tables) / sizeof(tables[0]);
	const struct counter *a, *b;
	size_t i, k;

	for (i = 0; i < nr; i++) {
		for (a = tables[i]; a->group; a++) {
			unsigned int helps = 0;

			for (k = 0; k < nr; k++)
				for (b = tables[k]; b->group; b++)
					helps += b->group == a->group && b->help &&
						 !strcmp(b->name, a->name);
			cr_expect_eq(helps, 1, "%s: %u sentences", a->name, helps);
		}
	}
}
