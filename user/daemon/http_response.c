// SPDX-License-Identifier: Apache-2.0
/* The head of every answer of the server. */
#include "daemon/http_server.h"

#include <stdio.h>

#include "base/buf.h"

void http_response_headers(struct MHD_Response *response, const char *type)
{
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
	MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	/* A client that sends many requests at once gets one answer. */
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
}

struct MHD_Response *http_response(const struct http_reply *reply)
{
	const struct buf *body = reply->body;
	struct MHD_Response *response = MHD_create_response_from_buffer(
		body->len, body->data ? body->data : (void *)(uintptr_t) "", MHD_RESPMEM_MUST_COPY);
	char seconds[16];

	if (!response)
		return NULL;
	http_response_headers(response, reply->type);
	if (reply->status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, reply->allow);
	if (reply->status == MHD_HTTP_UNAUTHORIZED)
		MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE,
					"Bearer realm=\"bpfprof\"");
	if (reply->retry_seconds) {
		snprintf(seconds, sizeof(seconds), "%u", reply->retry_seconds);
		MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, seconds);
	}
	return response;
}
