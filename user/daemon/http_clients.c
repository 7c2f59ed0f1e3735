// SPDX-License-Identifier: Apache-2.0
#include "daemon/http_clients.h"

#include <stddef.h>
#include <sys/socket.h>

#include "base/time.h"

#define ROOM 4 /* connections that are kept free as long as somebody can make room */

static struct http_client *client_of(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

/* The one that has had most time for its request; NULL: all that are there have asked. */
static struct http_client *slowest(struct http_clients *clients)
{
	struct http_client *found = NULL, *client;

	for (client = clients->all; client < clients->all + HTTP_MAX_CLIENTS; client++)
		if (client->used && !client->asked && client->fd >= 0 &&
		    (!found || client->due_ns < found->due_ns))
			found = client;
	return found;
}

/* Its descriptor stays the server's. */
static void hang_up(struct http_client *client)
{
	shutdown(client->fd, SHUT_RDWR);
	client->fd = -1;
}

static void client_add(struct http_clients *clients, struct MHD_Connection *connection,
		       void **socket_context)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct http_client *client, *added = NULL;
	unsigned int nr = 0;

	for (client = clients->all; client < clients->all + HTTP_MAX_CLIENTS; client++) {
		nr += client->used && client->fd >= 0;
		if (!client->used && !added)
			added = client;
	}
	if (!added || !info)
		return;
	client = nr + ROOM >= HTTP_MAX_CLIENTS ? slowest(clients) : NULL;
	if (client)
		hang_up(client);
	*added = (struct http_client){
		.used = true,
		.fd = info->connect_fd,
		.due_ns = time_monotonic_ns() + HTTP_REQUEST_SECONDS * NS_PER_SECOND,
	};
	*socket_context = added;
}

void http_clients_notify(void *arg, struct MHD_Connection *connection, void **socket_context,
			 enum MHD_ConnectionNotificationCode code)
{
	struct http_client *client = *socket_context;

	if (code == MHD_CONNECTION_NOTIFY_STARTED)
		client_add(arg, connection, socket_context);
	else if (client)
		client->used = false;
}

void http_client_asked(struct MHD_Connection *connection, bool later)
{
	struct http_client *client = client_of(connection);

	if (!client)
		return;
	client->asked = true;
	client->due_ns =
		later ? UINT64_MAX : time_monotonic_ns() + HTTP_ANSWER_SECONDS * NS_PER_SECOND;
}

void http_client_over(struct MHD_Connection *connection)
{
	struct http_client *client = client_of(connection);

	if (!client)
		return;
	client->asked = false;
	client->due_ns = time_monotonic_ns() + HTTP_REQUEST_SECONDS * NS_PER_SECOND;
}

void http_clients_limit(struct http_clients *clients, uint64_t now_ns)
{
	struct http_client *client;

	for (client = clients->all; client < clients->all + HTTP_MAX_CLIENTS; client++)
		if (client->used && client->fd >= 0 && now_ns >= client->due_ns)
			hang_up(client);
}
