// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>

#include "base/time.h"
#include "daemon/token_tries.h"

static struct token_tries tries;

TestSuite(token_tries);

static const struct http_address *nr(unsigned int number)
{
	static struct http_address address;

	address.bytes[0] = (uint8_t)(number >> 8);
	address.bytes[1] = (uint8_t)number;
	return &address;
}

/* Tries of an address that asks as soon as it may, in seconds. */
Test(token_tries, slower_and_slower)
{
	static const unsigned int waits[] = { 1, 2, 4, 8, 16, 16, 16 };
	uint64_t now_ns = 1000 * NS_PER_SECOND;
	size_t i;

	for (i = 0; i < TOKEN_TRIES_FREE; i++) {
		cr_expect_eq(token_tries_wait_ns(&tries, nr(1), now_ns), 0, "%zu", i);
		token_tries_wrong(&tries, nr(1), now_ns);
	}
	for (i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
		cr_expect_eq(token_tries_wait_ns(&tries, nr(1), now_ns), waits[i] * NS_PER_SECOND);
		cr_expect_eq(token_tries_wait_ns(&tries, nr(2), now_ns), 0, "another address");
		now_ns += waits[i] * NS_PER_SECOND - 1;
		cr_expect_eq(token_tries_wait_ns(&tries, nr(1), now_ns), 1);
		now_ns++;
		cr_expect_eq(token_tries_wait_ns(&tries, nr(1), now_ns), 0);
		token_tries_wrong(&tries, nr(1), now_ns);
	}
}

Test(token_tries, forgotten)
{
	uint64_t now_ns = 1000 * NS_PER_SECOND;
	int i;

	for (i = 0; i < 2 * TOKEN_TRIES_FREE; i++)
		token_tries_wrong(&tries, nr(1), now_ns);
	cr_expect_gt(token_tries_wait_ns(&tries, nr(1), now_ns), 0);
	/* After a long time: all tries are free again. */
	now_ns += (TOKEN_TRIES_KEEP_SECONDS + 1) * NS_PER_SECOND;
	for (i = 0; i < TOKEN_TRIES_FREE; i++) {
		cr_expect_eq(token_tries_wait_ns(&tries, nr(1), now_ns), 0);
		token_tries_wrong(&tries, nr(1), now_ns);
	}
	cr_expect_gt(token_tries_wait_ns(&tries, nr(1), now_ns), 0);
}

/* More addresses than the table has room for: the one with the oldest wrong token goes. */
Test(token_tries, full)
{
	uint64_t now_ns = 1000 * NS_PER_SECOND;
	unsigned int i, k;

	for (i = 0; i < TOKEN_TRIES_ADDRESSES; i++)
		for (k = 0; k < TOKEN_TRIES_FREE; k++)
			token_tries_wrong(&tries, nr(i), now_ns + i);
	for (k = 0; k < TOKEN_TRIES_FREE; k++) /* the first once more: it is the newest now */
		token_tries_wrong(&tries, nr(0), now_ns + i);
	token_tries_wrong(&tries, nr(i), now_ns + i + 1);
	cr_expect_gt(token_tries_wait_ns(&tries, nr(0), now_ns + i), 0);
	cr_expect_eq(token_tries_wait_ns(&tries, nr(1), now_ns + i), 0);
	for (i = 2; i < TOKEN_TRIES_ADDRESSES; i++)
		cr_expect_gt(token_tries_wait_ns(&tries, nr(i), now_ns + i), 0, "%u", i);
}
