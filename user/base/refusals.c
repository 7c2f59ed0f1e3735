// SPDX-License-Identifier: Apache-2.0
#include "base/refusals.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clean_text.h"
#include "base/tenant.h"
#include "base/time.h"

#define OTHERS UINT32_MAX /* the tenant of pairs beyond REFUSALS_MAX */
#define ROW(reason, name_, help_)                                                                  \
	[reason] = { COUNTER_REFUSED, name_, (reason) * sizeof(uint64_t), .help = help_ }

const struct counter refusals_counters[] = {
	ROW(REFUSAL_JOB, "jobs",
	    "records that came while the tenant, or all together, had too much to be read"),
	ROW(REFUSAL_LATE_JOB, "late_jobs", "records that had waited for three seconds"),
	ROW(REFUSAL_CALL, "calls",
	    "reads of files and processes that did not begin, as too many others hang"),
	ROW(REFUSAL_FILE, "files",
	    "new files of a tenant whose known files take its share of the memory"),
	ROW(REFUSAL_ID, "file_ids",
	    "new files of a tenant that has met as many files, in the life of bpfprof, as it "
	    "leaves to others of a million"),
	ROW(REFUSAL_COPY, "copies",
	    "files that cannot be opened and whose copy from memory has no room, or made room for "
	    "that of another tenant"),
	ROW(REFUSAL_MAPPINGS, "mappings", "reads of mappings that were deferred for their cost"),
	ROW(REFUSAL_WALK, "walks",
	    "steps of stacks that were not walked, or tables that were not built, for their cost"),
	ROW(REFUSAL_CODE, "code",
	    "pieces of code without unwind tables whose reading was deferred for its cost"),
	ROW(REFUSAL_CONTAINER, "containers",
	    "look-ups of containers that were deferred for their cost"),
	ROW(REFUSAL_ENVIRONMENT, "environments",
	    "reads of environments that were deferred for their cost"),
	[REFUSAL_NR] = { 0 },
};

void refusals_init(struct refusals *refusals)
{
	*refusals = (struct refusals){ .log_tokens = REFUSALS_LOG_BURST };
	hash_table_init(&refusals->rows, REFUSALS_MAX + REFUSAL_NR, struct refused, of);
}

void refusals_fini(struct refusals *refusals)
{
	hash_table_clear(&refusals->rows);
}

static void row_name(struct refusals *refusals, struct refused *row)
{
	const uint32_t tenant = row->of.tenant;

	if (tenant == OTHERS)
		snprintf(row->name, sizeof(row->name), "others");
	else if (tenant & TENANT_CONTAINER)
		refusals->nameless = true;
	else if (tenant)
		snprintf(row->name, sizeof(row->name), "uid %" PRIu32, tenant - 1);
	else
		snprintf(row->name, sizeof(row->name), "unknown");
}

static struct refused *row_get(struct refusals *refusals, uint32_t tenant, uint32_t reason)
{
	struct refused key = { .of = { tenant, reason } }, *row;

	row = hash_table_find(&refusals->rows, &key.of);
	if (!row && refusals->rows.nr >= REFUSALS_MAX) {
		key.of.tenant = OTHERS;
		row = hash_table_find(&refusals->rows, &key.of);
	}
	if (row)
		return row;
	row = hash_table_add(&refusals->rows, &key.of);
	if (row)
		row_name(refusals, row);
	return row;
}

void refusals_count(struct refusals *refusals, uint32_t tenant, enum refusal reason)
{
	struct refused *row;

	if (!refusals)
		return;
	if (!(tenant & TENANT_CONTAINER) && tenant & TENANT_PROCESS)
		tenant = 0;
	row = row_get(refusals, tenant, reason);
	if (row)
		row->count++;
}

void refusals_name(struct refusals *refusals, uint32_t tenant, const char *name)
{
	struct refused *row;

	hash_table_each(&refusals->rows, row)
		if (row->of.tenant == tenant && !row->name[0])
			clean_text(row->name, sizeof(row->name), name, strlen(name));
}

void refusals_name_rest(struct refusals *refusals)
{
	struct refused *row;

	hash_table_each(&refusals->rows, row)
		if (!row->name[0])
			snprintf(row->name, sizeof(row->name), "container #%08" PRIx32,
				 row->of.tenant);
	refusals->nameless = false;
}

static bool log_is_due(const struct refused *row, uint64_t now_ns)
{
	return row->name[0] && row->count > row->logged &&
	       (!row->logged ||
		now_ns - row->logged_ns > REFUSALS_LOG_AGAIN_SECONDS * NS_PER_SECOND);
}

const struct refused *refusals_log_next(struct refusals *refusals, uint64_t now_ns)
{
	struct refused *row;

	if (refusals->log_tokens < REFUSALS_LOG_BURST &&
	    now_ns - refusals->log_ns >= REFUSALS_LOG_SECONDS * NS_PER_SECOND) {
		refusals->log_tokens++;
		refusals->log_ns = now_ns;
	}
	hash_table_each(&refusals->rows, row) {
		if (!refusals->log_tokens || !log_is_due(row, now_ns))
			continue;
		if (refusals->log_tokens-- == REFUSALS_LOG_BURST)
			refusals->log_ns = now_ns;
		row->logged_ns = now_ns;
		row->logged = row->count;
		return row;
	}
	return NULL;
}
