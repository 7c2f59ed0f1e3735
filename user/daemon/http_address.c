// SPDX-License-Identifier: Apache-2.0
#include "daemon/http_address.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#define HOST_BYTES 8 /* the part of an IPv6 address that one host has for itself */

void http_address_make(struct http_address *ret, const struct sockaddr *from)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)from;
	const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)from;

	*ret = (struct http_address){ { 0 } };
	if (from && from->sa_family == AF_INET) {
		ret->bytes[10] = ret->bytes[11] = 0xff;
		memcpy(ret->bytes + 12, &in->sin_addr, sizeof(in->sin_addr));
	} else if (from && from->sa_family == AF_INET6) {
		memcpy(ret->bytes, &in6->sin6_addr,
		       IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr) ||
				       IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr)
			       ? sizeof(ret->bytes)
			       : HOST_BYTES);
	}
}

bool http_address_is(const struct http_address *a, const struct http_address *b)
{
	return !memcmp(a, b, sizeof(*a));
}
