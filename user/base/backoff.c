// SPDX-License-Identifier: Apache-2.0
#include "base/backoff.h"

bool backoff_fail(struct backoff *backoff, uint64_t now_ns)
{
	backoff->due_ns = 0;
	if (backoff->nr_failed >= BACKOFF_TRIES)
		return false;
	backoff->due_ns = now_ns + (BACKOFF_FIRST_NS << backoff->nr_failed++);
	return true;
}

bool backoff_is_due(const struct backoff *backoff, uint64_t now_ns)
{
	return backoff->due_ns && now_ns >= backoff->due_ns;
}
