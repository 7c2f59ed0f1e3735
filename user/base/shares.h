/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_SHARES_H
#define BPFPROF_BASE_SHARES_H

/*
 * A limit that tenants share. A tenant may have as much as the whole limit leaves free: one tenant alone
 * reaches a half, a second one a quarter, and so on. So whoever comes late always finds room, however
 * much the others want.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash_table.h"

struct shares {
	size_t limit, used;
	struct hash_table tenants; /* those that have something */
};

void shares_init(struct shares *shares, size_t limit);
void shares_fini(struct shares *shares);
/* Takes amount for the tenant. False: the tenant has its share, or there is no memory; nothing is taken. */
bool shares_take(struct shares *shares, uint32_t tenant, size_t amount);
/* The amount that the tenant has taken. */
size_t shares_used(const struct shares *shares, uint32_t tenant);
/* Gives back what the tenant took. */
void shares_give(struct shares *shares, uint32_t tenant, size_t amount);

#endif
