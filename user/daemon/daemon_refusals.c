// SPDX-License-Identifier: Apache-2.0
/* Work of tenants that was refused: in /metrics, and in the log. */
#include "daemon/daemon.h"

#include <inttypes.h>

#include "base/log.h"
#include "base/refusals.h"

#define NAME "bpfprof_refused_total"

/* A label's value: users choose names of pods. */
static void add_value(struct buf *dst, const char *text)
{
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			buf_add_char(dst, '\\');
		buf_add_char(dst, *text);
	}
}

void refusals_metrics(struct buf *dst, struct daemon *daemon)
{
	const struct refused *row;

	sampler_refusals_name(&daemon->sampler);
	buf_add_str(dst, "# HELP " NAME " Work refused or deferred, by container (or user) and "
			 "reason.\n# TYPE " NAME " counter\n");
	hash_table_each(&daemon->sampler.reader.refusals.rows, row) {
		buf_add_str(dst, NAME "{container=\"");
		add_value(dst, row->name);
		buf_printf(dst, "\",reason=\"%s\"} %" PRIu64 "\n",
			   refusals_counters[row->of.reason].name, row->count);
	}
}

void refusals_log(struct daemon *daemon, uint64_t now_ns)
{
	const struct refused *row;

	while ((row = refusals_log_next(&daemon->sampler.reader.refusals, now_ns))) {
		const struct log_field fields[] = {
			{ .key = "container", .text = row->name },
			{ .key = "reason", .text = refusals_counters[row->of.reason].name },
			{ .key = "count", .number = row->count },
		};

		log_event(LOG_WARN, "work refused", fields, sizeof(fields) / sizeof(fields[0]));
	}
}
