/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_DAEMON_TOKEN_TRIES_H
#define BPFPROF_DAEMON_TOKEN_TRIES_H

/*
 * Wrong tokens by address of the client. After TOKEN_TRIES_FREE of them an address has to wait before
 * its next token is looked at: 1 s, then twice as long each time, TOKEN_TRIES_MAX_SECONDS at most.
 * TOKEN_TRIES_KEEP_SECONDS without a wrong one end that. A right token does not: whoever has one could guess
 * others without limit. When the table is full, the address whose last wrong token is the oldest is forgotten.
 */

#include <stddef.h>
#include <stdint.h>

#include "daemon/http_address.h"

#define TOKEN_TRIES_ADDRESSES 256
#define TOKEN_TRIES_FREE 10
#define TOKEN_TRIES_MAX_SECONDS 16
#define TOKEN_TRIES_KEEP_SECONDS 300

struct token_try {
	struct http_address address;
	uint64_t nr_wrong; /* 0: the entry is free */
	uint64_t last_ns; /* when the last wrong one came */
};

/* All zero: empty. */
struct token_tries {
	struct token_try all[TOKEN_TRIES_ADDRESSES];
};

/* The time until a token of the address may be looked at; 0: now. */
uint64_t token_tries_wait_ns(const struct token_tries *tries, const struct http_address *address,
			     uint64_t now_ns);
void token_tries_wrong(struct token_tries *tries, const struct http_address *address,
		       uint64_t now_ns);

#endif
