// SPDX-License-Identifier: Apache-2.0
#include "formats/trace_facts.h"

#include <inttypes.h>

#include "base/buf.h"
#include "base/json.h"
#include "profile/stats.h"

/* Writes a text, since a number would be rounded. */
static void put_ns(struct buf *dst, const char *key, uint64_t ns)
{
	json_key(dst, key);
	buf_printf(dst, "\"%" PRIu64 "\"", ns);
}

void trace_facts_put(const struct trace_facts *facts, const char *of, const char *note,
		     struct buf *dst)
{
	const struct stats_reasons *lost = facts->lost;
	size_t i;

	json_key_text(dst, "program", "bpfprof " BPFPROF_VERSION);
	if (of)
		json_key_text(dst, "of", of);
	json_key_text(dst, "host", facts->host);
	json_key_text(dst, "note", note);
	json_key_text(dst, "clock", "CLOCK_MONOTONIC");
	put_ns(dst, "start_ns", facts->start_ns);
	put_ns(dst, "start_unix_ns", facts->start_wall_ns);
	json_key_seconds(dst, "seconds", (double)(facts->end_ns - facts->start_ns) / 1e9);
	json_key_number(dst, "calls", facts->nr_kept);
	json_key_number(dst, "calls_dropped", facts->nr_dropped);
	json_key_number(dst, "max_trace_bytes", facts->max_bytes);
	json_key_open(dst, "lost", '{');
	for (i = 0; i < lost->nr; i++)
		json_key_number(dst, lost->reasons[i].name, lost->reasons[i].count);
}
