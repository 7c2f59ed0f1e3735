// SPDX-License-Identifier: Apache-2.0
#include "daemon/token_tries.h"

#include "base/time.h"

/* The entry of the address; NULL: it has none. */
static const struct token_try *entry_find(const struct token_tries *tries,
					  const struct http_address *address)
{
	const struct token_try *entry = tries->all;

	for (; entry < tries->all + TOKEN_TRIES_ADDRESSES; entry++)
		if (entry->nr_wrong && http_address_is(&entry->address, address))
			return entry;
	return NULL;
}

uint64_t token_tries_wait_ns(const struct token_tries *tries, const struct http_address *address,
			     uint64_t now_ns)
{
	const struct token_try *entry = entry_find(tries, address);
	uint64_t seconds, until_ns;

	if (!entry || entry->nr_wrong < TOKEN_TRIES_FREE)
		return 0;
	seconds = TOKEN_TRIES_MAX_SECONDS;
	if (entry->nr_wrong - TOKEN_TRIES_FREE < 4)
		seconds = 1U << (entry->nr_wrong - TOKEN_TRIES_FREE);
	until_ns = entry->last_ns + seconds * NS_PER_SECOND;
	return until_ns > now_ns ? until_ns - now_ns : 0;
}

void token_tries_wrong(struct token_tries *tries, const struct http_address *address,
		       uint64_t now_ns)
{
	const struct token_try *found = entry_find(tries, address);
	struct token_try *entry = tries->all, *oldest = entry;

	if (found) {
		entry = &tries->all[found - tries->all];
	} else {
		for (; entry < tries->all + TOKEN_TRIES_ADDRESSES; entry++)
			if (!entry->nr_wrong ||
			    (oldest->nr_wrong && entry->last_ns < oldest->last_ns))
				oldest = entry;
		entry = oldest;
		*entry = (struct token_try){ .address = *address };
	}
	if (now_ns - entry->last_ns > TOKEN_TRIES_KEEP_SECONDS * NS_PER_SECOND)
		entry->nr_wrong = 0;
	entry->nr_wrong++;
	entry->last_ns = now_ns;
}
