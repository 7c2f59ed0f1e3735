// SPDX-License-Identifier: Apache-2.0
#include "daemon/http_clients.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/time.h"

#define ROW(field, text)                                                                           \
	{                                                                                          \
		COUNTER_HTTP, #field, offsetof(struct http_refused, field), .help = (text),        \
									    .zero = 1              \
	}

const struct counter http_refused_counters[] = {
	ROW(too_many_of_address, "an address had more than 4 connections without a token: the one "
				 "that was furthest from "
				 "the end of its request or its answer for longest was closed"),
	ROW(too_many, "more than 32 connections: one of the address with most was closed"),
	ROW(request_too_slow, "a client did not send a whole request within 10 s"),
	ROW(answer_not_taken, "a client did not take its answer within 5 s"),
	{ 0 },
};

static struct http_client *client_of(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

static void state_set(struct http_client *client, enum http_client_state state)
{
	client->state = state;
	client->since_ns = time_monotonic_ns();
}

/*
 * Makes close(2) drop the rest of the answer, which would otherwise stay in the kernel for minutes.
 */
static void reset_on_close(int fd)
{
	const struct linger now = { .l_onoff = 1 };

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

static void cut(struct http_client *client)
{
	reset_on_close(client->fd);
	if (client->state == HTTP_CLIENT_LEAVING) {
		close(client->fd);
		client->state = HTTP_CLIENT_FREE;
	} else { /* the server closes the descriptor */
		shutdown(client->fd, SHUT_RDWR);
		client->state = HTTP_CLIENT_CUT;
	}
}

/* Does the kernel still hold a part of the answer? The end of the stream counts as one byte. */
static bool has_unsent(int fd)
{
	int nr = 0;

	return !ioctl(fd, SIOCOUTQ, &nr) && nr > 1;
}

static void client_add(struct http_clients *clients, struct MHD_Connection *connection,
		       void **socket_context)
{
	const union MHD_ConnectionInfo *fd =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	const union MHD_ConnectionInfo *address =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	struct http_client *client = clients->all;
	const struct http_client *end = client + sizeof(clients->all) / sizeof(clients->all[0]);

	while (client < end && client->state != HTTP_CLIENT_FREE)
		client++;
	if (client == end) {
		clients->refused.too_many++;
		reset_on_close(fd->connect_fd);
		shutdown(fd->connect_fd, SHUT_RDWR);
		return;
	}
	*client = (struct http_client){ .is_new = true, .fd = fd->connect_fd };
	http_address_make(&client->address, address ? address->client_addr : NULL);
	state_set(client, HTTP_CLIENT_ASKING);
	*socket_context = client;
}

/* The server closes its descriptor after this call. */
static void client_remove(struct http_client *client)
{
	bool leaves = client->state == HTTP_CLIENT_TAKING && has_unsent(client->fd);

	client->fd = leaves ? fcntl(client->fd, F_DUPFD_CLOEXEC, 0) : -1;
	client->state = client->fd >= 0 ? HTTP_CLIENT_LEAVING : HTTP_CLIENT_FREE;
}

void http_clients_notify(void *arg, struct MHD_Connection *connection, void **socket_context,
			 enum MHD_ConnectionNotificationCode code)
{
	if (code == MHD_CONNECTION_NOTIFY_STARTED)
		client_add(arg, connection, socket_context);
	else if (*socket_context)
		client_remove(*socket_context);
}

void http_client_asked(struct MHD_Connection *connection, bool later)
{
	struct http_client *client = client_of(connection);

	if (client && client->state == HTTP_CLIENT_ASKING)
		state_set(client, later ? HTTP_CLIENT_TRUSTED : HTTP_CLIENT_TAKING);
}

void http_clients_begin(struct http_clients *clients)
{
	size_t i;

	for (i = 0; i < sizeof(clients->all) / sizeof(clients->all[0]); i++)
		clients->all[i].is_new = false;
}

/* Do the limits apply to the client? */
static bool is_limited(const struct http_client *client)
{
	return client->state == HTTP_CLIENT_ASKING || client->state == HTTP_CLIENT_TAKING ||
	       client->state == HTTP_CLIENT_LEAVING;
}

/* Must a make room before b? */
static bool goes_before(const struct http_client *a, const struct http_client *b)
{
	bool asks = a->state == HTTP_CLIENT_ASKING;

	if (asks != (b->state == HTTP_CLIENT_ASKING))
		return asks;
	return a->since_ns < b->since_ns;
}

struct http_client *http_clients_excess(struct http_clients *clients, bool *ret_of_address)
{
	const size_t nr_all = sizeof(clients->all) / sizeof(clients->all[0]);
	struct http_client *found = NULL, *client, *other;
	size_t nr_present = 0, nr_same, nr_most = 0;

	for (client = clients->all; client < clients->all + nr_all; client++) {
		nr_present += is_limited(client) || client->state == HTTP_CLIENT_TRUSTED;
		if (!is_limited(client) || client->is_new)
			continue;
		nr_same = 0;
		for (other = clients->all; other < clients->all + nr_all; other++)
			nr_same += is_limited(other) &&
				   http_address_is(&other->address, &client->address);
		if (nr_same > nr_most || (nr_same == nr_most && goes_before(client, found))) {
			found = client;
			nr_most = nr_same;
		}
	}
	*ret_of_address = nr_most > HTTP_MAX_PER_ADDRESS;
	return *ret_of_address || nr_present > HTTP_MAX_CLIENTS ? found : NULL;
}

/* Cuts clients that are late, and frees the places of clients that have taken their answer. */
static void clients_time(struct http_clients *clients, uint64_t now_ns)
{
	const size_t nr_all = sizeof(clients->all) / sizeof(clients->all[0]);
	struct http_client *client;
	uint64_t limit_ns;

	for (client = clients->all; client < clients->all + nr_all; client++) {
		if (client->state == HTTP_CLIENT_LEAVING && !has_unsent(client->fd)) {
			close(client->fd);
			client->state = HTTP_CLIENT_FREE;
		}
		limit_ns = (client->state == HTTP_CLIENT_ASKING ? HTTP_REQUEST_SECONDS
								: HTTP_ANSWER_SECONDS) *
			   NS_PER_SECOND;
		if (!is_limited(client) || now_ns < client->since_ns + limit_ns)
			continue;
		if (client->state == HTTP_CLIENT_ASKING)
			clients->refused.request_too_slow++;
		else
			clients->refused.answer_not_taken++;
		cut(client);
	}
}

void http_clients_limit(struct http_clients *clients, uint64_t now_ns)
{
	struct http_client *client;
	bool of_address;

	clients_time(clients, now_ns);
	while ((client = http_clients_excess(clients, &of_address))) {
		if (of_address)
			clients->refused.too_many_of_address++;
		else
			clients->refused.too_many++;
		cut(client);
	}
}

void http_clients_fini(struct http_clients *clients)
{
	size_t i;

	for (i = 0; i < sizeof(clients->all) / sizeof(clients->all[0]); i++)
		if (clients->all[i].state == HTTP_CLIENT_LEAVING)
			close(clients->all[i].fd);
}
