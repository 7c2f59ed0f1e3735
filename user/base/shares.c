// SPDX-License-Identifier: Apache-2.0
#include "base/shares.h"

struct share {
	struct hash_node node;
	uint32_t tenant;
	size_t used;
};

void shares_init(struct shares *shares, size_t limit)
{
	*shares = (struct shares){ .limit = limit };
	hash_table_init(&shares->tenants, HASH_TABLE_BOUNDED, struct share, tenant);
}

void shares_fini(struct shares *shares)
{
	hash_table_clear(&shares->tenants);
}

size_t shares_used(const struct shares *shares, uint32_t tenant)
{
	const struct share *share = hash_table_find(&shares->tenants, &tenant);

	return share ? share->used : 0;
}

bool shares_take(struct shares *shares, uint32_t tenant, size_t amount)
{
	struct share *share = hash_table_find(&shares->tenants, &tenant);
	size_t has = share ? share->used : 0, left = shares->limit - shares->used;

	if (amount > left || has + amount > left - amount)
		return false;
	if (!share)
		share = hash_table_add(&shares->tenants, &tenant);
	if (!share)
		return false;
	share->used += amount;
	shares->used += amount;
	return true;
}

void shares_give(struct shares *shares, uint32_t tenant, size_t amount)
{
	struct share *share = hash_table_find(&shares->tenants, &tenant);

	if (!share)
		return;
	share->used -= amount;
	shares->used -= amount;
	if (!share->used)
		hash_table_remove(&shares->tenants, share);
}
