// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/time.h"
#include "daemon/http_clients.h"

static struct http_clients clients;

TestSuite(http_clients);

static struct http_address address(const char *text)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
	struct http_address ret;
	bool has_colon = strchr(text, ':');

	cr_assert_eq(has_colon ? inet_pton(AF_INET6, text, &in6.sin6_addr)
			       : inet_pton(AF_INET, text, &in.sin_addr),
		     1, "%s", text);
	http_address_make(&ret, has_colon ? (struct sockaddr *)&in6 : (struct sockaddr *)&in);
	return ret;
}

Test(http_clients, addresses)
{
	static const struct {
		const char *a, *b;
		bool same;
	} cases[] = {
		{ "10.0.0.1", "10.0.0.1", true },
		{ "10.0.0.1", "10.0.0.2", false },
		{ "10.0.0.1", "::ffff:10.0.0.1", true },
		{ "::ffff:10.0.0.2", "::ffff:10.0.0.1", false },
		{ "2001:db8::1", "2001:db8::ffff:1", true }, /* of one host */
		{ "2001:db8::1", "2001:db8:0:1::1", false },
		{ "::1", "::", false },
		{ "::1", "127.0.0.1", false },
	};
	struct http_address a, b;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		a = address(cases[i].a);
		b = address(cases[i].b);
		cr_expect_eq(http_address_is(&a, &b), cases[i].same, "%s %s", cases[i].a,
			     cases[i].b);
	}
}

/* In the order of time. */
static struct http_client *add(enum http_client_state state, const char *from)
{
	struct http_client *client = clients.all;
	uint64_t nr = 1;

	for (; client->state != HTTP_CLIENT_FREE; client++)
		nr++;
	*client = (struct http_client){
		.state = state, .address = address(from), .fd = -1, .since_ns = nr
	};
	return client;
}

static struct http_client *excess(bool of_address)
{
	bool was_of_address;
	struct http_client *client = http_clients_excess(&clients, &was_of_address);

	cr_expect(!client || was_of_address == of_address);
	return client;
}

/*
 * A fifth connection from an address closes the oldest one that has no request, or else the oldest.
 */
Test(http_clients, of_one_address)
{
	struct http_client *taking, *asking, *leaving, *younger;

	for (int i = 0; i < 4; i++)
		add(HTTP_CLIENT_ASKING, "10.0.0.1");
	cr_expect_null(excess(true));
	memset(&clients, 0, sizeof(clients));

	add(HTTP_CLIENT_ASKING, "10.0.0.9"); /* of another */
	taking = add(HTTP_CLIENT_TAKING, "10.0.0.1");
	leaving = add(HTTP_CLIENT_LEAVING, "10.0.0.1");
	asking = add(HTTP_CLIENT_ASKING, "10.0.0.1");
	younger = add(HTTP_CLIENT_ASKING, "10.0.0.1");
	cr_expect_null(excess(true));
	add(HTTP_CLIENT_ASKING, "10.0.0.1")->is_new = true;
	cr_expect_eq(excess(true), asking);
	asking->state = HTTP_CLIENT_CUT;
	cr_expect_null(excess(true));
	add(HTTP_CLIENT_ASKING, "10.0.0.1")->is_new = true;
	cr_expect_eq(excess(true), younger);
	younger->state = HTTP_CLIENT_FREE;
	add(HTTP_CLIENT_ASKING, "10.0.0.1")->is_new = true;
	cr_expect_eq(excess(true), taking);
	taking->state = HTTP_CLIENT_CUT;
	add(HTTP_CLIENT_ASKING, "10.0.0.1")->is_new = true;
	cr_expect_eq(excess(true), leaving);
}

/* Clients with the token are not counted to the address, and never go. */
Test(http_clients, trusted)
{
	for (int i = 0; i < 7; i++)
		add(HTTP_CLIENT_TRUSTED, "10.0.0.1");
	for (int i = 0; i < 4; i++)
		add(HTTP_CLIENT_TAKING, "10.0.0.1");
	cr_expect_null(excess(true));
	cr_expect_eq(add(HTTP_CLIENT_ASKING, "10.0.0.1"), excess(true));
}

/* Newcomers alone are not cut: their request has not been looked for. */
Test(http_clients, newcomers)
{
	for (int i = 0; i < 10; i++)
		add(HTTP_CLIENT_ASKING, "10.0.0.1")->is_new = true;
	cr_expect_null(excess(true));
	http_clients_begin(&clients);
	cr_expect_eq(excess(true), &clients.all[0]);
}

/* Over the limit of all an address with many makes room for one with few, even if that is slower. */
Test(http_clients, of_all)
{
	struct http_client *first;
	char from[16];

	add(HTTP_CLIENT_ASKING, "10.0.1.1"); /* the oldest */
	for (int i = 0; i < 31; i++) {
		snprintf(from, sizeof(from), "10.0.0.%d", i / 3);
		add(HTTP_CLIENT_TAKING, from);
	}
	cr_expect_null(excess(false));
	add(HTTP_CLIENT_ASKING, "10.0.1.2")->is_new = true;
	first = &clients.all[1];
	cr_expect_eq(excess(false), first);
	first->state = HTTP_CLIENT_CUT;
	cr_expect_null(excess(false));
}

/* The state after so many seconds, and the counter that has moved. */
Test(http_clients, times)
{
	static const struct {
		enum http_client_state state;
		unsigned int seconds;
		enum http_client_state after;
		struct http_refused refused;
	} cases[] = {
		{ HTTP_CLIENT_ASKING, 9, HTTP_CLIENT_ASKING, { 0 } },
		{ HTTP_CLIENT_ASKING, 10, HTTP_CLIENT_CUT, { .request_too_slow = 1 } },
		{ HTTP_CLIENT_TAKING, 4, HTTP_CLIENT_TAKING, { 0 } },
		{ HTTP_CLIENT_TAKING, 5, HTTP_CLIENT_CUT, { .answer_not_taken = 1 } },
		{ HTTP_CLIENT_TRUSTED, 1000, HTTP_CLIENT_TRUSTED, { 0 } },
		{ HTTP_CLIENT_CUT, 1000, HTTP_CLIENT_CUT, { 0 } },
	};
	struct http_client *client;
	int pair[2];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		memset(&clients, 0, sizeof(clients));
		cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
		client = add(cases[i].state, "10.0.0.1");
		client->fd = pair[0];
		client->since_ns = NS_PER_SECOND;
		http_clients_limit(&clients, (1 + cases[i].seconds) * NS_PER_SECOND);
		cr_expect_eq(client->state, cases[i].after, "%zu: %d", i, client->state);
		cr_expect(!memcmp(&clients.refused, &cases[i].refused, sizeof(clients.refused)),
			  "%zu", i);
		close(pair[0]);
		close(pair[1]);
	}
}

/* One that leaves has its place until it has taken everything. */
Test(http_clients, leaving)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	const size_t size = 8 << 20;
	char *bytes = calloc(1, size); /* in a static array, each test would search it for leaks */
	socklen_t len = sizeof(in);
	struct http_client *client;
	int listening = socket(AF_INET, SOCK_STREAM, 0), reader = socket(AF_INET, SOCK_STREAM, 0);
	uint64_t left;

	cr_assert(!bind(listening, (struct sockaddr *)&in, len) && !listen(listening, 1) &&
		  !getsockname(listening, (struct sockaddr *)&in, &len) &&
		  !connect(reader, (struct sockaddr *)&in, len));
	client = add(HTTP_CLIENT_LEAVING, "127.0.0.1");
	client->fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK);
	client->since_ns = NS_PER_SECOND;
	left = (uint64_t)send(client->fd, bytes, size, 0);
	cr_assert(left > 0 && left < size);
	http_clients_limit(&clients, 5 * NS_PER_SECOND);
	cr_expect_eq(client->state, HTTP_CLIENT_LEAVING);
	while (left)
		left -= (uint64_t)recv(reader, bytes, size, 0);
	for (int i = 0; i < 1000 && client->state == HTTP_CLIENT_LEAVING; i++) {
		usleep(1000); /* the receipt comes back */
		http_clients_limit(&clients, 5 * NS_PER_SECOND);
	}
	cr_expect_eq(client->state, HTTP_CLIENT_FREE);
	cr_expect_eq(clients.refused.answer_not_taken, 0);
	cr_expect_eq(recv(reader, bytes, size, 0), 0); /* its end, and no error */
	close(reader);
	close(listening);
	free(bytes);
}
