/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_DAEMON_HTTP_ADDRESS_H
#define BPFPROF_DAEMON_HTTP_ADDRESS_H

/*
 * The address of a client, as the unit of limits. IPv4 is in its IPv6 form. Of other IPv6 addresses the
 * first 64 bits count, since one host usually has all addresses behind them.
 */

#include <stdbool.h>
#include <stdint.h>

struct sockaddr;

struct http_address {
	uint8_t bytes[16];
};

/* NULL, or a family that is not of IP: an address of its own, all zeros. */
void http_address_make(struct http_address *ret, const struct sockaddr *from);
bool http_address_is(const struct http_address *a, const struct http_address *b);

#endif
