/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_REFUSALS_H
#define BPFPROF_BASE_REFUSALS_H

/*
 * Counts work that was refused or deferred, by tenant (tenant.h) and reason. The first REFUSALS_MAX pairs
 * have a row each, which stays; further ones count for "others". Calls need the lock of background.h.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/counters.h"
#include "base/hash_table.h"

#define REFUSALS_MAX 512
#define REFUSALS_NAME_BYTES 192
/* Rows to be logged: a burst, then one in so many seconds. A row is not logged again within an hour. */
#define REFUSALS_LOG_BURST 5
#define REFUSALS_LOG_SECONDS 15
#define REFUSALS_LOG_AGAIN_SECONDS 3600

/* Indexes of refusals_counters. */
enum refusal {
	REFUSAL_JOB,
	REFUSAL_LATE_JOB,
	REFUSAL_CALL,
	REFUSAL_FILE,
	REFUSAL_ID,
	REFUSAL_COPY,
	REFUSAL_MAPPINGS,
	REFUSAL_WALK,
	REFUSAL_CODE,
	REFUSAL_CONTAINER,
	REFUSAL_ENVIRONMENT,
	REFUSAL_NR,
};

extern const struct counter refusals_counters[];

struct refused {
	struct hash_node node;
	struct {
		uint32_t tenant, reason;
	} of;
	char name[REFUSALS_NAME_BYTES]; /* of the tenant; "": a container without a name yet */
	uint64_t count;
	uint64_t logged_ns, logged; /* when it was logged, and its count then */
};

struct refusals {
	struct hash_table rows; /* struct refused, in the order of their first refusals */
	bool nameless; /* some row has no name yet */
	uint64_t log_tokens, log_ns;
};

void refusals_init(struct refusals *refusals);
void refusals_fini(struct refusals *refusals); /* a zeroed struct is fine */
/* NULL: nothing is counted. */
void refusals_count(struct refusals *refusals, uint32_t tenant, enum refusal reason);

/* Names the rows of a container. */
void refusals_name(struct refusals *refusals, uint32_t tenant, const char *name);
/* Gives the rows that are still without a name the number of their tenant. */
void refusals_name_rest(struct refusals *refusals);

/* The next row to be logged, which counts as logged from now on; NULL: none, or none yet. */
const struct refused *refusals_log_next(struct refusals *refusals, uint64_t now_ns);

#endif
